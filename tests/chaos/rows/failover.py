"""Rows in which the store is more than one node: Sentinel and Cluster, failovers and moving slots."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import redis

from duplex_es.log.api import SessionRef
from duplex_es.log.keys import SessionKeys
from tests.chaos.rows.gateways import gateway_killed
from tests.chaos.rows.workers import TARGET_S, nothing_failed, worker_killed
from tests.chaos.table import Hit, Stage, none_failed, row, stayed_on_the_line
from tests.support.chaos_fleet import Fleet, Scene
from tests.support.processes import StoreProcess

WATCHED, CLUSTERED = Scene(store="sentinel"), Scene(store="cluster")


# -- Sentinel ------------------------------------------------------------------------------------------------------


@row("sentinel-failover", "SENTINEL FAILOVER, the old primary lives on and answers READONLY: appends follow (E16)",
     scene=WATCHED, quick=False, silence_s=8.0, target_s=5.0, may_be_told=True, check=none_failed)  # fmt: skip
async def sentinel_failover(stage: Stage, draw: random.Random) -> Hit:
    """An operator moves the primary."""
    await asyncio.to_thread(stage.fleet.sentinel.wait_until_followed)
    await asyncio.to_thread(stage.fleet.sentinel.failover)
    return stage.everybody()


@row("sentinel-primary-killed", "SIGKILL of the primary: Sentinel promotes the replica, a missing tail is healed (E13)",
     scene=WATCHED, silence_s=14.0, may_be_told=True)  # fmt: skip
async def sentinel_primary_killed(stage: Stage, draw: random.Random) -> Hit:
    """The primary is gone."""
    await asyncio.to_thread(stage.fleet.sentinel.wait_until_followed)
    primary = await asyncio.to_thread(lambda: stage.fleet.sentinel.primary)
    primary.kill()
    await asyncio.to_thread(stage.fleet.sentinel.wait_for_other_than, primary)
    return stage.everybody()


@row("sentinel-replica-lagged", "the replica lacks the last 0.2-1 s when the primary dies: healed or told (E13)",
     scene=WATCHED, quick=False, silence_s=14.0, may_be_told=True)  # fmt: skip
async def sentinel_replica_lagged(stage: Stage, draw: random.Random) -> Hit:
    """The primary is gone, and what it wrote last was nowhere else."""
    primary, (replica,) = await asyncio.to_thread(lambda: (stage.fleet.sentinel.primary, stage.fleet.sentinel.replicas))
    await _lose_the_end(primary, replica, draw.uniform(0.2, 1.0))
    await asyncio.to_thread(stage.fleet.sentinel.wait_for_other_than, primary)
    return stage.everybody()


@row("sentinel-replica-lagged-with-worker", "as before, and the worker that could write it again is gone: told (E13)",
     scene=WATCHED, quick=False, silence_s=16.0, may_be_told=True)  # fmt: skip
async def sentinel_replica_lagged_with_worker(stage: Stage, draw: random.Random) -> Hit:
    """A worker dies, then the primary, and what it wrote last was nowhere else."""
    await worker_killed(stage, draw)
    return await sentinel_replica_lagged(stage, draw)


@row("sentinel-primary-frozen", "the primary stalls until it is replaced, then wakes and is demoted: nothing lost",
     scene=WATCHED, quick=False, silence_s=16.0, may_be_told=True)  # fmt: skip
async def sentinel_primary_frozen(stage: Stage, draw: random.Random) -> Hit:
    """Two nodes call themselves the primary, for as long as it takes Sentinel to notice."""
    await asyncio.to_thread(stage.fleet.sentinel.wait_until_followed)
    primary = await asyncio.to_thread(lambda: stage.fleet.sentinel.primary)
    primary.freeze()
    await asyncio.to_thread(stage.fleet.sentinel.wait_for_other_than, primary)
    await asyncio.sleep(draw.uniform(0.0, 2.0))
    primary.thaw()
    return stage.everybody()


@row("sentinel-replica-away", "min-replicas-to-write 1 and no replica for 3 s: writes are refused, appends wait",
     scene=WATCHED, quick=False, silence_s=9.0, check=nothing_failed)  # fmt: skip
async def sentinel_replica_away(stage: Stage, draw: random.Random) -> Hit:
    """The replica stalls, and the primary takes no writes that nobody else would have."""
    primary, (replica,) = await asyncio.to_thread(lambda: (stage.fleet.sentinel.primary, stage.fleet.sentinel.replicas))
    await stage.fleet.ask(primary, "CONFIG", "SET", "min-replicas-to-write", 1, "min-replicas-max-lag", 1)
    replica.freeze()
    await asyncio.sleep(draw.uniform(3.0, 4.0))
    replica.thaw()
    await asyncio.sleep(2.0)
    await stage.fleet.ask(primary, "CONFIG", "SET", "min-replicas-to-write", 0)
    return stage.everybody()


@row("sentinel-worker-killed", "SIGKILL of a worker right after a failover: another goes on, or clients are told (E13)",
     scene=WATCHED, quick=False, silence_s=8.0, may_be_told=True, check=none_failed)  # fmt: skip
async def sentinel_worker_killed(stage: Stage, draw: random.Random) -> Hit:
    """The primary moves, and a worker is gone that may not have written again what the old one still took."""
    await sentinel_failover(stage, draw)
    await asyncio.sleep(draw.uniform(0.0, 1.0))
    return await worker_killed(stage, draw)


@row("sentinel-node-left-out", "after a failover the node with the old subscriptions leaves the chain (E17)",
     scene=WATCHED, quick=False, silence_s=14.0, may_be_told=True)  # fmt: skip
async def sentinel_node_left_out(stage: Stage, draw: random.Random) -> Hit:
    """The old primary obeys nobody: it takes connections and writes, and nobody hears of them."""
    await asyncio.to_thread(stage.fleet.sentinel.wait_until_followed)
    old = await asyncio.to_thread(lambda: stage.fleet.sentinel.primary)
    await asyncio.to_thread(stage.fleet.sentinel.failover)
    await stage.fleet.ask(old, "REPLICAOF", "NO", "ONE")
    await asyncio.sleep(draw.uniform(1.0, 3.0))
    return stage.everybody()


# -- Cluster -------------------------------------------------------------------------------------------------------


@row("cluster-failover", "CLUSTER FAILOVER of every primary in turn, the old ones alive: appends follow (E16)",
     scene=CLUSTERED, quick=False, silence_s=8.0, target_s=5.0, may_be_told=True, check=none_failed)  # fmt: skip
async def cluster_failover(stage: Stage, draw: random.Random) -> Hit:
    """An operator moves the primaries."""
    cluster = stage.fleet.cluster
    primaries = await asyncio.to_thread(cluster.primaries)
    for primary in draw.sample(primaries, len(primaries)):
        slot = await asyncio.to_thread(_first_slot, stage, primary)
        await asyncio.to_thread(cluster.failover, slot)
        await asyncio.sleep(draw.uniform(0.0, 0.5))
    return stage.everybody()


@row("cluster-primary-killed", "SIGKILL of a primary: its replica takes over, a missing tail is healed (E13)",
     scene=CLUSTERED, quick=False, silence_s=16.0, may_be_told=True)  # fmt: skip
async def cluster_primary_killed(stage: Stage, draw: random.Random) -> Hit:
    """A primary is gone that sessions live on."""
    primary, slot, hit = await _busiest_primary(stage)
    await asyncio.to_thread(stage.fleet.cluster.wait_until_followed, slot)
    primary.kill()
    await asyncio.to_thread(stage.fleet.cluster.wait_for_other_than, slot, primary)
    return hit


@row("cluster-replica-lagged", "the replica lacks the last 0.2-0.8 s when its primary dies: healed or told (E13)",
     scene=CLUSTERED, quick=False, silence_s=16.0, may_be_told=True)  # fmt: skip
async def cluster_replica_lagged(stage: Stage, draw: random.Random) -> Hit:
    """A primary is gone, and what it wrote last was nowhere else."""
    primary, slot, hit = await _busiest_primary(stage)
    (replica,) = await asyncio.to_thread(stage.fleet.cluster.replicas_of, slot)
    await _lose_the_end(primary, replica, draw.uniform(0.2, 0.8))
    await asyncio.to_thread(stage.fleet.cluster.wait_for_other_than, slot, primary)
    return hit


@row("cluster-resharded", "slots move to another node and back while their sessions talk: nothing lost (E30)",
     scene=CLUSTERED, silence_s=6.0, check=nothing_failed)  # fmt: skip
async def cluster_resharded(stage: Stage, draw: random.Random) -> Hit:
    """An operator moves slots, key by key, one way and back again."""
    return await _reshard(stage, draw)


@row("cluster-resharded-worker-killed", "a worker dies while the slots of its sessions move: another goes on (E30)",
     scene=CLUSTERED, quick=False, silence_s=9.0, check=nothing_failed)  # fmt: skip
async def cluster_resharded_worker_killed(stage: Stage, draw: random.Random) -> Hit:
    """Slots move, and in the middle of it a worker is gone."""
    moving = asyncio.create_task(_reshard(stage, draw))
    await asyncio.sleep(draw.uniform(0.0, 0.5))
    await worker_killed(stage, draw)
    await moving
    return stage.everybody()


@row("cluster-worker-killed", "SIGKILL mid-answer on a cluster: another worker goes on", scene=CLUSTERED, quick=False,
     silence_s=5.0, target_s=TARGET_S, check=nothing_failed)  # fmt: skip
async def cluster_worker_killed(stage: Stage, draw: random.Random) -> Hit:
    """A worker is gone in the middle of its answers."""
    return await worker_killed(stage, draw)


@row("cluster-gateway-killed", "a gateway dies on a cluster: clients resume elsewhere", scene=CLUSTERED, quick=False,
     check=none_failed)  # fmt: skip
async def cluster_gateway_killed(stage: Stage, draw: random.Random) -> Hit:
    """A gateway is gone from one moment to the next."""
    return await gateway_killed(stage, draw)


@row("cluster-subscribers-killed", "every subscriber connection of every node killed: holes are filled (E32)",
     scene=CLUSTERED, quick=False, check=stayed_on_the_line)  # fmt: skip
async def cluster_subscribers_killed(stage: Stage, draw: random.Random) -> Hit:
    """The nodes throw their subscribers out, three times."""
    for _ in range(3):
        for node in stage.fleet.cluster.nodes:
            with suppress(redis.ConnectionError):  # among other faults, a node may be dead
                await stage.fleet.ask(node, "CLIENT", "KILL", "TYPE", "pubsub")
        await asyncio.sleep(draw.uniform(0.1, 0.8))
    return stage.everybody()


# -- what they share -----------------------------------------------------------------------------------------------


async def _lose_the_end(primary: StoreProcess, replica: StoreProcess, lag_s: float) -> None:
    """Let ``primary`` go on alone for ``lag_s`` and die: what it wrote in that time is nowhere else."""
    replica.freeze()
    # What was sent already lies in the frozen node's socket; only over a new connection could it get more.
    await Fleet.ask(primary, "CLIENT", "KILL", "TYPE", "replica")
    await asyncio.sleep(lag_s)
    primary.kill()
    replica.thaw()


def _slot_of(session_id: str) -> int:
    return SessionKeys.of(SessionRef(session_id, 0)).slot


def _first_slot(stage: Stage, primary: StoreProcess) -> int:
    return next(first for first, _, owner, _ in stage.fleet.cluster.view() if owner is primary)


async def _busiest_primary(stage: Stage) -> tuple[StoreProcess, int, Hit]:
    """The primary with the most sessions, one of its slots, and their callers."""
    by_primary: dict[int, Hit] = {}
    slots: dict[int, int] = {}
    for talker in stage.talkers:
        slot = _slot_of(talker.session_id)
        port = (await asyncio.to_thread(stage.fleet.cluster.primary_of, slot)).port
        by_primary.setdefault(port, set()).add(talker.number)
        slots[port] = slot
    port = max(by_primary, key=lambda one: len(by_primary[one]))
    return stage.fleet.cluster.node_at(port), slots[port], by_primary[port]


async def _reshard(stage: Stage, draw: random.Random) -> Hit:
    cluster = stage.fleet.cluster
    slots = sorted({_slot_of(talker.session_id) for talker in stage.talkers})
    chosen = draw.sample(slots, min(3, len(slots)))
    homes = {slot: await asyncio.to_thread(cluster.primary_of, slot) for slot in chosen}
    for slot, home in homes.items():
        others = [node for node in await asyncio.to_thread(cluster.primaries) if node is not home]
        await asyncio.to_thread(cluster.move_slot, slot, draw.choice(others), draw.randrange(1, 6))
    for slot, home in homes.items():
        await asyncio.to_thread(cluster.move_slot, slot, home, draw.randrange(1, 6))
    return {talker.number for talker in stage.talkers if _slot_of(talker.session_id) in homes}
