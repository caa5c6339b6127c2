"""The rows of the failure table: each one fault, done to a service under talk, at a moment drawn from a seed.

A row does its fault and undoes it. It returns the numbers of the callers it hit, so that only their recovery is timed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from duplex_es.log.api import SessionLog
from duplex_es.log.errors import LogError, SessionUnknown
from tests.support.chaos_fleet import FaultProxy, Fleet
from tests.support.chaos_talker import Talker
from tests.support.services import Service

Hit = set[int]
Fault = Callable[["Stage", random.Random], Awaitable[Hit]]


@dataclass(slots=True)
class Stage:
    """What a row acts on: the processes, the callers in the middle of their calls, and the log to look into."""

    fleet: Fleet
    log: SessionLog
    talkers: list[Talker]

    def everybody(self) -> Hit:
        """All callers."""
        return {talker.number for talker in self.talkers}

    def on_gateway(self, number: int) -> Hit:
        """Those whose socket ends at this gateway now."""
        url = self.fleet.urls[number]
        return {talker.number for talker in self.talkers if talker.line.url.startswith(url)}

    async def on_worker(self, service: Service) -> Hit:
        """Those whose session this worker holds now."""
        name = self.fleet.worker_name(service)
        heads = {talker.number: await self.log.head(talker.session_id) for talker in self.talkers}
        return {number for number, head in heads.items() if head.worker == name}

    async def busiest_worker(self) -> tuple[Service, Hit]:
        """The worker with the most of these sessions, and their callers."""
        held = [(service, await self.on_worker(service)) for service in self.fleet.workers]
        return max(held, key=lambda one: len(one[1]))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    ``may_be_told`` allows that a caller is told that its session is over; ``must_be_told`` demands it. ``habits`` are
    those of the callers, ``check`` looks for what this fault in particular must leave behind and returns what is wrong.
    ``known`` names a fault of the service that is known and not mended: the row still runs and still shows. What is
    wrong in a round counts as known only where it contains ``excused``.
    """

    name: str
    fault: Fault
    promise: str
    far: str = ""
    quick: bool = True
    may_be_told: bool = False
    must_be_told: bool = False
    silence_s: float = 5.0
    habits: dict[str, Any] = field(default_factory=dict)
    check: Callable[[Stage, Hit], Awaitable[list[str]]] | None = None
    library: bool = False
    known: str = ""
    excused: str = ""


ROWS: dict[str, Row] = {}
LEASE_S, LOOK_S, GRACE_S, MARGIN_S = 10.0, 12.0, 30.0, 5.0
"""An attachment's lease, how often workers look for lapsed ones, the grace time of a session without a socket."""


def row(name: str, promise: str, **settings: Any) -> Callable[[Fault], Fault]:
    """Enter a fault into the table."""

    def enter(fault: Fault) -> Fault:
        ROWS[name] = Row(name, fault, promise, **settings)
        return fault

    return enter


def chosen(names: Iterable[str] = (), *, quick: bool = False) -> list[Row]:
    """The rows of these names, or all. Raises: KeyError for a name that is none."""
    rows = [ROWS[name] for name in names] or list(ROWS.values())
    return [one for one in rows if one.quick or not quick]


# -- clients -------------------------------------------------------------------------------------------------------


@row("client-cut", "a broken socket resumes on another gateway: every frame once")
async def client_cut(stage: Stage, draw: random.Random) -> Hit:
    """Every socket breaks without a goodbye, at moments of its own."""
    for talker in stage.talkers:
        await asyncio.sleep(draw.uniform(0.0, 0.3))
        talker.socket.transport.abort()
    return stage.everybody()


async def one_winner(stage: Stage, hit: Hit) -> list[str]:
    """Of two resumes with one token exactly one gets the session."""
    raced = [talker for talker in stage.talkers if talker.number in hit]
    wrong = [f"caller {one.number}: {one.race_wins} winners" for one in raced if one.race_wins != [1]]
    return wrong + [
        f"caller {one.number}: the loser heard {one.refused_resumes[0]}"
        for one in raced
        if one.refused_resumes and one.refused_resumes[0] != "invalid_resume_token"
    ]


