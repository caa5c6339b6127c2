"""Events sorted into answers."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from duplex_es.client import DuplexClient, DuplexProtocolError, DuplexSessionClosedError, ResponseStream
from duplex_es.client.events import view
from duplex_es.client.responses import QUEUE_ENTRIES
from tests.support.realtime_server import FakeServer, ServerSocket, error, numbered, session_created

pytestmark = pytest.mark.unit


def stream(*events: dict[str, Any]) -> ResponseStream:
    subject = ResponseStream()
    for event in events:
        subject.put(view(event))
    return subject


def created(response_id: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": response_id}}


def audio(response_id: str, pcm: bytes, rate_hz: int = 24_000) -> dict[str, Any]:
    delta = base64.b64encode(pcm).decode()
    return {
        "type": "response.output_audio.delta",
        "response_id": response_id,
        "delta": delta,
        "sample_rate_hz": rate_hz,
    }


def words(response_id: str, text: str) -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.delta", "response_id": response_id, "delta": text}


def done(response_id: str, status: str = "completed") -> dict[str, Any]:
    return {"type": "response.done", "response_id": response_id, "response": {"id": response_id, "status": status}}


def listen(response_id: str | None = None) -> dict[str, Any]:
    return {"type": "response.listen", **({"response_id": response_id} if response_id else {})}


async def test_a_response_is_handed_over_at_its_first_sound_and_then_filled() -> None:
    subject = stream(created("r"))
    waiting = asyncio.create_task(anext(subject))
    await asyncio.sleep(0)
    assert not waiting.done()
    subject.put(view(audio("r", b"\0" * 480)))
    handle = await waiting
    assert (handle.response_id, handle.decision, handle.finished) == ("r", "speak", False)
    for event in (words("r", "Hello "), audio("r", b"\1" * 480), words("r", "there."), done("r")):
        subject.put(view(event))
    assert [chunk async for chunk in handle.audio()] == [b"\0" * 480, b"\1" * 480]
    assert handle.transcript == "Hello there."
    assert handle.created_event is not None
    assert handle.done_event is not None
    assert handle.done_event.raw["response"]["status"] == "completed"


async def test_played_time_counts_only_what_was_taken_at_its_own_rate() -> None:
    subject = stream(created("r"), audio("r", b"\0" * 4_800), audio("r", b"\0" * 1_600, 8_000), done("r"))
    handle = await anext(subject)
    chunks = handle.audio()
    assert handle.played_ms == 0
    await anext(chunks)
    assert handle.played_ms == 100
    await anext(chunks)
    assert handle.played_ms == 200


async def test_two_answers_do_not_mix() -> None:
    subject = stream(audio("a", b"aa"), audio("b", b"bb"), words("a", "A"), done("a"), words("b", "B"), done("b"))
    first, second = await anext(subject), await anext(subject)
    assert [chunk async for chunk in first.audio()] == [b"aa"]
    assert [chunk async for chunk in second.audio()] == [b"bb"]
    assert (first.transcript, second.transcript) == ("A", "B")


async def test_a_decision_to_listen_is_a_finished_handle() -> None:
    handle = await anext(stream(listen()))
    assert (handle.response_id, handle.decision, handle.finished, handle.done_event) == (None, "listen", True, None)
    assert [chunk async for chunk in handle.audio()] == []


async def test_a_listen_that_ends_a_response_is_one_handle_with_its_done() -> None:
    subject = stream(created("r"), listen("r"), done("r"), listen())
    first, second = await anext(subject), await anext(subject)
    assert (first.response_id, first.decision, second.response_id) == ("r", "listen", None)
    assert first.done_event is not None


async def test_a_listen_without_an_id_never_ends_an_answer() -> None:
    subject = stream(created("r"), audio("r", b"xx"), listen(), audio("r", b"yy"), done("r"))
    answer, decision = await anext(subject), await anext(subject)
    assert (answer.response_id, decision.response_id) == ("r", None)
    assert [chunk async for chunk in answer.audio()] == [b"xx", b"yy"]
    assert answer.done_event is not None


async def test_an_event_that_only_names_an_answer_makes_none() -> None:
    cleared = {"type": "output_audio_buffer.cleared", "response_id": "r"}
    subject = stream(created("r"), done("r"), cleared)
    assert not subject._handles, "a handle that nothing will ever finish"
    subject.end(None)
    assert [handle.response_id async for handle in subject] == ["r"]


async def test_answers_that_nobody_takes_are_bounded_and_the_newest_stay() -> None:
    subject = stream(*(done(f"r{n}") for n in range(QUEUE_ENTRIES + 2)))
    subject.end(None)
    ids = [handle.response_id async for handle in subject]
    assert (len(ids), ids[0], ids[-1]) == (QUEUE_ENTRIES, "r2", f"r{QUEUE_ENTRIES + 1}")


async def test_sound_that_nobody_takes_is_bounded_and_the_newest_stays() -> None:
    subject = stream(*(audio("r", n.to_bytes(2, "little")) for n in range(QUEUE_ENTRIES + 2)), done("r"))
    chunks = [chunk async for chunk in (await anext(subject)).audio()]
    assert (len(chunks), chunks[0]) == (QUEUE_ENTRIES, (2).to_bytes(2, "little"))


async def test_time_played_counts_the_samples_of_the_deltas_own_encoding() -> None:
    ulaw = {**audio("r", b"\0" * 80, 8_000), "format": "g711_ulaw"}
    handle = await anext(stream(ulaw, done("r")))
    async for _ in handle.audio():
        pass
    assert handle.played_ms == 10


async def test_a_listen_never_takes_back_what_was_said() -> None:
    handle = await anext(stream(audio("r", b"xx"), listen("r")))
    assert handle.decision == "speak"


async def test_a_response_without_any_output_comes_at_its_end() -> None:
    handle = await anext(stream(created("r"), done("r", "failed")))
    assert (handle.decision, handle.finished) == ("speak", True)


async def test_an_error_is_raised_in_its_place_and_the_stream_goes_on() -> None:
    subject = stream(done("a"), error("response_not_active"), done("b"))
    assert (await anext(subject)).response_id == "a"
    with pytest.raises(DuplexProtocolError, match="response_not_active"):
        await anext(subject)
    assert (await anext(subject)).response_id == "b"


async def test_the_end_of_the_session_finishes_what_is_open() -> None:
    subject = stream(audio("r", b"xx"))
    handle = await anext(subject)
    subject.end("connection lost")
    await handle.wait(1)
    assert handle.done_event is None
    with pytest.raises(DuplexSessionClosedError, match="connection lost"):
        await anext(subject)


async def test_an_expected_end_ends_the_iteration() -> None:
    subject = stream(done("r"))
    subject.end(None)
    assert [handle.response_id async for handle in subject] == ["r"]


async def test_waiting_has_a_limit() -> None:
    handle = await anext(stream(audio("r", b"xx")))
    with pytest.raises(TimeoutError):
        await handle.wait(0.01)


async def test_a_client_offers_one_stream_from_the_first_call_on() -> None:
    async def script(socket: ServerSocket) -> None:
        await socket.hear("session.update")
        await socket.say(session_created())
        await socket.hear("response.create")
        await socket.say(created("r"), audio("r", b"xx"), done("r"))
        await socket.hear("session.close")
        await socket.say(numbered(9, "session.closed", reason="session_close"))

    server = FakeServer(script)
    async with DuplexClient("ws://a", model="m", connect=server.connect) as client:
        responses = client.responses()
        await client.send({"type": "response.create"})
        async for response in client.responses():
            await response.wait(5)
            assert response.response_id == "r"
            break
        assert client.responses() is responses
    await server.finish()
