"""Handshake, reading and resuming, against an in-memory server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from duplex_es.client import DuplexConnectionError, DuplexProtocolError, DuplexSessionClosedError, ReconnectPolicy
from duplex_es.client.config import SessionConfig
from duplex_es.client.connection import Connection
from duplex_es.client.events import DuplexEvent
from duplex_es.client.machine import ClientMachine, Phase
from duplex_es.client.ticket import ResumeTicket
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
    timeout_s: float = 30.0,
    ticket: ResumeTicket | None = None,
    auto_acknowledge: bool = True,
) -> AsyncIterator[tuple[Connection, FakeServer]]:
    server = FakeServer(script)
    server.down = set(down)
    subject = Connection(
        urls,
        ClientMachine(model="cascade", config=SessionConfig(), ticket=ticket),
        reconnect=reconnect,
        handshake_timeout_s=timeout_s,
        connect=server.connect,
        auto_acknowledge=auto_acknowledge,
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


async def test_consumers_see_one_resume_however_many_attempts_it_took() -> None:
    async def script(socket: ServerSocket) -> None:
        if len(server.sockets) == 1:
            await open_session(socket)
            await socket.drop()
        elif len(server.sockets) == 2:
            await socket.hear("session.resume")
            await socket.say(numbered(1), error("internal_error"))
        else:
            resume = await socket.hear("session.resume")
            assert resume["last_received_server_event_seq"] == 1
            await socket.say(session_resumed(), numbered(2))

    async with connection(script) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        heard = [await anext(events) for _ in range(5)]
        assert [(event.type, event.server_event_seq) for event in heard] == [
            ("session.created", None),
            ("connection.resumed", None),
            ("session.resumed", None),
            ("session.heartbeat_ack", 1),
            ("session.heartbeat_ack", 2),
        ]
        assert heard[1].raw["attempt"] == 2


@pytest.mark.parametrize(("urls", "waited"), [(("ws://a",), True), (("ws://a", "ws://b", "ws://c"), False)])
async def test_a_server_that_says_when_to_come_again_is_given_that_time_and_another_is_not(
    monkeypatch: pytest.MonkeyPatch, urls: tuple[str, ...], waited: bool
) -> None:
    waits: list[float] = []

    async def script(socket: ServerSocket) -> None:
        if len(server.sockets) == 1:
            await open_session(socket)
            await socket.drop()
        elif len(server.sockets) == 2:
            await socket.hear("session.resume")
            await socket.say({"type": "error", "error": "full", "code": "duplex_session_busy", "retry_after_ms": 700})
        else:
            await socket.hear("session.resume")
            await socket.say(session_resumed())

    class Watched(ReconnectPolicy):
        def delay_s(self, attempt: int, *_: object) -> float:
            return 0.0

    real = asyncio.sleep

    async def sleep(delay_s: float, *arguments: object) -> None:
        waits.append(delay_s)
        await real(0)

    async with connection(script, reconnect=Watched(), urls=urls) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        monkeypatch.setattr("duplex_es.client.connection.asyncio.sleep", sleep)
        async for event in events:
            if event.type == "session.resumed":
                break
        monkeypatch.undo()
        assert [round(wait, 1) for wait in waits if wait] == ([0.7] if waited else [])


async def test_a_connection_lost_while_an_event_is_dealt_with_delivers_that_event_once() -> None:
    async def script(socket: ServerSocket) -> None:
        if len(server.sockets) == 1:
            await open_session(socket)
            await socket.say(numbered(1))
        else:
            await socket.hear("session.resume")
            await socket.say(session_resumed(), numbered(1), numbered(2))

    async with connection(script) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        seen = []
        async for event in events:
            seen.append(event.server_event_seq)
            if event.server_event_seq == 1:
                await server.sockets[0].drop()
                while subject.machine.resume_token != "rt_2":
                    await asyncio.sleep(0)
            if event.server_event_seq == 2:
                break
        assert [seq for seq in seen if seq] == [1, 2]


async def test_what_had_not_arrived_is_said_again_once_in_order_before_anything_new() -> None:
    async def script(socket: ServerSocket) -> None:
        if len(server.sockets) == 1:
            await open_session(socket)
        else:
            await socket.hear("session.resume")
            await socket.say(session_resumed(last_client_event_id="b"))

    async with connection(script) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        for event_id in ("a", "b", "c", "d"):
            await subject.send({"type": "x", "event_id": event_id}, event_id)
        await server.sockets[0].drop()
        await subject.send({"type": "x", "event_id": "e"}, "e")
        said = await server.sockets[1].heard("x", 3)
        assert [command["event_id"] for command in said] == ["c", "d", "e"]
        news = [event async for event in _until(events, "connection.resumed")][-1]
        assert news.raw["resent"] == 3, "the last one met the broken socket"


async def test_an_event_the_connection_broke_under_is_not_an_error_where_the_server_tells_what_arrived() -> None:
    async def script(socket: ServerSocket) -> None:
        if len(server.sockets) == 1:
            await open_session(socket)
            await socket.hear("session.heartbeat")
            socket.is_broken = True  # the next send fails, and then the reader sees the end
        else:
            await socket.hear("session.resume")
            await socket.say(session_resumed(last_client_event_id=None))

    async with connection(script) as (subject, server):
        await subject.open()
        await subject.send({"type": "session.heartbeat"})
        while not server.sockets[0].is_broken:
            await asyncio.sleep(0)
        sending = asyncio.create_task(subject.send({"type": "x", "event_id": "a"}, "a"))
        await asyncio.sleep(0)
        await server.sockets[0].drop()
        await sending
        assert [command["event_id"] for command in await server.sockets[1].heard("x")] == ["a"]
        assert server.sockets[1].types().count("x") == 1


async def test_against_a_server_that_cannot_tell_it_is_an_error_and_nothing_is_said_twice() -> None:
    async def script(socket: ServerSocket) -> None:
        if len(server.sockets) == 1:
            await open_session(socket)
            await socket.hear("session.heartbeat")
            socket.is_broken = True
        else:
            await socket.hear("session.resume")
            await socket.say(session_resumed(), {"type": "late"})

    async with connection(script) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        await subject.send({"type": "session.heartbeat"})
        while not server.sockets[0].is_broken:
            await asyncio.sleep(0)
        sending = asyncio.create_task(subject.send({"type": "x", "event_id": "a"}, "a"))
        await asyncio.sleep(0)
        await server.sockets[0].drop()
        with pytest.raises(DuplexConnectionError):
            await sending
        heard = [event async for event in _until(events, "late")]
        assert heard[1].raw == {"type": "connection.resumed", "attempt": 1, "resent": None}
        await subject.send({"type": "x", "event_id": "b"}, "b")
        assert [command["event_id"] for command in await server.sockets[1].heard("x")] == ["b"]


async def test_a_connection_lost_while_saying_again_is_resumed_again_and_each_event_arrives_once() -> None:
    arrived: list[str] = []

    async def script(socket: ServerSocket) -> None:
        if len(server.sockets) == 1:
            await open_session(socket)
            return
        await socket.hear("session.resume")
        await socket.say(
            session_resumed(token=f"rt_{len(server.sockets)}", last_client_event_id=(arrived or [None])[-1])
        )
        for _ in range(2):
            arrived.append((await socket.hear("x"))["event_id"])
        if len(server.sockets) < 4:
            await socket.drop()

    async with connection(script) as (subject, server):
        await subject.open()
        ids = [f"e{n}" for n in range(6)]
        for event_id in ids:
            await subject.send({"type": "x", "event_id": event_id}, event_id)
        await server.sockets[0].drop()
        async with asyncio.timeout(30):
            while len(arrived) < len(ids):
                await asyncio.sleep(0)
        assert arrived == ids


async def test_commands_go_out_in_the_order_of_the_calls_even_when_all_had_to_wait() -> None:
    may_resume = asyncio.Event()

    async def script(socket: ServerSocket) -> None:
        if len(server.sockets) == 1:
            await open_session(socket)
            await socket.drop()
        else:
            await socket.hear("session.resume")
            await may_resume.wait()
            await socket.say(session_resumed(last_client_event_id=None))

    async with connection(script) as (subject, server):
        await subject.open()
        while subject.machine.phase is not Phase.RESUMING:
            await asyncio.sleep(0)
        ids = [f"e{n}" for n in range(50)]
        sending = [asyncio.create_task(subject.send({"type": "x", "event_id": each}, each)) for each in ids]
        await asyncio.sleep(0)
        may_resume.set()
        await asyncio.gather(*sending)
        assert [command["event_id"] for command in await server.sockets[1].heard("x", 50)] == ids
        assert server.sockets[1].types().count("x") == 50


async def test_a_command_held_up_by_the_server_is_not_overtaken() -> None:
    async with connection(open_session) as (subject, server):
        await subject.open()
        transport = server.sockets[0].client
        may_go, send = asyncio.Event(), transport.send

        async def behind(message: str, /) -> None:
            if '"a"' in message:
                await may_go.wait()
            await send(message)

        transport.send = behind  # type: ignore[method-assign]
        sending = [asyncio.create_task(subject.send({"type": "x", "event_id": each}, each)) for each in ("a", "b")]
        await asyncio.wait(sending, timeout=0.01)
        assert "x" not in server.sockets[0].types()
        may_go.set()
        assert [command["event_id"] for command in await server.sockets[0].heard("x", 2)] == ["a", "b"]
        await asyncio.gather(*sending)


async def test_nothing_is_acknowledged_by_itself_where_the_program_does_it() -> None:
    async def script(socket: ServerSocket) -> None:
        await open_session(socket)
        await socket.say(numbered(1), numbered(2), numbered(3))

    async with connection(script, auto_acknowledge=False) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        for _ in range(4):
            await anext(events)
        subject.acknowledge(2)
        [ack] = await server.sockets[0].heard("session.event_ack")
        assert ack["server_event_seq"] == 2
        assert server.sockets[0].types().count("session.event_ack") == 1
        assert subject.acknowledged_seq == 2


async def test_a_server_that_takes_no_acknowledgement_does_not_hold_up_the_reading() -> None:
    async def script(socket: ServerSocket) -> None:
        await open_session(socket)
        for seq in range(1, 201):
            await socket.say(numbered(seq))

    async with connection(script) as (subject, server):
        events = subject.subscriptions.add()
        await subject.open()
        transport = server.sockets[0].client
        blocked, send = asyncio.Event(), transport.send

        async def behind(message: str, /) -> None:
            await blocked.wait()
            await send(message)

        transport.send = behind  # type: ignore[method-assign]
        async with asyncio.timeout(30):
            while (await anext(events)).server_event_seq != 200:
                pass
        blocked.set()
        async with asyncio.timeout(30):
            while server.sockets[0].received[-1].get("server_event_seq") != 200:
                await asyncio.sleep(0)
        assert server.sockets[0].types().count("session.event_ack") < 100


TICKET = ResumeTicket(session_id="sess_1", resume_token="rt_1", after_seq=4, model="cascade", incarnation=0)


async def test_a_session_is_taken_up_from_a_ticket_on_the_first_url_that_answers() -> None:
    async def script(socket: ServerSocket) -> None:
        resume = await socket.hear()
        assert (resume["type"], resume["last_received_server_event_seq"]) == ("session.resume", 4)
        await socket.say(session_resumed(last_client_event_id=None), numbered(4), numbered(5), numbered(6))

    async with connection(script, down=("//a",), ticket=TICKET) as (subject, server):
        await subject.open()
        assert subject.url == "ws://b"
        assert subject.machine.resume_token == "rt_2"
        await server.sockets[0].heard("session.event_ack", 2)
        events = subject.subscriptions.add()
        heard = [await anext(events) for _ in range(3)]
        assert [event.type for event in heard] == ["session.resumed", *["session.heartbeat_ack"] * 2]


@pytest.mark.parametrize(
    ("answer", "expected", "match"),
    [
        (error("session_resume_expired"), DuplexProtocolError, "session_resume_expired"),
        ({"type": "error", "error": "no", "code": "invalid_resume_token"}, DuplexProtocolError, "invalid_resume_token"),
        ({"type": "session.resync_required", "reason": "journal_gap"}, DuplexProtocolError, "resync_required"),
        ({"type": "session.expired", "reason": "idle_ttl_expired"}, DuplexSessionClosedError, "expired"),
    ],
)
async def test_a_ticket_that_is_no_longer_good_says_why(
    answer: dict[str, object], expected: type[Exception], match: str
) -> None:
    async def script(socket: ServerSocket) -> None:
        await socket.hear("session.resume")
        await socket.say(answer)

    async with connection(script, ticket=TICKET) as (subject, _):
        with pytest.raises(expected, match=match):
            await subject.open()


async def _until(events: AsyncIterator[DuplexEvent], type: str) -> AsyncIterator[DuplexEvent]:
    async for event in events:
        yield event
        if event.type == type:
            return
