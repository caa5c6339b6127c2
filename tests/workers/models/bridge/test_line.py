"""The connection: what it dials, what breaks it, and frames that nobody knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from duplex_es.protocol import Heartbeat, SessionHeartbeatAck
from workers.models.bridge.line import Line, LineLost, Strange, is_loopback, session_url

pytestmark = pytest.mark.unit


@asynccontextmanager
async def server(*texts: str, status: HTTPStatus | None = None) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    seen: dict[str, Any] = {}

    def check(connection: ServerConnection, request: Any) -> Any:
        seen.update(path=request.path, key=request.headers.get("Authorization"))
        return None if status is None else connection.respond(status, "no\n")

    async def talk(socket: ServerConnection) -> None:
        seen["said"] = await socket.recv()
        for text in texts:
            await socket.send(text)

    async with serve(talk, "127.0.0.1", 0, process_request=check) as running:
        yield f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}", seen


async def dial(url: str, key: str | None = None) -> Line:
    return await Line.dial(url, model="m", key=key, timeout_s=5)


async def test_a_line_says_commands_and_hears_frames_known_or_not() -> None:
    known = '{"type":"session.heartbeat_ack","session_id":"s","server_event_seq":2}'
    async with server("no json", '{"type":"vendor.news","server_event_seq":1}', known) as (url, seen):
        line = await dial(url, "secret")
        await line.say(Heartbeat())
        assert await line.hear() == Strange(type="vendor.news", server_event_seq=1)
        assert isinstance(await line.hear(), SessionHeartbeatAck)
        with pytest.raises(LineLost):
            await line.hear()
        await line.close()
        with pytest.raises(LineLost):
            await line.say(Heartbeat())
    assert seen == {"path": "/v1/realtime?duplex=1&autostart=0&model=m", "key": "Bearer secret", "said": seen["said"]}


@pytest.mark.parametrize(("status", "busy"), [(HTTPStatus.SERVICE_UNAVAILABLE, True), (HTTPStatus.UNAUTHORIZED, False)])
async def test_a_server_that_turns_it_away_says_whether_it_is_busy(status: HTTPStatus, busy: bool) -> None:
    async with server(status=status) as (url, _):
        with pytest.raises(LineLost) as lost:
            await dial(url)
    assert lost.value.busy is busy


async def test_nobody_there_is_a_lost_line() -> None:
    with pytest.raises(LineLost):
        await dial("ws://127.0.0.1:9")


def test_the_url_keeps_what_it_says() -> None:
    assert session_url("ws://h/path?autostart=1&x=2", None) == "ws://h/path?duplex=1&autostart=1&x=2"


def test_only_this_machine_is_this_machine() -> None:
    assert [is_loopback(url) for url in ("ws://127.0.0.1:1", "ws://localhost", "ws://example.org")] == [
        True,
        True,
        False,
    ]
