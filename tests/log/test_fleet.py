"""Workers that live are listed with their cards, others are forgotten; waiting sessions are counted."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from duplex_es.log import keys
from duplex_es.log.api import WorkerCard
from duplex_es.log.connections import connection_factory
from duplex_es.log.fleet import Fleet
from duplex_es.log.nodes import OneNode
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_stage import LogStage, eventually
from tests.support.cluster import StoreCluster
from tests.support.processes import StoreProcess

pytestmark = pytest.mark.redis


async def test_a_card_lives_as_long_as_a_lease(own_valkey: StoreProcess) -> None:
    settings = LogSettings(lease_s=2.0)
    nodes = OneNode(connection_factory(own_valkey.url, settings), settings)
    fleet = Fleet(nodes, settings)
    cards = [WorkerCard("a", {"echo": b"card"}, 4, 1), WorkerCard("b", {}, 2, 0)]
    for card in cards:
        await fleet.register(card)
    assert await fleet.cards() == cards
    await fleet.unregister("a")
    assert await fleet.cards() == cards[1:]
    await eventually(fleet.cards, lambda found: not found)
    assert not any(await nodes.calls([("SMEMBERS", keys.WORKERS), ("SMEMBERS", keys.WATCHED)]))
    await nodes.close()


async def test_sessions_that_wait_are_counted_on_every_node(cluster: StoreCluster) -> None:
    log, model = RedisLog.from_url(cluster.url), f"m-{secrets.token_hex(4)}"
    fleet = Fleet(log.nodes, log.settings)
    names = [f"{model}-{n}" for n in range(30)]
    assert len({cluster.primary_of(keys.slot(keys.head(name))).port for name in names}) == 3
    await asyncio.gather(*(LogStage.created(log, model, name) for name in names))
    assert await fleet.waiting(model) == 30
    await LogStage.must_claim(log, "w", model)
    assert await fleet.waiting(model) == 29
    await log.close_connections()
