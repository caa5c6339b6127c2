"""Rows in which a store of one node dies, loses its end, fills up, stalls or forgets."""

from __future__ import annotations

import asyncio
import random

from duplex_es.log.errors import LogError, SessionUnknown
from tests.chaos.rows.workers import nothing_failed
from tests.chaos.table import Hit, Stage, none_failed, row, stayed_on_the_line
from tests.support.processes import free_port


@row("store-restarted", "SIGTERM and start again, append-only file: nothing lost", check=nothing_failed)
async def store_restarted(stage: Stage, draw: random.Random) -> Hit:
    """The store is restarted kindly."""
    await stage.fleet.restart_store(kindly=True)
    return stage.everybody()


@row("store-killed", "SIGKILL and start again, everysec: a lost tail is healed or the client is told", may_be_told=True,
     check=none_failed)  # fmt: skip
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


@row("store-tail-lost-with-worker", "as before, and the worker that could heal it is gone: the client is told (E13)",
     may_be_told=True, silence_s=8.0)  # fmt: skip
async def store_tail_lost_with_worker(stage: Stage, draw: random.Random) -> Hit:
    """A worker dies; before another one takes over, the store loses its last moments."""
    service, hit = await stage.busiest_worker()
    await stage.fleet.kill(service)
    await stage.fleet.restart_store(kindly=False, torn_bytes=draw.randrange(5_000, 60_000))
    return hit


@row("store-tail-lost-away", "as before, and the client was away: one that comes back in the lost part is told (E13)",
     quick=False, may_be_told=True, silence_s=20.0)  # fmt: skip
async def store_tail_lost_away(stage: Stage, draw: random.Random) -> Hit:
    """Clients lose their sockets, then the worker dies and the store its end; others write on before they return."""
    service, hit = await stage.busiest_worker()
    for talker in stage.talkers:
        if talker.number in hit:
            talker.may_return.clear()
            talker.socket.transport.abort()
    await stage.fleet.kill(service)
    await stage.fleet.restart_store(kindly=False, torn_bytes=draw.randrange(5_000, 60_000))
    await asyncio.sleep(draw.uniform(2.0, 4.0))
    for talker in stage.talkers:
        talker.may_return.set()
    return hit


@row("store-tail-lost-with-both", "a gateway dies as well: who resumes in the lost part, whenever, is told (E13)",
     quick=False, may_be_told=True, silence_s=20.0)  # fmt: skip
async def store_tail_lost_with_both(stage: Stage, draw: random.Random) -> Hit:
    """A worker and a gateway die, and the store loses its last moments: nobody remembers what some clients heard."""
    service, hit = await stage.busiest_worker()
    await stage.fleet.kill(service, stage.fleet.gateways[draw.randrange(2)])
    await stage.fleet.restart_store(kindly=False, torn_bytes=draw.randrange(5_000, 120_000))
    return hit


async def durable_kept(stage: Stage, hit: Hit) -> list[str]:
    """Everybody had been promised something; whether it was kept, the log was compared for already."""
    return [f"caller {talker.number} never heard session.durable" for talker in stage.talkers if not talker.durable_seq]


@row("store-power-cut", "all that was not on the disk yet is lost, with a worker: nothing up to durable_seq is (E14)",
     stores=("valkey",), quick=False, may_be_told=True, silence_s=10.0, check=durable_kept,
     habits={"durable": True, "questions": 3})  # fmt: skip
async def store_power_cut(stage: Stage, draw: random.Random) -> Hit:
    """From some moment on nothing reaches the disk; soon after, the store and a worker are gone."""
    fleet = stage.fleet
    await asyncio.sleep(draw.uniform(1.0, 2.0))
    await fleet.command("CONFIG", "SET", "appendfsync", "no")
    on_disk = fleet.aof_bytes()  # at least as much as the store may have confirmed
    await asyncio.sleep(draw.uniform(0.2, 1.2))
    service, hit = await stage.busiest_worker()
    await fleet.kill(service)
    await fleet.restart_store(kindly=False, torn_bytes=fleet.aof_bytes() - on_disk)
    return hit


@row("store-full", "maxmemory reached for 3 s under noeviction: appends wait, nothing is lost", check=nothing_failed)
async def store_full(stage: Stage, draw: random.Random) -> Hit:
    """The store takes no writes for want of memory."""
    await stage.fleet.command("CONFIG", "SET", "maxmemory", "1mb")
    await asyncio.sleep(3.0)
    await stage.fleet.command("CONFIG", "SET", "maxmemory", "0")
    return stage.everybody()


@row("store-demoted", "the node becomes a replica and answers READONLY, then a primary again: appends wait (E16)",
     silence_s=8.0, check=nothing_failed)  # fmt: skip
async def store_demoted(stage: Stage, draw: random.Random) -> Hit:
    """The only node is told to follow one that is not there, and refuses every write until it is told to stop."""
    await stage.fleet.command("REPLICAOF", "127.0.0.1", str(free_port()))
    await asyncio.sleep(draw.uniform(1.0, 3.0))
    await stage.fleet.command("REPLICAOF", "NO", "ONE")
    return stage.everybody()


@row("store-frozen-3s", "no answer for 3 s: everything goes on after it (E23)", quick=False, check=none_failed)
async def store_frozen_3s(stage: Stage, draw: random.Random) -> Hit:
    """The store stalls briefly."""
    return await _freeze_store(stage, 3.0)


@row("store-frozen-8s", "no answer for 8 s: everything goes on after it (E23)", silence_s=14.0, quick=False, rarity=2)
async def store_frozen_8s(stage: Stage, draw: random.Random) -> Hit:
    """The store stalls for nearly as long as leases hold."""
    return await _freeze_store(stage, 8.0)


async def _freeze_store(stage: Stage, seconds: float) -> Hit:
    stage.fleet.store.freeze()
    await asyncio.sleep(seconds)
    stage.fleet.store.thaw()
    return stage.everybody()


async def freeze_briefly(stage: Stage, draw: random.Random) -> Hit:
    """The store stalls for 0.5 to 3 s."""
    return await _freeze_store(stage, draw.uniform(0.5, 3.0))


@row("subscribers-killed", "every subscriber connection killed: holes are filled from the log (E32)",
     check=nothing_failed)  # fmt: skip
async def subscribers_killed(stage: Stage, draw: random.Random) -> Hit:
    """The store throws its subscribers out, three times."""
    for _ in range(3):
        await stage.fleet.command("CLIENT", "KILL", "TYPE", "pubsub")
        await asyncio.sleep(draw.uniform(0.1, 0.8))
    return stage.everybody()


@row("all-connections-killed", "every connection killed again and again: nothing lost, nothing written twice",
     check=stayed_on_the_line)  # fmt: skip
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


@row("store-restarted-empty", "killed, its files gone, started again: as if it were another store (E15)",
     must_be_told=True, may_be_told=True, spoils=True, quick=False, check=none_back)  # fmt: skip
async def store_restarted_empty(stage: Stage, draw: random.Random) -> Hit:
    """The store comes back with nothing in it, not even the functions."""
    await stage.fleet.restart_store(kindly=False, empty=True)
    return stage.everybody()
