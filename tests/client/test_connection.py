"""Handshake, reading and resuming, against an in-memory server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from duplex_es.client import DuplexConnectionError, DuplexProtocolError, DuplexSessionClosedError, ReconnectPolicy
from duplex_es.client.config import SessionConfig
from duplex_es.client.connection import Connection
from duplex_es.client.machine import Phase
from tests.support.realtime_server import FakeServer, ServerSocket, error, numbered, session_created, session_resumed

pytestmark = pytest.mark.unit

AT_ONCE = ReconnectPolicy(max_attempts=3, backoff_s=(0.0, 0.0))
Script = Callable[[ServerSocket], Awaitable[None]]


@asynccontextmanager
async def connection(
    script: Script,
    *,
    urls: tuple[str, ...] = ("ws://a", "ws://b"),
    down: tuple[str, ...] = (),
    reconnect: ReconnectPolicy | None = AT_ONCE,
    timeout_s: float = 5.0,
) -> AsyncIterator[tuple[Connection, FakeServer]]:
    server = FakeServer(script)
    server.down = set(down)
    subject = Connection(
        urls,
        model="cascade",
        config=SessionConfig(),
        session_id=None,
        reconnect=reconnect,
        handshake_timeout_s=timeout_s,
        connect=server.connect,
    )
    try:
        yield subject, server
    finally:
        await subject.shut()
        await server.finish()


async def open_session(socket: ServerSocket) -> None:
    await socket.hear("session.update")
    await socket.say(session_created())


async def test_a_session_opens_on_the_first_url_that_answers() -> None:
    async with connection(open_session, down=("//a",)) as (subject, server):
        await subject.open()
        assert server.dialled == ["ws://a", "ws://b"]
        assert subject.url == "ws://b"


async def test_no_answering_url_is_a_connection_error_that_names_them() -> None:
    async with connection(open_session, down=("//a", "//b")) as (subject, _):
        with pytest.raises(DuplexConnectionError, match="ws://a, ws://b"):
            await subject.open()


async def test_a_refused_opening_is_a_protocol_error_and_is_not_tried_elsewhere() -> None:
    async def refuse(socket: ServerSocket) -> None:
        await socket.hear("session.update")
        await socket.say(error("resource_exhausted"))

    async with connection(refuse) as (subject, server):
        with pytest.raises(DuplexProtocolError) as caught:
            await subject.open()
        assert caught.value.code == "resource_exhausted"
        assert server.dialled == ["ws://a"]


async def test_a_server_that_says_nothing_is_given_up_after_the_handshake_timeout() -> None:
    async def silent(socket: ServerSocket) -> None:
        await socket.hear("session.update")

    async with connection(silent, timeout_s=0.05) as (subject, _):
        with pytest.raises(DuplexConnectionError, match="did not open the session"):
            await subject.open()


async def test_every_numbered_event_is_handed_on_and_then_acknowledged() -> None:
    async def script(socket: ServerSocket) -> None:
        await open_session(socket)
        await socket.say(numbered(1), {"type": "plain"}, "not json", b"binary", numbered(2))

    async with connection(script) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        seen = [(await anext(events)).raw.get("server_event_seq") for _ in range(4)]
        assert seen == [None, 1, None, 2]
        acks = await server.sockets[0].heard("session.event_ack", 2)
        assert [ack["server_event_seq"] for ack in acks] == [1, 2]


async def test_a_broken_session_goes_on_at_the_next_gateway_with_every_event_once() -> None:
    async def script(socket: ServerSocket) -> None:
        if socket.url == "ws://a":
            await open_session(socket)
            await socket.say(numbered(1), numbered(2))
            await socket.hear("session.event_ack")
            await socket.hear("session.event_ack")
            await socket.drop()
        else:
            resume = await socket.hear("session.resume")
            assert resume["last_received_server_event_seq"] == 2
            assert resume["resume_token"] == "rt_1"
            await socket.say(session_resumed(), numbered(2), numbered(3), numbered(4))

    async with connection(script) as (subject, _):
        events = subject.subscriptions.add()
        await subject.open()
        heard = [await anext(events) for _ in range(7)]
        assert [event.type for event in heard] == [
            "session.created",
            *["session.heartbeat_ack"] * 2,
            "connection.resumed",
            "session.resumed",
            *["session.heartbeat_ack"] * 2,
        ]
        assert [event.server_event_seq for event in heard if event.server_event_seq] == [1, 2, 3, 4]
        assert heard[3].raw["attempt"] == 1
        assert subject.url == "ws://b"
        assert subject.machine.resume_token == "rt_2"


async def test_what_came_before_the_activation_is_handed_on_after_it() -> None:
    async def script(socket: ServerSocket) -> None:
        if socket.url == "ws://a":
            await open_session(socket)
            await socket.drop()
        else:
            await socket.say({"type": "early"}, session_resumed(), {"type": "late"})

    async with connection(script) as (subject, _):
        events = subject.subscriptions.add()
        await subject.open()
        types = [(await anext(events)).type for _ in range(5)]
        assert types == ["session.created", "connection.resumed", "session.resumed", "early", "late"]


async def test_a_command_during_a_resume_waits_and_reaches_the_new_socket() -> None:
    may_resume = asyncio.Event()

    async def script(socket: ServerSocket) -> None:
        if socket.url == "ws://a":
            await open_session(socket)
            await socket.drop()
        else:
            await socket.hear("session.resume")
            await may_resume.wait()
            await socket.say(session_resumed())

    async with connection(script) as (subject, server):
        await subject.open()
        while subject.machine.phase is not Phase.RESUMING:
            await asyncio.sleep(0)
        sending = asyncio.create_task(subject.send({"type": "session.heartbeat"}))
        await asyncio.sleep(0)
        assert not sending.done()
        may_resume.set()
        await sending
        assert server.sockets[1].types() == ["session.resume", "session.heartbeat"]


async def test_a_final_refusal_of_the_resume_ends_the_session_for_all_consumers() -> None:
    async def script(socket: ServerSocket) -> None:
        if len(server.sockets) == 1:
            await open_session(socket)
            await socket.drop()
        else:
            await socket.hear("session.resume")
            await socket.say(error("session_resume_expired"))

    async with connection(script) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        with pytest.raises(DuplexSessionClosedError, match="session_resume_expired"):
            async for _ in events:
                pass
        with pytest.raises(DuplexSessionClosedError, match="session_resume_expired"):
            await subject.send({"type": "session.heartbeat"})
        assert len(server.sockets) == 2


async def test_a_resume_is_tried_as_often_as_the_policy_says() -> None:
    async def script(socket: ServerSocket) -> None:
        await open_session(socket)
        server.down = {"//a", "//b"}
        await socket.drop()

    async with connection(script) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        with pytest.raises(DuplexSessionClosedError, match="connection lost"):
            async for _ in events:
                pass
        assert server.dialled == ["ws://a", "ws://b", "ws://a", "ws://b"]


async def test_without_a_policy_a_broken_connection_is_the_end() -> None:
    async def script(socket: ServerSocket) -> None:
        await open_session(socket)
        await socket.drop()

    async with connection(script, reconnect=None) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        with pytest.raises(DuplexSessionClosedError, match="connection lost"):
            async for _ in events:
                pass
        assert server.dialled == ["ws://a"]


async def test_a_replaced_socket_does_not_fight_for_the_session() -> None:
    async def script(socket: ServerSocket) -> None:
        await open_session(socket)
        await socket.say({"type": "session.replaced", "attachment_generation": 1})
        await socket.drop()

    async with connection(script) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        with pytest.raises(DuplexSessionClosedError, match=r"session\.replaced"):
            async for _ in events:
                pass
        assert len(server.sockets) == 1
