"""The client for threads, against a real WebSocket server in another thread."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from duplex_es.client import DuplexConnectionError, DuplexProtocolError, SyncDuplexClient
from duplex_es.client.blocking import Loop

pytestmark = pytest.mark.unit


def delta(pcm: bytes) -> dict[str, Any]:
    sound = base64.b64encode(pcm).decode()
    return {"type": "response.output_audio.delta", "response_id": "r", "delta": sound, "sample_rate_hz": 24_000}


async def answer(socket: ServerConnection, seq: Iterator[int]) -> None:
    """One spoken response."""
    for event in (
        {"type": "response.created", "response": {"id": "r"}},
        delta(b"ab"),
        {"type": "response.output_audio_transcript.delta", "response_id": "r", "delta": "hi"},
        delta(b"cd"),
        {"type": "response.done", "response": {"id": "r", "status": "completed"}},
    ):
        await socket.send(json.dumps({**event, "server_event_seq": next(seq)}))


async def converse(socket: ServerConnection) -> None:
    """A server that answers whatever it is asked."""
    seq = iter(range(1, 1_000))
    async for message in socket:
        match json.loads(message):
            case {"type": "session.update"}:
                created = {"type": "session.created", "session": {"id": "s"}, "resume_token": "rt", "incarnation": 0}
                await socket.send(json.dumps(created))
            case {"type": "session.resume", "session_id": str(session_id)}:
                resumed = {"type": "session.resumed", "session_id": session_id, "resume_token": "rt2"}
                await socket.send(json.dumps(resumed))
            case {"type": "response.create"}:
                await answer(socket, seq)
            case {"type": "response.cancel"}:
                await socket.send(json.dumps({"type": "error", "error": {"code": "response_not_active"}}))
            case {"type": "session.close"}:
                closed = {"type": "session.closed", "reason": "session_close", "server_event_seq": next(seq)}
                await socket.send(json.dumps(closed))
                return


@pytest.fixture
def url() -> Iterator[str]:
    ready, found = threading.Event(), list[str]()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def run() -> None:
        async with serve(converse, "127.0.0.1", 0, close_timeout=0.1) as server:
            found.append(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/realtime")
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[run()], daemon=True)
    thread.start()
    assert ready.wait(10)
    yield found[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


def test_a_conversation_needs_no_await(url: str) -> None:
    with SyncDuplexClient(url, model="m") as client:
        assert (client.session_id, client.resume_token) == ("s", "rt")
        events, responses = client.events(), client.responses()
        assert client.stream_pcm(bytes(6_400), chunk_ms=100, realtime=False) == 0
        client.append_audio(bytes(640), is_speech=True)
        client.commit(create_response=False)
        client.clear_input()
        client.send({"type": "response.create"})
        response = next(responses)
        assert list(response.audio()) == [b"ab", b"cd"]
        response.wait(5)
        client.ack_playback(response.played_ms, response_id=response.response_id)
        assert (response.transcript, response.finished) == ("hi", True)
        assert next(event for event in events if event.type == "response.done").response_id == "r"
    assert [event.type for event in events][-1] == "session.closed"


def test_an_error_is_raised_in_its_place_and_listening_goes_on(url: str) -> None:
    with SyncDuplexClient(url, model="m") as client:
        responses = client.responses()
        client.cancel_response()
        with pytest.raises(DuplexProtocolError, match="response_not_active"):
            next(responses)
        client.send({"type": "response.create"})
        assert next(responses).response_id == "r"


def test_one_thread_waits_while_another_speaks(url: str) -> None:
    with SyncDuplexClient(url, model="m") as client:
        speaker = threading.Timer(0.05, lambda: client.send({"type": "response.create"}))
        speaker.start()
        assert client.wait_for("response.done", timeout_s=30).response_id == "r"
        speaker.join()
        with pytest.raises(TimeoutError):
            client.wait_for("never", timeout_s=0.01)


def test_a_session_is_left_and_taken_up_by_its_ticket(url: str) -> None:
    with SyncDuplexClient(url, model="m", auto_acknowledge=False) as client:
        events = iter(client)
        client.send({"type": "response.create"})
        first = next(event for event in events if event.server_event_seq)
        client.acknowledge(1)
        ticket = client.export_resume_ticket(after_seq=first.server_event_seq)
        client.leave()
    with SyncDuplexClient.resume(url, ticket) as client:
        assert (client.session_id, client.resume_token) == ("s", "rt2")
        client.close(timeout_s=30)


def test_a_server_that_is_not_there_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(DuplexConnectionError), SyncDuplexClient("ws://127.0.0.1:9", model="m"):
        pass
    assert threading.active_count() == before


def test_outside_its_block_the_client_says_how_it_is_used() -> None:
    client = SyncDuplexClient("ws://127.0.0.1:9", model="m")
    for call in (client.commit, client.events):
        with pytest.raises(RuntimeError, match="with SyncDuplexClient"):
            call()


def test_an_interrupted_wait_ends_the_work_it_waited_for() -> None:
    loop, cancelled = Loop(), threading.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    import signal

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            loop.run(work())
        assert cancelled.wait(5)
    finally:
        signal.signal(signal.SIGALRM, before)
        loop.stop()
