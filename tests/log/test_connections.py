"""One connection, one owner: pipelines, error replies as values, and a clean break at the first doubt."""

from __future__ import annotations

import asyncio
import time

import pytest
from redis.exceptions import ResponseError

from duplex_es.log.connections import Broken, Link, connection_factory, pack
from duplex_es.log.errors import ConfigurationError
from duplex_es.log.settings import LogSettings
from tests.support.processes import StoreProcess, free_port
from tests.support.tcp_proxy import proxy_to

pytestmark = pytest.mark.redis

HASTY = LogSettings(socket_timeout_s=1.0, connect_timeout_s=1.0)


def link(url: str, settings: LogSettings = HASTY) -> Link:
    return Link(connection_factory(url, settings), "test", settings)


def test_commands_are_packed_as_the_protocol_says() -> None:
    packed = b"*4\r\n$3\r\nSET\r\n$3\r\nk\xc3\xbc\r\n$3\r\n\x00\r\n\r\n$2\r\n12\r\n"
    assert pack([("SET", "kü", b"\x00\r\n", 12)]) == packed
    assert pack([("PING",), ("PING",)]) == b"*1\r\n$4\r\nPING\r\n" * 2
    assert pack([]) == b""


def test_every_setting_of_the_client_is_explicit() -> None:
    connection = connection_factory("redis://127.0.0.1:1/3", HASTY)("append")
    assert connection.protocol == 3
    assert connection.retry.get_retries() == 0
    assert not connection.retry_on_error
    assert connection.health_check_interval == 0
    assert connection.socket_timeout is None  # replies are timed by the link
    assert connection.socket_connect_timeout == HASTY.connect_timeout_s
    assert connection.encoder.decode_responses is False
    assert connection.client_name == "duplex-es-append"
    assert connection.db == 3


async def test_a_pipeline_is_answered_in_order_and_error_replies_are_values(valkey: StoreProcess) -> None:
    tested = link(valkey.url)
    replies = await tested.exchange([("SET", "link", b"\xff"), ("LPUSH", "link", "x"), ("GET", "link"), ("NONSENSE",)])
    assert replies[0] == b"OK" and replies[2] == b"\xff"
    assert isinstance(replies[1], ResponseError) and isinstance(replies[3], ResponseError)
    assert tested.epoch == 1
    await tested.close()


async def test_a_closed_link_connects_again_under_a_new_epoch(valkey: StoreProcess) -> None:
    tested = link(valkey.url)
    await tested.exchange([("PING",)])
    await tested.close()
    await tested.close()
    assert await tested.exchange([("PING",)]) == [b"PONG"]
    assert tested.epoch == 2
    await tested.close()


async def test_silence_breaks_the_link_in_time(valkey: StoreProcess) -> None:
    async with proxy_to(valkey.port) as proxy:
        tested = link(proxy.url)
        await tested.exchange([("PING",)])
        proxy.is_deaf = True
        began = time.monotonic()
        with pytest.raises(Broken):
            await tested.exchange([("PING",)])
        assert time.monotonic() - began < 20.0
        with pytest.raises(Broken):  # and so does a silent handshake
            await tested.exchange([("PING",)])
        proxy.is_deaf = False
        assert await tested.exchange([("ECHO", "here")]) == [b"here"]
        assert tested.epoch == 2
        await tested.close()


async def test_a_long_answer_is_not_silence(valkey: StoreProcess) -> None:
    async with proxy_to(valkey.port) as proxy:
        tested = link(proxy.url)
        await tested.exchange([("SET", "long", b"x" * 50_000)])
        proxy.delay_s = 0.06
        began = time.monotonic()
        replies = await tested.exchange([("GET", "long")] * 60)
        assert [len(reply) for reply in replies] == [50_000] * 60
        assert time.monotonic() - began > 2 * HASTY.socket_timeout_s
        await tested.close()


async def test_replies_from_before_a_break_are_handed_over(valkey: StoreProcess) -> None:
    tested = link(valkey.url)
    with pytest.raises(Broken) as broken:
        await tested.exchange([("SET", "before", "1"), ("QUIT",), ("GET", "before")])
    assert broken.value.replies[:1] == [b"OK"]
    await tested.close()


async def test_a_cancelled_exchange_closes_the_connection(valkey: StoreProcess) -> None:
    async with proxy_to(valkey.port) as proxy:
        tested = link(proxy.url)
        await tested.exchange([("SET", "bar", "bar")])
        proxy.delay_s = 0.1
        exchange = asyncio.create_task(tested.exchange([("GET", "foo")]))
        await asyncio.sleep(0.05)
        exchange.cancel()
        await asyncio.gather(exchange, return_exceptions=True)
        proxy.delay_s = 0.0
        assert await tested.exchange([("GET", "bar")]) == [b"bar"]
        assert tested.epoch == 2
        await tested.close()


async def test_nobody_listening_is_a_break() -> None:
    with pytest.raises(Broken, match="connect"):
        await link(f"redis://127.0.0.1:{free_port()}/0").exchange([("PING",)])


async def test_wrong_credentials_are_a_matter_of_configuration(valkey: StoreProcess) -> None:
    url = valkey.url.replace("redis://", "redis://nobody:wrong@")
    with pytest.raises(ConfigurationError, match="credentials"):
        await link(url).exchange([("PING",)])
