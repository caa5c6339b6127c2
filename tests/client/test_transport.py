"""URLs, and the real WebSocket behind the transport."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosedError
from websockets.http11 import Request, Response

from duplex_es.client import DuplexConnectionError
from duplex_es.client.transport import (
    Line,
    build_realtime_url,
    is_loopback,
    retry_after_ms,
    session_url,
    websocket_connector,
)

pytestmark = pytest.mark.unit


def query(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


def test_a_bare_host_gets_the_path_the_model_and_no_autostart() -> None:
    url = session_url("ws://h:8099", "openbmb/MiniCPM-o-4_5")
    assert urlsplit(url).path == "/v1/realtime"
    assert query(url) == {"duplex": ["1"], "model": ["openbmb/MiniCPM-o-4_5"], "autostart": ["0"]}


def test_what_the_caller_wrote_stays_except_autostart() -> None:
    url = session_url("wss://h/custom?model=mine&autostart=1&trace=a%20b", "cascade")
    assert urlsplit(url).path == "/custom"
    assert query(url) == {"duplex": ["1"], "model": ["mine"], "autostart": ["0"], "trace": ["a b"]}


def test_an_http_url_is_dialled_as_a_websocket() -> None:
    assert session_url("https://h", "m").startswith("wss://h/")
    assert session_url("http://h", "m").startswith("ws://h/")


@pytest.mark.parametrize("url", ["h:8099", "ftp://h", "", "ws://"])
def test_what_cannot_be_dialled_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not a ws"):
        build_realtime_url(url, "m")


def test_a_url_for_other_programs_says_only_what_it_is_told_and_keeps_what_it_said() -> None:
    assert query(build_realtime_url("http://h/v1/realtime", None)) == {"duplex": ["1"]}
    url = build_realtime_url(
        "wss://h/v1/realtime?duplex=0&trace=1",
        "m",
        autostart=False,
        native_duplex=True,
        session_id="s",
        extra_query={"trace": "2", "lane": "a"},
    )
    assert query(url) == {
        "duplex": ["0"],
        "model": ["m"],
        "autostart": ["0"],
        "native_duplex": ["1"],
        "session_id": ["s"],
        "trace": ["1"],
        "lane": ["a"],
    }


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
        line = await Line.dial(websocket_connector(open_timeout_s=30), f"ws://127.0.0.1:{port}/")
        await line.send("hello")
        assert await line.recv() == "hello"
        with pytest.raises(DuplexConnectionError):
            await line.recv()
        with pytest.raises(DuplexConnectionError):
            await line.send("anybody?")
        await line.close()


async def test_a_port_where_nobody_listens_is_broken_too() -> None:
    async with serve(lambda socket: socket.wait_closed(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    with pytest.raises(DuplexConnectionError):
        await Line.dial(websocket_connector(open_timeout_s=30), f"ws://127.0.0.1:{port}/")


class Moody:
    """A transport of somebody else's, which fails as it likes."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def send(self, message: str, /) -> None:
        raise self.error

    async def recv(self) -> str | bytes:
        raise self.error

    async def close(self) -> None:
        raise self.error


@pytest.mark.parametrize(
    "error", [ConnectionResetError("gone"), EOFError(), TimeoutError(), ConnectionClosedError(None, None)]
)
async def test_however_a_transport_breaks_the_line_breaks_in_one_way(error: Exception) -> None:
    line = Line(Moody(error))
    with pytest.raises(DuplexConnectionError):
        await line.send("x")
    with pytest.raises(DuplexConnectionError):
        await line.recv()
    await line.close()


async def test_a_mistake_in_a_transport_is_no_broken_connection() -> None:
    with pytest.raises(ZeroDivisionError):
        await Line(Moody(ZeroDivisionError())).recv()


async def test_a_refused_handshake_says_when_to_come_again() -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        response = connection.respond(503, "full\n")
        response.headers["Retry-After"] = "2"
        return response

    async with serve(lambda socket: socket.wait_closed(), "127.0.0.1", 0, process_request=refuse) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(DuplexConnectionError, match="503") as caught:
            await Line.dial(websocket_connector(open_timeout_s=30), f"ws://127.0.0.1:{port}/")
    assert caught.value.retry_after_ms == 2_000


def test_no_word_about_coming_again_is_none() -> None:
    assert retry_after_ms(OSError()) is None


async def test_a_server_that_reads_nothing_holds_the_sender_up() -> None:
    hold = asyncio.Event()
    async with serve(lambda socket: hold.wait(), "127.0.0.1", 0, max_queue=1, close_timeout=0.1) as server:
        port = server.sockets[0].getsockname()[1]
        transport = await websocket_connector(open_timeout_s=30)(f"ws://127.0.0.1:{port}/")
        line = Line(transport)
        sent = 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                while sent < 1_000:
                    await line.send("x" * 100_000)
                    sent += 1
        assert sent < 500
        hold.set()
        assert isinstance(transport, ClientConnection)
        transport.transport.abort()
