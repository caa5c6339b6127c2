"""DuplexClient: what its calls put on the wire, and how it opens, waits and closes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from duplex_es.client import (
    AudioFormat,
    DuplexClient,
    DuplexProtocolError,
    DuplexSessionClosedError,
    ReconnectPolicy,
    SessionConfig,
    UploadProgress,
)
from duplex_es.client.ticket import ResumeTicket
from tests.support.realtime_server import FakeServer, ServerSocket, error, numbered, session_created, session_resumed

pytestmark = pytest.mark.unit


async def polite(socket: ServerSocket) -> None:
    """Opens and closes as asked, and is silent between."""
    await socket.hear("session.update")
    await socket.say(session_created())
    await socket.hear("session.close")
    await socket.say(numbered(100, "session.closed", reason="session_close"))


@asynccontextmanager
async def client(
    script: Callable[[ServerSocket], Awaitable[None]] = polite, **options: Any
) -> AsyncIterator[tuple[DuplexClient, FakeServer]]:
    server = FakeServer(script)
    options = {"heartbeat_interval_s": None, "reconnect": ReconnectPolicy(3, (0.0, 0.0)), **options}
    async with DuplexClient(["ws://a", "ws://b"], model="cascade", connect=server.connect, **options) as subject:
        yield subject, server
    await server.finish()


async def test_entering_opens_the_session_and_leaving_closes_it() -> None:
    async with client() as (subject, server):
        assert subject.session_id == "sess_1"
        assert subject.session_info["object"] == "realtime.session"
        assert (subject.incarnation, subject.resume_token) == (0, "rt_1")
        assert "model=cascade" in subject.url
    assert server.sockets[0].types()[0] == "session.update"
    assert "session.close" in server.sockets[0].types()


async def test_leaving_because_of_an_exception_says_close_but_does_not_wait_for_the_answer() -> None:
    async def deaf(socket: ServerSocket) -> None:
        await socket.hear("session.update")
        await socket.say(session_created())

    server = FakeServer(deaf)
    with pytest.raises(LookupError):
        async with DuplexClient("ws://a", model="m", connect=server.connect):
            raise LookupError
    assert server.sockets[0].types()[-1] == "session.close"
    assert server.sockets[0].is_broken
    await server.finish()


async def test_a_close_nobody_answers_is_over_after_its_timeout() -> None:
    async def deaf(socket: ServerSocket) -> None:
        await socket.hear("session.update")
        await socket.say(session_created())

    async with client(deaf) as (subject, _):
        await subject.close(timeout_s=0.02)
        await subject.close(timeout_s=0.02)


async def test_an_append_says_its_format_its_length_and_where_it_ends() -> None:
    async with client() as (subject, server):
        await subject.append_audio(b"\1\2" * 3_200)
        await subject.append_audio(
            b"\1\2" * 1_600, is_speech=False, video_frames=["data:image/png;base64,iVBO", "/9j/"]
        )
        first, second = await server.sockets[0].heard("input_audio_buffer.append", 2)
    assert base64.b64decode(first["audio"]) == b"\1\2" * 3_200
    assert (first["format"], first["sample_rate_hz"]) == ("pcm16", 16_000)
    assert (first["duration_ms"], first["audio_end_ms"]) == (200, 200)
    assert "is_speech" not in first
    assert (second["duration_ms"], second["audio_end_ms"]) == (100, 300)
    assert second["is_speech"] is False
    assert second["video_frames"] == ["iVBO", "/9j/"]


async def test_a_stream_is_cut_into_chunks_and_loses_nothing() -> None:
    pcm = bytes(range(250)) * 30
    async with client(config=SessionConfig(input_audio=AudioFormat("pcm16", 8_000))) as (subject, server):
        await subject.stream_pcm(pcm, chunk_ms=100, realtime=False)
        appends = await server.sockets[0].heard("input_audio_buffer.append", 5)
    assert b"".join(base64.b64decode(each["audio"]) for each in appends) == pcm
    assert [each["duration_ms"] for each in appends] == [100, 100, 100, 100, 69]


async def test_a_paced_stream_takes_as_long_as_it_sounds() -> None:
    clock = asyncio.get_running_loop().time
    async with client() as (subject, _):
        started_s = clock()
        await subject.stream_pcm(b"\0" * 3_200, chunk_ms=20)
        assert clock() - started_s >= 0.1


async def test_audio_that_meets_a_broken_connection_is_sent_again_on_the_next() -> None:
    async def script(socket: ServerSocket) -> None:
        if "//a" in socket.url:
            await socket.hear("session.update")
            await socket.say(session_created())
            await socket.hear("input_audio_buffer.append")
            await socket.drop()
        else:
            await socket.hear("session.resume")
            await socket.say(session_resumed())
            await socket.hear("session.close")
            await socket.say({"type": "session.closed", "reason": "session_close"})

    async with client(script) as (subject, server):
        await subject.append_audio(b"\0\0")
        while not server.sockets[0].is_broken:
            await asyncio.sleep(0)
        await subject.append_audio(b"\1\1")
        [append] = await server.sockets[1].heard("input_audio_buffer.append")
    assert base64.b64decode(append["audio"]) == b"\1\1"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda c: c.commit(), {"type": "input_audio_buffer.commit", "final": True}),
        (
            lambda c: c.commit(final=False, create_response=False),
            {"type": "input_audio_buffer.commit", "final": False, "response_create": False},
        ),
        (lambda c: c.cancel_response(), {"type": "response.cancel"}),
        (lambda c: c.cancel_response("resp_1"), {"type": "response.cancel", "response_id": "resp_1"}),
        (lambda c: c.clear_input(), {"type": "input_audio_buffer.clear"}),
        (
            lambda c: c.ack_playback(99.9, response_id="resp_1"),
            {"type": "playback.ack", "played_ms": 99, "committed_ms": 99, "response_id": "resp_1"},
        ),
        (
            lambda c: c.ack_playback(50, item_id="item_1", committed_ms=20),
            {"type": "playback.ack", "played_ms": 50, "committed_ms": 20, "item_id": "item_1"},
        ),
    ],
)
async def test_each_call_puts_its_command_on_the_wire(
    call: Callable[[DuplexClient], Awaitable[None]], expected: dict[str, Any]
) -> None:
    async with client() as (subject, server):
        await call(subject)
        [command] = await server.sockets[0].heard(expected["type"])
    assert command.pop("event_id").startswith("evt_")
    assert command == expected


async def test_send_keeps_an_event_id_it_is_given_and_returns_it() -> None:
    async with client() as (subject, _):
        assert await subject.send({"type": "response.create", "event_id": "mine"}) == "mine"
        assert (await subject.send({"type": "response.create"})).startswith("evt_")


async def test_waiting_returns_the_named_event_or_raises_the_error_that_came_first() -> None:
    async def script(socket: ServerSocket) -> None:
        await socket.hear("session.update")
        await socket.say(session_created())
        await socket.hear("response.create")
        await socket.say(numbered(1, "response.created"), numbered(2, "response.done"))
        await socket.hear("response.create")
        await socket.say(error("response_not_active", event_id="evt_x"))
        await socket.hear("session.close")
        await socket.say(numbered(3, "session.closed", reason="session_close"))

    async with client(script) as (subject, _):
        waiting = asyncio.create_task(subject.wait_for("response.done", timeout_s=30))
        await asyncio.sleep(0)
        await subject.send({"type": "response.create"})
        assert (await waiting).type == "response.done"
        waiting = asyncio.create_task(subject.wait_for("response.done", timeout_s=30))
        await asyncio.sleep(0)
        await subject.send({"type": "response.create"})
        with pytest.raises(DuplexProtocolError) as caught:
            await waiting
        assert (caught.value.code, caught.value.event_id) == ("response_not_active", "evt_x")
        with pytest.raises(TimeoutError):
            await subject.wait_for("never", timeout_s=0.01)


async def test_waiting_on_a_session_that_ends_says_so() -> None:
    async def script(socket: ServerSocket) -> None:
        await socket.hear("session.update")
        await socket.say(session_created())
        await socket.hear("input_audio_buffer.clear")
        await socket.say(numbered(1, "session.closed", reason="timeout"))

    async with client(script) as (subject, _):
        waiting = asyncio.create_task(subject.wait_for("response.done", timeout_s=30))
        await asyncio.sleep(0)
        await subject.clear_input()
        with pytest.raises(DuplexSessionClosedError, match="timeout"):
            await waiting


async def test_a_heartbeat_is_sent_every_interval() -> None:
    async with client(heartbeat_interval_s=0.01) as (_, server):
        await server.sockets[0].heard("session.heartbeat", 2)


async def test_iterating_the_client_ends_with_an_expected_close() -> None:
    async with client() as (subject, _):
        events = aiter(subject)
        await subject.close()
        assert [event.type async for event in events][-1] == "session.closed"


async def test_frames_ride_the_appends_that_complete_their_units_and_are_counted() -> None:
    async with client() as (subject, server):
        sent = await subject.stream_pcm(
            bytes(2 * 16_000 * 3),
            chunk_ms=500,
            realtime=False,
            video_frames=["data:image/jpeg;base64,AAAA", "BBBB"],
            stacked_video_frames=["CCCC"],
        )
        appends = await server.sockets[0].heard("input_audio_buffer.append", 6)
    assert sent == 2
    assert [each.get("video_frames") for each in appends] == [None, None, ["AAAA", "CCCC"], None, ["BBBB"], None]


async def test_each_stream_counts_its_units_anew_while_the_audio_goes_on() -> None:
    async with client() as (subject, server):
        for _ in range(2):
            assert await subject.stream_pcm(bytes(2 * 16_480), chunk_ms=1_030, realtime=False, video_frames=["A"]) == 1
        ends = [each["audio_end_ms"] for each in await server.sockets[0].heard("input_audio_buffer.append", 2)]
    assert ends == [1_030, 2_060]


async def test_a_long_upload_reports_how_far_it_is_and_its_end() -> None:
    async with client() as (subject, _):
        events = subject.events()
        await subject.stream_pcm(bytes(2 * 16_000), chunk_ms=10, realtime=False, progress=True)
        await subject.close()
        seen = [event async for event in events if isinstance(event, UploadProgress)]
    assert (seen[-1].sent_ms, seen[-1].total_ms) == (1_000, 1_000)


async def test_a_ticket_holds_what_the_next_process_needs_to_know() -> None:
    config = SessionConfig(input_audio=AudioFormat("pcm_f32le", 24_000))
    async with client(config=config) as (subject, _):
        await subject.append_audio(bytes(96_000))
        ticket = subject.export_resume_ticket()

    async def script(socket: ServerSocket) -> None:
        resume = await socket.hear()
        assert (resume["resume_token"], resume["last_received_server_event_seq"]) == ("rt_1", 0)
        await socket.say(session_resumed())
        await socket.hear("session.close")
        await socket.say(numbered(1, "session.closed", reason="session_close"))

    server = FakeServer(script)
    async with DuplexClient.resume("ws://b", ticket, connect=server.connect) as subject:
        assert (subject.model, subject.session_id, subject.resume_token) == ("cascade", "sess_1", "rt_2")
        assert subject.config.input_audio == config.input_audio
        assert subject.session_info["object"] == "realtime.session"
        await subject.append_audio(bytes(96_000))
        [append] = await server.sockets[0].heard("input_audio_buffer.append")
        assert (append["duration_ms"], append["audio_end_ms"]) == (1_000, 2_000)
    await server.finish()


async def two_events(socket: ServerSocket) -> None:
    await socket.hear("session.update")
    await socket.say(session_created(), numbered(1), numbered(2))
    await socket.hear("session.close")
    await socket.say(numbered(3, "session.closed", reason="session_close"))


async def test_a_ticket_may_stand_anywhere_between_what_was_acknowledged_and_what_was_received() -> None:
    async with client(two_events, auto_acknowledge=False) as (subject, server):
        events = subject.events()
        while (await anext(events)).server_event_seq != 2:
            pass
        assert ResumeTicket.from_text(subject.export_resume_ticket()).after_seq == 2
        assert ResumeTicket.from_text(subject.export_resume_ticket(after_seq=1)).after_seq == 1
        subject.acknowledge(1)
        await server.sockets[0].heard("session.event_ack")
        for wrong in (0, 3):
            with pytest.raises(ValueError, match=f"after_seq is {wrong}"):
                subject.export_resume_ticket(after_seq=wrong)
        with pytest.raises(ValueError, match="not received"):
            subject.acknowledge(3)


async def test_a_session_that_cannot_be_resumed_has_no_ticket() -> None:
    async def script(socket: ServerSocket) -> None:
        await socket.hear("session.update")
        await socket.say(session_created(token=None))
        await socket.hear("session.close")
        await socket.say(numbered(1, "session.closed", reason="session_close"))

    async with client(script) as (subject, _):
        with pytest.raises(DuplexSessionClosedError, match="cannot be resumed"):
            subject.export_resume_ticket()


async def test_leaving_hangs_up_without_closing_and_is_an_expected_end() -> None:
    async with client(two_events) as (subject, server):
        events = subject.events()
        await subject.leave()
        assert server.sockets[0].is_broken
        assert "session.closed" not in [event.type async for event in events]
    assert "session.close" not in server.sockets[0].types()


async def test_one_without_a_url_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one URL"):
        DuplexClient([], model="m")
