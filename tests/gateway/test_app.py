"""The routes."""

from __future__ import annotations

import asyncio

import pytest
from websockets.exceptions import InvalidStatus

from duplex_es.log.memory import MemoryLog
from gateway import app as module
from tests.gateway.stage import Gateway, joined, running

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("value", ["1", "true", "On"])
async def test_the_compatibility_alias_selects_the_session_api(gateway: Gateway, value: str) -> None:
    async with joined(gateway.url(f"duplex={value}")) as client:
        await client.open()


@pytest.mark.parametrize("value", ["0", "off", "yes"])
async def test_the_plain_realtime_api_is_that_of_stock_clients(gateway: Gateway, value: str) -> None:
    async with joined(gateway.url(f"duplex={value}&autostart=0")) as client:
        created = await client.hear_type("session.created")
        assert created["session"]["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}


async def test_the_native_route_speaks_the_runtimes_own_events(gateway: Gateway) -> None:
    async with joined(gateway.url("", "/v1/duplex")) as client:
        await client.say("session.create", session={"session_id": "mine"})
        created = await client.hear_type("session.created")
        assert (created["session_id"], created["session"]["id"]) == ("mine", "mine")


async def test_a_dialect_nobody_speaks_is_refused_flat(gateway: Gateway) -> None:
    async with joined(gateway.url("dialect=esperanto")) as client:
        error = await client.hear_type("error")
        assert (error["code"], type(error["error"])) == ("unsupported", str)
        assert await client.closed() == (1000, "")


async def test_the_subprotocol_is_agreed_to_where_it_is_offered(gateway: Gateway) -> None:
    offered = ["realtime", "openai-insecure-api-key.x"]
    async with joined(gateway.url(), subprotocols=offered) as client:
        assert client.socket.subprotocol == "realtime"
    async with joined(gateway.url()) as client:
        assert client.socket.subprotocol is None


async def test_sockets_are_not_compressed(gateway: Gateway) -> None:  # E36
    from websockets.asyncio.client import connect

    async with connect(gateway.url(), proxy=None) as socket:
        assert socket.response is not None
        assert "Sec-WebSocket-Extensions" not in socket.response.headers


async def test_a_stopping_gateway_turns_newcomers_away_before_the_upgrade(gateway: Gateway) -> None:
    gateway.service.stopping = True
    with pytest.raises(InvalidStatus) as refused:
        async with joined(gateway.url()):
            pass
    assert refused.value.response.status_code == 503


@pytest.mark.parametrize(("pages", "status"), [("off", 404), ("on", 200)])
async def test_the_pages_are_there_only_where_the_operator_wants_them(log: MemoryLog, pages: str, status: int) -> None:
    async with running(log, pages=pages) as gateway:
        statuses = [await get_status(gateway.port, path) for path in ("/", "/web/config.json", "/web/shell/style.css")]
    assert statuses == [status] * 3


async def get_status(port: int, path: str) -> int:
    """The status of a plain GET."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def test_a_defect_outside_any_session_is_told_and_the_gateway_goes_on(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(log) as gateway:
        with monkeypatch.context() as patch:
            patch.setattr(module, "open_session", None)
            async with joined(gateway.url("duplex=1&model=cascade")) as client:
                assert (await client.hear_type("error"))["error"]["code"] == "internal_error"
                assert await client.closed() == (1000, "")
            async with joined(gateway.url("model=cascade")) as client:
                assert (await client.hear_type("error"))["error"]["code"] == "internal_error"
                assert await client.closed() == (1011, "")
        assert "outside any session" in caplog.text
        async with joined(gateway.url("dialect=esperanto")) as client:
            await client.hear_type("error")


@pytest.mark.parametrize("path", ["/", "/v1/realtime/x", "/v1/nothing"])
async def test_where_there_are_no_sockets_is_said_before_the_upgrade(gateway: Gateway, path: str) -> None:  # V59
    with pytest.raises(InvalidStatus) as refused:
        async with joined(gateway.url("", path)):
            pass
    assert refused.value.response.status_code == 404
    assert b"/v1/realtime" in refused.value.response.body
