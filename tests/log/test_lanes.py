"""A lane answers each caller its own reply, whoever is cancelled and whatever breaks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

from duplex_es.log.connections import Link, connection_factory
from duplex_es.log.errors import LogUnavailable
from duplex_es.log.lanes import Backoff, Lane, is_demoted, is_transient, stop
from duplex_es.log.settings import LogSettings
from tests.support.processes import StoreProcess, free_port
from tests.support.tcp_proxy import TcpProxy, proxy_to

pytestmark = pytest.mark.redis

HASTY = LogSettings(socket_timeout_s=0.3, connect_timeout_s=0.3, append_timeout_s=1.0)
STUBBORN = LogSettings(socket_timeout_s=0.3, connect_timeout_s=0.3, append_timeout_s=60.0)
CALM = LogSettings(socket_timeout_s=60.0, connect_timeout_s=60.0, append_timeout_s=60.0)


def lane(url: str, settings: LogSettings = HASTY) -> Lane:
    return Lane(Link(connection_factory(url, settings), "test", settings), settings)


@pytest.fixture
async def proxy(valkey: StoreProcess) -> AsyncIterator[TcpProxy]:
    async with proxy_to(valkey.port) as proxy:
        yield proxy


async def test_callers_that_wait_together_travel_together(valkey: StoreProcess, proxy: TcpProxy) -> None:
    tested = lane(proxy.url, CALM)
    await tested.run([("PING",)])
    replies = await asyncio.gather(*(tested.run([("ECHO", str(n)), ("ECHO", f"{n}!")]) for n in range(200)))
    assert replies == [[str(n).encode(), f"{n}!".encode()] for n in range(200)]
    assert proxy.connections == 1
    await tested.close()


async def test_cancelling_at_any_moment_leaves_no_reply_behind(proxy: TcpProxy) -> None:  # E24
    tested = lane(proxy.url, CALM)
    await tested.run([("SET", "foo", "foo"), ("SET", "bar", "bar")])
    proxy.delay_s = 0.002
    draw = random.Random(24)
    for turn in range(120):
        call = asyncio.create_task(tested.run([("GET", "foo"), ("GET", "foo")]))
        if turn % 2:
            await asyncio.sleep(draw.random() * 0.006)
        else:
            for _ in range(turn // 2):
                await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert await tested.run([("GET", "bar")]) == [b"bar"]
    assert proxy.connections == 1
    await tested.close()


async def test_a_call_survives_a_broken_connection(proxy: TcpProxy, valkey: StoreProcess) -> None:
    tested = lane(proxy.url, STUBBORN)
    await tested.run([("SET", "kept", "1")])
    proxy.is_deaf = True
    call = asyncio.create_task(tested.run([("GET", "kept")]))
    await asyncio.sleep(0.4)
    proxy.is_deaf = False
    assert await call == [b"1"]
    assert proxy.connections >= 2
    await tested.close()


async def test_a_store_that_stays_away_is_said_to_be_unavailable() -> None:
    tested = lane(f"redis://127.0.0.1:{free_port()}/0")
    began = asyncio.get_running_loop().time()
    with pytest.raises(LogUnavailable, match="connect"):
        await tested.run([("PING",)])
    assert 0.9 < asyncio.get_running_loop().time() - began < 20.0
    await tested.close()


async def test_a_reply_that_asks_for_patience_is_waited_for(own_valkey: StoreProcess) -> None:
    tested = lane(own_valkey.url, STUBBORN)
    await tested.run([("CONFIG", "SET", "min-replicas-to-write", "1")])
    write = asyncio.create_task(tested.run([("SET", "patient", "1")]))
    # Others are not held up by the one that waits.
    assert await tested.run([("GET", "patient")]) == [None]
    await asyncio.sleep(0.2)
    assert not write.done()
    await tested.run([("CONFIG", "SET", "min-replicas-to-write", "0")])
    assert await write == [b"OK"]
    await tested.close()


async def test_patience_ends(own_valkey: StoreProcess) -> None:
    tested = lane(own_valkey.url)
    await tested.run([("CONFIG", "SET", "min-replicas-to-write", "1")])
    with pytest.raises(LogUnavailable, match="no writes"):
        await tested.run([("SET", "patient", "1")])
    await tested.close()


async def test_a_demoted_node_is_left(own_valkey: StoreProcess) -> None:  # E16
    async with proxy_to(own_valkey.port) as proxy:
        tested = lane(proxy.url, STUBBORN)
        await tested.run([("REPLICAOF", "127.0.0.1", str(free_port()))])
        write = asyncio.create_task(tested.run([("SET", "after", "1")]))
        await asyncio.sleep(0.2)
        await asyncio.to_thread(_promote, own_valkey)
        assert await write == [b"OK"]
        assert proxy.connections > 1
        await tested.close()


def _promote(store: StoreProcess) -> None:
    import redis

    with redis.Redis.from_url(store.url) as client:
        client.execute_command("REPLICAOF", "NO", "ONE")


async def test_a_closed_lane_fails_what_waits_and_can_be_used_again(proxy: TcpProxy) -> None:
    tested = lane(proxy.url)
    await tested.run([("PING",)])
    proxy.is_deaf = True
    call = asyncio.create_task(tested.run([("PING",)]))
    await asyncio.sleep(0.05)
    await tested.close()
    with pytest.raises(LogUnavailable):
        await call
    proxy.is_deaf = False
    assert await tested.run([("PING",)]) == [b"PONG"]
    await tested.close()


def test_which_replies_ask_for_patience() -> None:
    for text in ("MISCONF Errors writing to the AOF", "NOREPLICAS Not enough good replicas", "OOM command not allowed"):
        assert is_transient(ResponseError(text))
    assert is_transient(OutOfMemoryError("command not allowed when used memory > 'maxmemory'."))
    assert is_transient(ReadOnlyError("You can't write against a read only replica."))
    assert is_demoted(ReadOnlyError("You can't write against a read only replica."))
    assert not is_transient(ResponseError("WRONGTYPE Operation")) and not is_transient(b"OK")
    assert not is_demoted(ResponseError("OOM command not allowed"))


async def test_pauses_grow_and_start_over() -> None:
    backoff = Backoff()
    loop = asyncio.get_running_loop()

    async def measured_s() -> float:
        began = loop.time()
        await backoff.pause()
        return loop.time() - began

    first = await measured_s()
    for _ in range(3):
        await backoff.pause()
    later = await measured_s()
    assert later > first
    backoff.reset()
    assert await measured_s() < later


async def test_stopping_waits_for_the_end() -> None:
    ended = []

    async def stubborn() -> None:
        while len(ended) < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append(1)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await stop(task)
    assert task.done() and len(ended) == 2
    await stop(task)
    await stop(None)
