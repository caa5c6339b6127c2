"""What stands around the primaries: the sentinels that choose one, and the cluster that they are the nodes of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from redis.exceptions import ResponseError

from .addresses import Address, Target
from .connections import Broken, Command, Link, Reply, connection_options, make_connection
from .errors import ConfigurationError
from .findings import Finding, Level
from .keys import SLOTS
from .settings import LogSettings
from .slots import SlotRange, read_view

ENOUGH_SENTINELS = 3
LONG_MS = 8_000
"""An append gives up after ten seconds by default: by then somebody else should have taken over."""


async def ask(address: Address, url: str, settings: LogSettings, commands: Sequence[Command]) -> list[Reply] | None:
    """One server's answers, nothing when it does not answer. Raises: ConfigurationError on refused credentials."""
    options = {**connection_options(url, settings), "db": 0}
    link = Link(lambda purpose: make_connection(options, purpose, address), "doctor", settings)
    try:
        return await link.exchange(commands)
    except Broken:
        return None
    finally:
        await link.close()


# -- sentinels -------------------------------------------------------------------------------------------------------


async def examine_sentinels(target: Target, settings: LogSettings) -> list[Finding]:
    """Whether the sentinels are many enough, agree, and would act in time. Raises: ConfigurationError."""
    commands = [("SENTINEL", "CKQUORUM", target.service), ("SENTINEL", "MASTER", target.service)]
    answers = {
        f"{address[0]}:{address[1]}": await ask(address, target.sentinel_url, settings, commands)
        for address in target.addresses
    }
    return judge_sentinels(target.service, answers)


def judge_sentinels(service: str, answers: Mapping[str, list[Reply] | None]) -> list[Finding]:
    """The findings in what each sentinel answered to CKQUORUM and MASTER, ``None`` for silence."""
    silent = [name for name, answer in answers.items() if answer is None]
    strangers = [name for name, answer in answers.items() if answer and isinstance(answer[1], ResponseError)]
    known = {
        name: (answer[0], _pairs(answer[1]))
        for name, answer in answers.items()
        if answer and not isinstance(answer[1], ResponseError)
    }
    subject = "sentinels"
    if not known:
        advice = f"start them, or name those that watch {service}"
        return [Finding(subject, "failure", f"none of {len(answers)} knows {service}", advice)]
    fields = next(iter(known.values()))[1]
    seen = int(fields.get("num-other-sentinels", 0)) + 1
    found = f"{len(known)} of {len(answers)} answer, {seen} know each other, quorum {fields.get('quorum', '?')}"
    refusals = [str(quorum) for quorum, _ in known.values() if isinstance(quorum, ResponseError)]
    named = Counter(f"{primary['ip']}:{primary['port']}" for _, primary in known.values())
    if refusals:
        advice = "start sentinels until the quorum and a majority are there: nobody would take over now"
        return [Finding(subject, "failure", f"{found}: {refusals[0]}", advice), _delay(fields)]
    if len(named) > 1:
        advice = "wait for the failover to end; if it does not, let the sentinels reach each other"
        return [Finding(subject, "warning", f"{found}; they name {' and '.join(named)}", advice), _delay(fields)]
    if silent or strangers:
        advice = "start the others, let them watch the same service, or drop them from the URL"
        found += f"; not {', '.join(silent + strangers)}"
        return [Finding(subject, "warning", found, advice), _delay(fields)]
    if seen < ENOUGH_SENTINELS:
        advice = "run three sentinels on machines of their own: fewer cannot outvote one that is cut off"
        return [Finding(subject, "warning", found, advice), _delay(fields)]
    return [Finding(subject, "ok", found), _delay(fields)]


def _delay(fields: Mapping[str, str]) -> Finding:
    after_ms = int(fields.get("down-after-milliseconds", 0))
    return _takeover(after_ms, f"set down-after-milliseconds {LONG_MS // 2}")


def _takeover(after_ms: int, setting: str) -> Finding:
    found = f"a primary counts as dead after {after_ms / 1000:g} s"
    if after_ms > LONG_MS:
        return Finding("takeover", "warning", found, f"{setting}: appends wait for ten seconds")
    return Finding("takeover", "ok", found)


# -- clusters --------------------------------------------------------------------------------------------------------

CLUSTER_QUESTIONS: Sequence[Command] = (
    ("CLUSTER", "SLOTS"),
    ("CLUSTER", "NODES"),
    ("CLUSTER", "INFO"),
    ("CONFIG", "GET", "cluster-node-timeout"),
)


async def examine_cluster(target: Target, settings: LogSettings) -> tuple[list[SlotRange], list[Finding]]:
    """The slots as the first node that answers sees them, and what is to be said of the whole.

    Raises: ConfigurationError when it is no cluster, or the credentials are refused.
    """
    for address in target.addresses:
        if (answers := await ask(address, target.url, settings, CLUSTER_QUESTIONS)) is not None:
            return judge_cluster(answers, address)
    return [], []


def judge_cluster(answers: Sequence[Reply], asked: Address) -> tuple[list[SlotRange], list[Finding]]:
    """As ``examine_cluster``, from one node's answers to ``CLUSTER_QUESTIONS``. Raises: ConfigurationError."""
    slots, nodes, info, timeout = answers
    for reply in (slots, nodes, info):
        if isinstance(reply, ResponseError):
            raise ConfigurationError(f"this server says nothing of a cluster: {reply}")
    view = read_view(slots, nodes, asked)
    state = dict(line.split(":", 1) for line in bytes(info).decode().splitlines() if ":" in line)
    findings = [_coverage(view, state.get("cluster_state", "unknown")), _spares(view)]
    moving = sorted(word for line in bytes(nodes).decode().splitlines() for word in line.split()[8:] if word[0] == "[")
    if moving:
        advice = "finish it (redis-cli --cluster fix): the sessions of such a slot wait for as long as it takes"
        findings.append(Finding("migration", "warning", f"slots on their way: {' '.join(moving)}", advice))
    else:
        findings.append(Finding("migration", "ok", "no slot is on its way"))
    pairs = timeout if isinstance(timeout, dict) else dict(zip(*[iter(_list(timeout))] * 2, strict=True))
    if value := pairs.get(b"cluster-node-timeout"):
        findings.append(_takeover(int(value), f"set cluster-node-timeout {LONG_MS // 2}"))
    return view, findings


def _coverage(view: Sequence[SlotRange], state: str) -> Finding:
    served = sum(one.last - one.first + 1 for one in view)
    found = f"{len({one.primary for one in view})} primaries serve {served} of {SLOTS} slots, state {state}"
    if served < SLOTS:
        return Finding("slots", "failure", found, "give every slot to a primary: some sessions can live nowhere")
    level: Level = "ok" if state == "ok" else "failure"
    return Finding("slots", level, found, "" if level == "ok" else "let the nodes reach each other")


def _spares(view: Sequence[SlotRange]) -> Finding:
    alone = sorted({f"{one.primary[0]}:{one.primary[1]}" for one in view if not one.replicas})
    if alone:
        advice = "give each primary a replica: with it go its sessions, and by default the whole cluster"
        return Finding("spares", "warning", f"no replica: {', '.join(alone)}", advice)
    return Finding("spares", "ok", "every primary has a replica")


def _list(reply: Reply) -> Sequence[Reply]:
    return reply if isinstance(reply, list | tuple) else ()


def _pairs(fields: Reply) -> dict[str, str]:
    pairs = fields.items() if isinstance(fields, dict) else zip(fields[::2], fields[1::2], strict=True)
    return {name.decode(): value.decode() for name, value in pairs}