@row("resumes-race", "of two sockets that resume at once one wins, the other hears invalid_resume_token",
     habits={"races": True}, check=one_winner)  # fmt: skip
async def resumes_race(stage: Stage, draw: random.Random) -> Hit:
    """Every socket breaks; each caller tries both gateways in the same moment."""
    return await client_cut(stage, draw)


async def others_undisturbed(stage: Stage, hit: Hit) -> list[str]:
    """A caller that reads slowly is nobody else's trouble."""
    return [f"caller {talker.number} had to reconnect" for talker in stage.talkers if len(talker.lines) > 1]


@row("client-stops-reading", "a caller that stops reading gets everything once it reads again; nobody else waits",
     silence_s=8.0, check=others_undisturbed)  # fmt: skip
async def client_stops_reading(stage: Stage, draw: random.Random) -> Hit:
    """One caller reads nothing for a while."""
    talker = draw.choice(stage.talkers)
    talker.stall_s = draw.uniform(3.0, 5.0)
    await asyncio.sleep(talker.stall_s)
    return {talker.number}


# -- gateways ------------------------------------------------------------------------------------------------------


@row("gateway-killed", "SIGKILL mid-answer: clients resume elsewhere, the worker is untouched")
async def gateway_killed(stage: Stage, draw: random.Random) -> Hit:
    """A gateway is gone from one moment to the next."""
    number = draw.randrange(2)
    hit = stage.on_gateway(number)
    stage.fleet.gateways[number].process.kill()
    return hit


@row("gateway-killed-library", "the same, with the client library's own resume", library=True)
async def gateway_killed_library(stage: Stage, draw: random.Random) -> Hit:
    """As ``gateway-killed``; the callers are ``duplex_es.client.DuplexClient``."""
    return await gateway_killed(stage, draw)


async def told_to_go(stage: Stage, hit: Hit) -> list[str]:
    """A draining gateway says so before it closes with 1012."""
    wrong = []
    for talker in stage.talkers:
        if talker.number in hit:
            line = next(line for line in talker.lines if line.left is not None)
            kinds = [heard.wire["type"] for heard in line.frames]
            if "session.going_away" not in kinds:
                wrong.append(f"caller {talker.number} was not told session.going_away")
            if line.code != 1012:
                wrong.append(f"caller {talker.number}'s socket was closed with {line.code}")
    return wrong


@row("gateway-drained", "SIGTERM: session.going_away, close 1012, resume elsewhere", silence_s=8.0, check=told_to_go)
async def gateway_drained(stage: Stage, draw: random.Random) -> Hit:
    """A deploy ends a gateway."""
    number = draw.randrange(2)
    service, hit = stage.fleet.gateways[number], stage.on_gateway(number)
    stage.fleet.drain(service)
    await asyncio.to_thread(service.process.wait, 30)
    return hit


async def superseded(stage: Stage, hit: Hit) -> list[str]:
    """The old socket of each is told that it was replaced, and closed."""
    wrong = []
    for talker in stage.talkers:
        if talker.number not in hit:
            continue
        line = next((line for line in talker.lines if line.left is not None), None)
        if line is None:
            wrong.append(f"caller {talker.number} never moved")
        elif line.frames[-1].wire["type"] != "session.replaced" or line.code != 1000:
            wrong.append(f"caller {talker.number}'s old socket: {line.frames[-1].wire['type']}, code {line.code}")
    return wrong


@row("gateway-frozen", "SIGSTOP, resume elsewhere, SIGCONT: the old socket hears session.replaced (E3)",
     habits={"patience_s": 1.5}, check=superseded)  # fmt: skip
async def gateway_frozen(stage: Stage, draw: random.Random) -> Hit:
    """A gateway stalls, its clients move, it wakes up again."""
    number = draw.randrange(2)
    service, hit = stage.fleet.gateways[number], stage.on_gateway(number)
    stage.fleet.freeze(service)
    await asyncio.sleep(draw.uniform(3.0, 5.0))
    stage.fleet.thaw(service)
    await asyncio.sleep(4.0)
    return hit


