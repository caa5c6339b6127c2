"""One node's connections: told apart by name, made anew when in doubt, handed back when slots leave."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.connections import connection_factory
from duplex_es.log.lanes import Moved
from duplex_es.log.node import StoreNode
from duplex_es.log.settings import LogSettings
from tests.support.processes import StoreProcess, free_port

pytestmark = pytest.mark.redis


class Ear:
    def received(self, data: bytes) -> None: ...

    def resumed(self) -> None: ...


async def test_in_doubt_every_connection_is_made_anew(own_valkey: StoreProcess) -> None:
    connect, made = connection_factory(own_valkey.url, LogSettings()), []

    def counted(purpose: str) -> object:
        made.append(purpose)
        return connect(purpose)

    node = StoreNode(counted, LogSettings())  # type: ignore[arg-type]
    await node.calls.run([("PING",)])
    await node.reads.run([("PING",)])
    await node.subscriber.subscribe("c", Ear())
    assert sorted(made) == ["call", "read", "subscribe"]
    node.doubt()
    await node.calls.run([("PING",)])
    await node.reads.run([("PING",)])
    async with asyncio.timeout(30):
        while len(made) < 6:
            await asyncio.sleep(0.01)
    assert sorted(made[3:]) == ["call", "read", "subscribe"]
    await node.calls.run([("PING",)])
    assert len(made) == 6
    await node.close()


async def test_calls_that_wait_are_handed_back_and_trouble_is_told() -> None:
    troubles: list[object] = []
    settings = LogSettings(connect_timeout_s=0.2)
    url = f"redis://127.0.0.1:{free_port()}/0"
    node = StoreNode(connection_factory(url, settings), settings, trouble=lambda *complaints: troubles.append(1))
    calls = [asyncio.create_task(lane.run([("PING",)])) for lane in (node.calls, node.reads)]
    async with asyncio.timeout(30):
        while not troubles:
            await asyncio.sleep(0.01)
    node.hand_back()
    for call in calls:
        with pytest.raises(Moved):
            await call
    await node.close()


def test_what_a_node_of_a_cluster_publishes_is_sharded() -> None:
    connect = connection_factory("redis://127.0.0.1:1/0", LogSettings())
    assert StoreNode(connect, LogSettings()).publish == "PUBLISH"
    assert StoreNode(connect, LogSettings(), by_slot=True).publish == "SPUBLISH"
