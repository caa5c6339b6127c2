"""URLs, and the real WebSocket behind the transport."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.asyncio.server import ServerConnection, serve

from duplex_es.client.transport import BROKEN, build_realtime_url, is_loopback, websocket_connector

pytestmark = pytest.mark.unit


def query(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


def test_a_bare_host_gets_the_path_the_model_and_no_autostart() -> None:
    url = build_realtime_url("ws://h:8099", "openbmb/MiniCPM-o-4_5")
    assert urlsplit(url).path == "/v1/realtime"
    assert query(url) == {"duplex": ["1"], "model": ["openbmb/MiniCPM-o-4_5"], "autostart": ["0"]}


def test_what_the_caller_wrote_stays_except_autostart() -> None:
    url = build_realtime_url("wss://h/custom?model=mine&autostart=1&trace=a%20b", "cascade")
    assert urlsplit(url).path == "/custom"
    assert query(url) == {"duplex": ["1"], "model": ["mine"], "autostart": ["0"], "trace": ["a b"]}


def test_an_http_url_is_dialled_as_a_websocket() -> None:
    assert build_realtime_url("https://h", "m").startswith("wss://h/")
    assert build_realtime_url("http://h", "m").startswith("ws://h/")


@pytest.mark.parametrize("url", ["h:8099", "ftp://h", "", "ws://"])
def test_what_cannot_be_dialled_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not a ws"):
        build_realtime_url(url, "m")


@pytest.mark.parametrize(
    ("url", "expected"),
    [("ws://127.0.0.1:1/", True), ("ws://[::1]:1/", True), ("ws://localhost/", True), ("wss://example.org/", False)],
)
def test_only_this_machine_is_loopback(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


async def test_frames_travel_both_ways_and_a_closed_socket_is_broken() -> None:
    async def echo_once(socket: ServerConnection) -> None:
        await socket.send(await socket.recv())

    async with serve(echo_once, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = await websocket_connector(open_timeout_s=5)(f"ws://127.0.0.1:{port}/")
        await transport.send("hello")
        assert await transport.recv() == "hello"
        with pytest.raises(BROKEN):
            await transport.recv()
        await transport.close()


async def test_a_port_where_nobody_listens_is_broken_too() -> None:
    async with serve(lambda socket: socket.wait_closed(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    with pytest.raises(BROKEN):
        await websocket_connector(open_timeout_s=5)(f"ws://127.0.0.1:{port}/")