async def expired_by_the_log(stage: Stage, hit: Hit) -> list[str]:
    """Nobody came back: the session ends by its grace time all the same, and gives its slot back."""
    deadline_s = asyncio.get_running_loop().time() + LEASE_S + LOOK_S + GRACE_S + MARGIN_S
    open_still = {talker.session_id for talker in stage.talkers if talker.number in hit}
    while open_still and asyncio.get_running_loop().time() < deadline_s:
        heads = [await stage.log.head(session_id) for session_id in open_still]
        open_still = {head.ref.session_id for head in heads if head.state != "closed"}
        await asyncio.sleep(0.5)
    return [
        f"{session_id} is open after {LEASE_S + LOOK_S + GRACE_S + MARGIN_S:g} s" for session_id in sorted(open_still)
    ]


@row("gateway-killed-for-good", "SIGKILL, and its clients never return: the attachment lease and the grace time end it",
     quick=False, may_be_told=True, check=expired_by_the_log, silence_s=60.0)  # fmt: skip
async def gateway_killed_for_good(stage: Stage, draw: random.Random) -> Hit:
    """A gateway dies, and so do the networks of its clients."""
    hit = stage.on_gateway(0)
    for talker in stage.talkers:
        talker.returns = talker.number not in hit
    stage.fleet.gateways[0].process.kill()
    return hit


# -- workers -------------------------------------------------------------------------------------------------------


@row("worker-killed", "SIGKILL mid-answer: another worker takes over, the answer ends failed (worker_lost) or goes on",
     silence_s=4.0)  # fmt: skip
async def worker_killed(stage: Stage, draw: random.Random) -> Hit:
    """A worker is gone in the middle of its answers."""
    service, hit = await stage.busiest_worker()
    service.process.kill()
    return hit


@row("worker-killed-idle", "SIGKILL while nobody talks: the next question is answered",
     habits={"idles": True})  # fmt: skip
async def worker_killed_idle(stage: Stage, draw: random.Random) -> Hit:
    """A worker is gone between two answers."""
    return await worker_killed(stage, draw)


@row("worker-frozen", "SIGSTOP past the lease, then SIGCONT: fenced when it wakes (E18, E21, E22)",
     silence_s=16.0, quick=False)  # fmt: skip
async def worker_frozen(stage: Stage, draw: random.Random) -> Hit:
    """A worker stalls for longer than its claims hold, and wakes up while another one has them."""
    service, hit = await stage.busiest_worker()
    stage.fleet.freeze(service)
    await asyncio.sleep(draw.uniform(13.0, 15.0))
    stage.fleet.thaw(service)
    await asyncio.sleep(2.0)
    return hit


@row("worker-stalled", "SIGSTOP within the lease: nobody takes over, the call goes on (E18)", silence_s=7.0)
async def worker_stalled(stage: Stage, draw: random.Random) -> Hit:
    """A worker stalls for less than its claims hold."""
    service, hit = await stage.busiest_worker()
    stage.fleet.freeze(service)
    await asyncio.sleep(draw.uniform(2.0, 4.0))
    stage.fleet.thaw(service)
    return hit


async def none_failed(stage: Stage, hit: Hit) -> list[str]:
    """A planned end costs no answer."""
    return [f"caller {talker.number}: {talker.statuses}" for talker in stage.talkers if "failed" in talker.statuses]


@row("worker-drained", "SIGTERM under talk: handed over at a turn boundary, no answer fails", check=none_failed)
async def worker_drained(stage: Stage, draw: random.Random) -> Hit:
    """A deploy ends a worker."""
    service, hit = await stage.busiest_worker()
    stage.fleet.drain(service)
    await asyncio.to_thread(service.process.wait, 40)
    return hit


@row("rolling-restart", "every gateway and worker replaced one by one under talk: nothing lost, no answer fails (E38)",
     quick=False, silence_s=8.0, check=none_failed)  # fmt: skip
async def rolling_restart(stage: Stage, draw: random.Random) -> Hit:
    """A deploy of everything: a new process first, then the old one drained."""
    for service in [*stage.fleet.workers, *stage.fleet.gateways]:
        await stage.fleet.replace(service)
        stage.fleet.forget(service)
        stage.fleet.drain(service)
        await asyncio.to_thread(service.process.wait, 40)
    return stage.everybody()


# -- the store -----------------------------------------------------------------------------------------------------


