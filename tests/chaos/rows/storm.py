"""Several faults at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from tests.chaos.rows.clients import client_cut
from tests.chaos.rows.failover import (
    CLUSTERED,
    WATCHED,
    cluster_failover,
    cluster_primary_killed,
    cluster_replica_lagged,
    cluster_resharded,
    cluster_subscribers_killed,
    sentinel_failover,
    sentinel_primary_frozen,
    sentinel_primary_killed,
    sentinel_replica_lagged,
)
from tests.chaos.rows.gateways import gateway_killed
from tests.chaos.rows.store import (
    all_connections_killed,
    freeze_briefly,
    store_demoted,
    store_restarted,
    store_tail_lost,
    subscribers_killed,
)
from tests.chaos.rows.workers import worker_killed, worker_stalled
from tests.chaos.table import Fault, Hit, Stage, row

PROCESSES: tuple[Fault, ...] = (client_cut, gateway_killed, worker_killed)
ONE_NODE: tuple[Fault, ...] = (
    *(store_restarted, store_tail_lost, store_demoted),
    *(freeze_briefly, subscribers_killed, all_connections_killed),
)


@row("storm", "faults upon faults: clients, a gateway, a worker, the store, in any order", silence_s=16.0, quick=False,
     may_be_told=True)  # fmt: skip
async def storm(stage: Stage, draw: random.Random) -> Hit:
    """Four faults, drawn, one soon after the other."""
    return await _one_after_the_other(stage, draw, draw.sample((*PROCESSES, *ONE_NODE), 4))


@row("sentinel-storm", "a failover among other faults", scene=WATCHED, silence_s=20.0, quick=False, may_be_told=True)
async def sentinel_storm(stage: Stage, draw: random.Random) -> Hit:
    """Clients, a gateway and a worker, and the primary in between."""
    failovers = (sentinel_failover, sentinel_primary_killed, sentinel_primary_frozen, sentinel_replica_lagged)
    faults = [*draw.sample(PROCESSES, 2), draw.choice(failovers)]
    draw.shuffle(faults)
    return await _one_after_the_other(stage, draw, faults)


@row("cluster-storm", "a failover or moving slots among other faults", scene=CLUSTERED, silence_s=20.0, quick=False,
     may_be_told=True)  # fmt: skip
async def cluster_storm(stage: Stage, draw: random.Random) -> Hit:
    """Clients, a gateway and a worker, and the nodes in between."""
    moves = (cluster_failover, cluster_primary_killed, cluster_replica_lagged, cluster_resharded)
    faults = [*draw.sample((*PROCESSES, worker_stalled, cluster_subscribers_killed), 2), draw.choice(moves)]
    draw.shuffle(faults)
    return await _one_after_the_other(stage, draw, faults)


async def _one_after_the_other(stage: Stage, draw: random.Random, faults: Sequence[Fault]) -> Hit:
    for fault in faults:
        await fault(stage, draw)
        await asyncio.sleep(draw.uniform(0.0, 1.0))
    return stage.everybody()
