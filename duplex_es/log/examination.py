"""A store looked at from all sides: what would break a promise, what would weaken one, and which setting to change.

Where ``fitness`` is the gate that every process passes, this is what an operator asks before and after a change.
Nothing is left behind in the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from redis.exceptions import ResponseError

from .addresses import Target, parse_store_url
from .connections import (
    Argument,
    Command,
    ConnectionFactory,
    Exchange,
    Link,
    Reply,
    connection_factory,
    connection_options,
    make_connection,
)
from .durability import witnesses
from .errors import ConfigurationError, LogUnavailable
from .findings import Finding, together
from .fitness import LOWEST_VERSION
from .keys import FLEET_TAG, PARTITION_SLOTS, TAGS
from .lanes import Lane
from .scripts import LIBRARY, library
from .sentinel import SentinelNode
from .settings import LogSettings
from .surroundings import examine_cluster, examine_sentinels

TRIALS, TRIAL_BYTES, TRIAL_TTL_S = 50, 4_096, 30
CONFIGURED = ("appendfsync", "min-replicas-to-write")
SKEW_S = 1.0
SLOW_MS, TOO_SLOW_MS = 5.0, 50.0
FULL, TOO_FULL = 0.75, 0.9


async def examine(url: str, settings: LogSettings | None = None) -> list[Finding]:
    """Look at the store behind ``url``; one finding for each subject, always in the same order.

    Behind sentinels it is the primary that is looked at, on a cluster every primary.

    Raises: LogUnavailable when it does not answer, ConfigurationError when it refuses the credentials, ValueError for
    a URL that is none.
    """
    settings = settings or LogSettings(append_timeout_s=3.0)
    target = parse_store_url(url)
    if target.kind == "server":
        return await _examined(connection_factory(url, settings), settings)
    if target.kind == "cluster":
        return await _examine_nodes(target, settings)
    around = await examine_sentinels(target, settings)
    primary = SentinelNode(target, settings)
    try:
        return [*around, *await _examined(primary.connect, settings)]
    finally:
        await primary.close()


async def _examine_nodes(target: Target, settings: LogSettings) -> list[Finding]:
    view, around = await examine_cluster(target, settings)
    if not around:
        raise LogUnavailable("none of its nodes answers")
    options = {**connection_options(target.url, settings), "db": 0}
    by_node: dict[str, list[Finding]] = {}
    for address in dict.fromkeys(served.primary for served in view):
        ranges = [served for served in view if served.primary == address]
        own = next(
            (p for p, one in enumerate(PARTITION_SLOTS) if any(r.first <= one <= r.last for r in ranges)), None
        )
        connect = partial(make_connection, options, address=address)
        try:
            found = await _examined(connect, settings, in_cluster=True, tag=None if own is None else TAGS[own])
        except LogUnavailable as error:
            found = [Finding("nodes", "failure", f"no answer: {error}", "start it, or let a replica take over")]
        by_node[f"{address[0]}:{address[1]}"] = found
    return [*around, *together(by_node)]


async def _examined(
    connect: ConnectionFactory, settings: LogSettings, *, in_cluster: bool = False, tag: str | None = FLEET_TAG
) -> list[Finding]:
    lane = Lane(Link(connect, "doctor", settings), settings)
    try:
        return await examine_through(lane.run, in_cluster=in_cluster, tag=tag)
    finally:
        await lane.close()


async def examine_through(
    exchange: Exchange,
    *,
    in_cluster: bool = False,
    tag: str | None = FLEET_TAG,
    wall_s: Callable[[], float] = time.time,
    clock_s: Callable[[], float] = time.perf_counter,
) -> list[Finding]:
    """As ``examine``, over a connection that is there, to a node that serves the slot of ``tag`` if of any."""
    asked: list[Command] = [("INFO",), *(("CONFIG", "GET", name) for name in CONFIGURED)]
    asked.append(("FUNCTION", "LIST", "LIBRARYNAME", LIBRARY, "WITHCODE"))
    info_reply, *configured, functions = await exchange(asked)
    before_s = wall_s()
    (store_time,) = await exchange([("TIME",)])
    middle_s = (before_s + wall_s()) / 2
    if isinstance(info_reply, ResponseError):
        raise ConfigurationError(f"the store forbids INFO, without which nothing can be said: {info_reply}")
    info = _fields(info_reply)
    config = {name: _setting(reply, name) for name, reply in zip(CONFIGURED, configured, strict=True)}
    findings = [
        _version(info),
        *([] if in_cluster else [_shape(info)]),
        _eviction(info),
        _memory(info),
        _persistence(info, config["appendfsync"]),
        _replication(info, config["min-replicas-to-write"]),
        _durability(info),
        _clock(store_time, middle_s),
        _functions(functions),
    ]
    # A replica takes no appends; that it is one was said above.
    if info.get("role") != "slave" and tag is not None:
        findings.append(await _latency(exchange, f"dx:{tag}:trial", clock_s))
    return findings


def _version(info: Mapping[str, str]) -> Finding:
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version", info.get("redis_version", "0"))
    # Valkey also says which Redis it is compatible to.
    parts = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2])
    if parts < LOWEST_VERSION:
        return Finding("version", "failure", f"{name} {version}", "use Redis 7.0 or later, or Valkey")
    return Finding("version", "ok", f"{name} {version}")


def _shape(info: Mapping[str, str]) -> Finding:
    if info.get("cluster_enabled") == "1":
        advice = "write redis+cluster:// and name some of its nodes: this one serves only its own slots"
        return Finding("topology", "failure", "Redis Cluster", advice)
    return Finding("topology", "ok", info.get("redis_mode", info.get("server_mode", "standalone")))


def _eviction(info: Mapping[str, str]) -> Finding:
    policy, limit = info.get("maxmemory_policy", "unknown"), info.get("maxmemory", "0")
    if policy == "noeviction":
        return Finding("eviction", "ok", policy)
    advice = "set maxmemory-policy noeviction: any other drops sessions that are going on"
    # Without a limit nothing is evicted, until somebody sets one.
    return Finding("eviction", "failure" if limit != "0" else "warning", policy, advice)


def _memory(info: Mapping[str, str]) -> Finding:
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    machine = int(info.get("total_system_memory", 0))
    whole = limit or machine
    found = f"{_mib(used)} used of {_mib(whole)} ({'maxmemory' if limit else 'the machine, no maxmemory'})"
    if whole and used > whole * TOO_FULL:
        return Finding("memory", "failure", found, "appends will be refused: raise maxmemory or shorten retention")
    if whole and used > whole * FULL:
        return Finding("memory", "warning", found, "raise maxmemory, or shorten the retention of sound and sessions")
    return Finding("memory", "ok", found)


def _persistence(info: Mapping[str, str], fsync: str | None) -> Finding:
    if info.get("loading") == "1":
        return Finding("persistence", "failure", "still loading its data", "wait until it has")
    if info.get("aof_enabled") != "1":
        advice = "set appendonly yes and appendfsync everysec: a restart loses every session now"
        return Finding("persistence", "warning", "no append-only file", advice)
    if info.get("aof_last_write_status", "ok") != "ok":
        advice = "look at the disk: the append-only file cannot be written"
        return Finding("persistence", "failure", "the last write of the append-only file failed", advice)
    found = f"append-only file, fsync {fsync or 'unknown (CONFIG is forbidden)'}"
    if fsync == "no":
        return Finding("persistence", "warning", found, "set appendfsync everysec: a power cut loses half a minute now")
    return Finding("persistence", "ok", found)


def _replication(info: Mapping[str, str], least: str | None) -> Finding:
    if info.get("role") == "slave":
        primary = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        return Finding(
            "replication", "failure", f"a replica of {primary}", "give the primary's URL: this one is read-only"
        )
    replicas = int(info.get("connected_slaves", 0))
    found = f"primary, {replicas} replica{'' if replicas == 1 else 's'}"
    if not replicas:
        advice = "add a replica: without one the sessions are away for as long as this node is"
        return Finding("replication", "warning", found, advice)
    if least == "0":
        advice = "set min-replicas-to-write 1: a primary that is cut off goes on taking writes that will be lost"
        return Finding("replication", "warning", found, advice)
    return Finding("replication", "ok", found)


def _durability(info: Mapping[str, str]) -> Finding:
    asked = witnesses(info, LogSettings())
    if info.get("role") == "slave":
        return Finding("durability", "ok", "a matter of its primary")
    if asked is None:
        advice = "no frame can be said to be safe, and the level strict is refused: set appendonly yes"
        if info.get("aof_enabled") == "1":
            advice = "add a replica, or use Redis 7.2 or Valkey: this version cannot be asked what is on its disk"
        return Finding("durability", "warning", "nobody can vouch for what was written", advice)
    return Finding("durability", "ok", f"vouched for by {'the disk' if asked.disk else 'one replica'}")


def _clock(store_time: Reply, here_s: float) -> Finding:
    if isinstance(store_time, ResponseError):
        return Finding("clock", "failure", f"TIME is refused: {store_time}", "allow TIME: leases are on this clock")
    skew_s = int(store_time[0]) + int(store_time[1]) / 1e6 - here_s
    found = f"{skew_s:+.3f} s to this machine"
    if abs(skew_s) > SKEW_S:
        advice = "let both machines follow one time server: leases do not mind, but records carry times of both"
        return Finding("clock", "warning", found, advice)
    return Finding("clock", "ok", found)


def _functions(listed: Reply) -> Finding:
    if isinstance(listed, ResponseError):
        advice = "allow FUNCTION and FCALL; until then the same scripts run by EVALSHA"
        return Finding("functions", "warning", f"library {LIBRARY}: {listed}", advice)
    if not listed:
        return Finding("functions", "ok", f"library {LIBRARY} is not there yet; the first process loads it")
    if library().encode() in _strings(listed):
        return Finding("functions", "ok", f"library {LIBRARY} of this build")
    advice = "finish the rollout: the next process of this build that starts replaces it"
    return Finding("functions", "warning", f"library {LIBRARY} of another build", advice)


async def _latency(exchange: Exchange, key: str, clock_s: Callable[[], float]) -> Finding:
    times_ms: list[float] = []
    append: list[Sequence[Argument]] = [
        ("MULTI",),
        ("XADD", key, "*", "m", bytes(TRIAL_BYTES)),
        ("EXPIRE", key, TRIAL_TTL_S),
        ("EXEC",),
    ]
    try:
        for _ in range(TRIALS):
            began_s = clock_s()
            replies = await exchange(append)
            times_ms.append((clock_s() - began_s) * 1000)
            refusals = [reply for reply in replies if isinstance(reply, ResponseError)]
            if refusals:
                advice = "let this user write keys that begin with dx:, or make room"
                return Finding("append", "failure", f"refused: {refusals[0]}", advice)
        await exchange([("DEL", key)])
    except LogUnavailable as error:
        return Finding("append", "failure", f"no answer: {error}", "let the store take writes")
    middle_ms, worst_ms = median(times_ms), max(times_ms)
    found = f"{middle_ms:.2f} ms at the median, {worst_ms:.2f} ms at worst, {TRIALS} appends of {TRIAL_BYTES} bytes"
    advice = "bring the processes closer to the store, or relieve it: every frame waits for one append"
    if middle_ms > TOO_SLOW_MS:
        return Finding("append", "failure", found, advice)
    return Finding("append", "warning" if middle_ms > SLOW_MS else "ok", found, advice if middle_ms > SLOW_MS else "")


def _fields(info: bytes | str) -> dict[str, str]:
    text = info if isinstance(info, str) else bytes(info).decode(errors="replace")
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _setting(reply: Reply, name: str) -> str | None:
    """The value of a setting, ``None`` where CONFIG is forbidden; RESP 2 and 3 shape it differently."""
    if isinstance(reply, ResponseError) or not reply:
        return None
    pairs = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    value = pairs.get(name.encode())
    return None if value is None else bytes(value).decode()


def _strings(reply: Reply) -> set[bytes]:
    if isinstance(reply, bytes):
        return {reply}
    if isinstance(reply, dict):
        reply = [*reply.keys(), *reply.values()]
    return {text for part in reply for text in _strings(part)} if isinstance(reply, list | tuple | set) else set()


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:.0f} MiB" if size >= 10 * 1024 * 1024 else f"{size / 1024 / 1024:.1f} MiB"