@row("store-restarted", "SIGTERM and start again, append-only file: nothing lost")
async def store_restarted(stage: Stage, draw: random.Random) -> Hit:
    """The store is restarted kindly."""
    await stage.fleet.restart_store(kindly=True)
    return stage.everybody()


@row("store-killed", "SIGKILL and start again, everysec: a lost tail is healed or the client is told", may_be_told=True)
async def store_killed(stage: Stage, draw: random.Random) -> Hit:
    """The store loses its process; the file may lack the last second."""
    await stage.fleet.restart_store(kindly=False)
    return stage.everybody()


@row("store-tail-lost", "SIGKILL and the end of the append-only file torn off, as by a power cut: healed or told",
     may_be_told=True)  # fmt: skip
async def store_tail_lost(stage: Stage, draw: random.Random) -> Hit:
    """The store comes back without its last moments."""
    await stage.fleet.restart_store(kindly=False, torn_bytes=draw.randrange(2_000, 60_000))
    return stage.everybody()


@row("store-tail-lost-with-worker", "as before, and the worker that could heal it is gone: the client is told",
     quick=False, may_be_told=True, silence_s=8.0)  # fmt: skip
async def store_tail_lost_with_worker(stage: Stage, draw: random.Random) -> Hit:
    """A worker dies; before another one takes over, the store loses its last moments."""
    service, hit = await stage.busiest_worker()
    service.process.kill()
    await stage.fleet.restart_store(kindly=False, torn_bytes=draw.randrange(5_000, 60_000))
    return hit


@row("store-full", "maxmemory reached for 3 s under noeviction: appends wait, nothing is lost")
async def store_full(stage: Stage, draw: random.Random) -> Hit:
    """The store takes no writes for want of memory."""
    await stage.fleet.command("CONFIG", "SET", "maxmemory", "1mb")
    await asyncio.sleep(3.0)
    await stage.fleet.command("CONFIG", "SET", "maxmemory", "0")
    return stage.everybody()


@row("store-frozen-3s", "no answer for 3 s: everything goes on after it (E23)")
async def store_frozen_3s(stage: Stage, draw: random.Random) -> Hit:
    """The store stalls briefly."""
    return await _freeze_store(stage, 3.0)


@row("store-frozen-8s", "no answer for 8 s: everything goes on after it (E23)", silence_s=14.0, quick=False)
async def store_frozen_8s(stage: Stage, draw: random.Random) -> Hit:
    """The store stalls for nearly as long as leases hold."""
    return await _freeze_store(stage, 8.0)


async def _freeze_store(stage: Stage, seconds: float) -> Hit:
    stage.fleet.store.freeze()
    await asyncio.sleep(seconds)
    stage.fleet.store.thaw()
    return stage.everybody()


@row("subscribers-killed", "every subscriber connection killed: holes are filled from the log (E32)")
async def subscribers_killed(stage: Stage, draw: random.Random) -> Hit:
    """The store throws its subscribers out, three times."""
    for _ in range(3):
        await stage.fleet.command("CLIENT", "KILL", "TYPE", "pubsub")
        await asyncio.sleep(draw.uniform(0.1, 0.8))
    return stage.everybody()


@row("all-connections-killed", "every connection killed again and again: nothing lost, nothing written twice")
async def all_connections_killed(stage: Stage, draw: random.Random) -> Hit:
    """The store throws everybody out, five times."""
    for _ in range(5):
        for kind in ("normal", "pubsub"):
            await stage.fleet.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        await asyncio.sleep(draw.uniform(0.05, 0.5))
    return stage.everybody()


async def none_back(stage: Stage, hit: Hit) -> list[str]:
    """No head of a lost session exists."""
    back = []
    for talker in stage.talkers:
        try:
            back.append(f"{talker.session_id} is {(await stage.log.head(talker.session_id)).state} again")
        except SessionUnknown:
            continue
        except LogError as error:
            back.append(f"{talker.session_id}: {error!r}")
    return back


@row("store-emptied", "FLUSHALL: every client is told, no session is made again (E15)",
     must_be_told=True, may_be_told=True, check=none_back)  # fmt: skip
async def store_emptied(stage: Stage, draw: random.Random) -> Hit:
    """The store comes back with nothing in it."""
    await stage.fleet.command("FLUSHALL")
    return stage.everybody()


# -- links ---------------------------------------------------------------------------------------------------------


def _linked_gateway(stage: Stage, draw: random.Random) -> tuple[FaultProxy, Hit]:
    number = draw.randrange(2)
    return stage.fleet.link(stage.fleet.gateways[number]), stage.on_gateway(number)


async def _linked_worker(stage: Stage) -> tuple[FaultProxy, Hit]:
    service, hit = await stage.busiest_worker()
    return stage.fleet.link(service), hit


@row("gateway-link-cut", "a gateway's connections to the store break: nothing lost", far="gateway")
async def gateway_link_cut(stage: Stage, draw: random.Random) -> Hit:
    """The link breaks, three times."""
    return await _cut(draw, *_linked_gateway(stage, draw))


@row("worker-link-cut", "a worker's connections to the store break: nothing lost", far="worker")
async def worker_link_cut(stage: Stage, draw: random.Random) -> Hit:
    """The link breaks, three times."""
    return await _cut(draw, *await _linked_worker(stage))


async def _cut(draw: random.Random, link: FaultProxy, hit: Hit) -> Hit:
    for _ in range(3):
        link.cut()
        await asyncio.sleep(draw.uniform(0.1, 0.7))
    return hit


@row("gateway-link-deaf", "half open, server to client: noticed by the probe, caught up from the log (E26)",
     far="gateway", silence_s=16.0)  # fmt: skip
async def gateway_link_deaf(stage: Stage, draw: random.Random) -> Hit:
    """A gateway hears nothing more from the store on the connections it has."""
    link, hit = _linked_gateway(stage, draw)
    link.deafen()
    return hit


@row("worker-link-deaf", "half open, server to client, at a worker (E26)", far="worker", silence_s=16.0, quick=False)
async def worker_link_deaf(stage: Stage, draw: random.Random) -> Hit:
    """A worker hears nothing more from the store on the connections it has."""
    link, hit = await _linked_worker(stage)
    link.deafen()
    return hit


@row("worker-link-slow", "every answer of the store 150 ms late at a worker", far="worker", quick=False)
async def worker_link_slow(stage: Stage, draw: random.Random) -> Hit:
    """The link gets slow for a while."""
    link, hit = await _linked_worker(stage)
    link.delay_s = 0.15
    await asyncio.sleep(4.0)
    link.delay_s = 0.0
    return hit


@row("gateway-parted", "a gateway cut off for 14 s: its clients resume elsewhere; it lets go when the link is back",
     far="gateway", quick=False, habits={"patience_s": 2.5})  # fmt: skip
async def gateway_parted(stage: Stage, draw: random.Random) -> Hit:
    """A partition between a gateway and the store."""
    return await _part(*_linked_gateway(stage, draw))


@row("worker-parted", "a worker cut off for 14 s: nothing it says becomes visible, another takes over, it is fenced",
     far="worker", quick=False, silence_s=18.0)  # fmt: skip
async def worker_parted(stage: Stage, draw: random.Random) -> Hit:
    """A partition between a worker and the store."""
    return await _part(*await _linked_worker(stage))


async def _part(link: FaultProxy, hit: Hit) -> Hit:
    link.part()
    await asyncio.sleep(14.0)
    link.join()
    await asyncio.sleep(3.0)
    return hit


# -- several at once -----------------------------------------------------------------------------------------------


@row("storm", "faults upon faults: clients, a gateway, a worker, the store, in any order", silence_s=16.0, quick=False,
     may_be_told=True)  # fmt: skip
async def storm(stage: Stage, draw: random.Random) -> Hit:
    """Four faults, drawn, one soon after the other."""
    faults = [client_cut, subscribers_killed, all_connections_killed, store_restarted, store_tail_lost,
              _freeze_briefly, gateway_killed, worker_killed]  # fmt: skip
    for fault in draw.sample(faults, 4):
        await fault(stage, draw)
        await asyncio.sleep(draw.uniform(0.0, 1.0))
    return stage.everybody()


async def _freeze_briefly(stage: Stage, draw: random.Random) -> Hit:
    return await _freeze_store(stage, draw.uniform(0.5, 3.0))
