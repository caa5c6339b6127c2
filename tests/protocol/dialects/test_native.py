"""The native rows: the runtime's own events, each once."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.protocol import EXTENSIONS, FRAMES, Frame, ResponseObject, frames, to_plain, wire_name
from duplex_es.protocol.dialects import NATIVE, project
from duplex_es.protocol.dialects.native import ROWS
from tests.protocol.dialects import samples

pytestmark = pytest.mark.unit

HEARD = {
    "input_audio_buffer.committed": ["input.committed"],
    "input_audio_buffer.cleared": ["input.cancelled"],
    "response.output_audio_transcript.delta": ["response.output_audio.delta"],
    "response.output_text.delta": ["response.text.delta"],
    "response.function_call_arguments.done": ["function_call.done"],
    "duplex.function_call.done": ["function_call.done"],
    "duplex.turn.event": ["turn.event"],
    "input_audio_buffer.speech_started": [],
    "input_audio_buffer.speech_stopped": [],
    "conversation.item.added": [],
    "conversation.item.created": [],
    "conversation.item.done": [],
    "conversation.item.input_audio_transcription.completed": [],
    "conversation.item.input_audio_transcription.delta": [],
    "conversation.item.input_audio_transcription.failed": [],
    "response.output_item.added": [],
    "response.content_part.added": [],
    "response.speak": [],
    "response.output_audio_transcript.done": [],
    "response.content_part.done": [],
    "response.output_item.done": [],
    "rate_limits.updated": [],
    "response.function_call_arguments.delta": [],
}
"""Where the native name is another one, or the frame is part of another event."""


def only(frame: Frame) -> dict[str, Any]:
    """The one event that is heard of ``frame``."""
    (event,) = project(frame, NATIVE)
    return event


def test_every_frame_has_a_row() -> None:
    assert set(ROWS) == {*FRAMES.values(), *EXTENSIONS.values()}


@pytest.mark.parametrize("frame", samples.EVERY, ids=wire_name)
def test_a_frame_is_heard_under_its_native_name(frame: Frame) -> None:
    name = wire_name(frame)
    assert [event["type"] for event in project(frame, NATIVE)] == HEARD.get(name, [name])


@pytest.mark.parametrize(
    "name",
    [
        "runtime.control",
        "session.resumed",
        "session.replaced",
        "session.expired",
        "session.resync_required",
        "session.heartbeat_ack",
    ],
)
def test_some_frames_pass_through_unchanged(name: str) -> None:
    (frame,) = (frame for frame in samples.EVERY if wire_name(frame) == name)
    assert only(frame) == to_plain(frame)


def test_what_a_frame_wraps_is_heard_bare() -> None:
    acknowledged = only(next(frame for frame in samples.EVERY if wire_name(frame) == "playback.acknowledged"))
    assert (acknowledged["played_ms"], acknowledged["playback"]["sent_ms"]) == (1000, 2400)
    bare = frames.ConversationItemDeleted(item_id="i")
    assert only(bare) == {"type": "conversation.item.deleted", "item_id": "i"}


def test_sound_carries_what_rode_on_it() -> None:
    delta = only(samples.delta())
    assert (delta["session_id"], delta["model_speak"], delta["audio_duration_ms"]) == ("s", True, 10)
    assert (delta["format"], delta["sample_rate_hz"]) == ("pcm16", 24000)
    bare = only(frames.ResponseOutputAudioDelta(**samples.PLACE, delta=b"\0\0"))
    assert set(bare) == {"type", "response_id", "delta"}


def test_text_follows_its_sound() -> None:
    heard = only(frames.ResponseOutputAudioTranscriptDelta(**samples.PLACE, delta="It is"))
    assert (heard["audio_transcript"], heard["delta"]) == ("It is", "")
    assert project(frames.ResponseOutputAudioTranscriptDelta(**samples.PLACE, delta=""), NATIVE) == []


def test_a_response_is_told_by_its_raw_event() -> None:
    created, done = only(samples.created(trace="x")), only(samples.done())
    assert (created["type"], created["turn_id"]) == ("response.created", 0)
    assert (done["type"], done["committed"], done["status"]) == ("response.done", True, "completed")
    assert "status_details" not in done


def test_a_response_without_a_raw_event_is_told_by_its_id() -> None:
    response = ResponseObject(id="r")
    assert only(frames.ResponseCreated(response=response)) == {"type": "response.created", "response_id": "r"}
    assert only(frames.ResponseDone(response=response))["response_id"] == "r"


def test_an_answer_that_was_cut_is_cancelled_audio() -> None:
    heard = only(samples.done("cancelled", "barge_in"))
    assert (heard["type"], heard["reason"], heard["status"]) == ("audio.cancelled", "barge_in", "cancelled")


def test_an_answer_that_failed_says_why() -> None:
    details = only(samples.done("failed", "response_error"))["status_details"]
    assert details == {"type": "failed", "reason": "response_error"}


def test_a_function_call_is_one_event() -> None:
    raw = {"type": "function_call.done", "call_id": "call_7d1f"}
    begun = ResponseObject(id="resp_02", metadata={"duplex_event": raw})
    ended = ResponseObject(id="resp_02", status="completed", metadata=dict(raw))
    assert project(frames.ResponseCreated(response=begun), NATIVE) == []
    assert project(frames.ResponseDone(response=ended), NATIVE) == []
    done = frames.ResponseFunctionCallArgumentsDone(**samples.CALL, name="get_weather", arguments="{}")
    assert only(done)["name"] == "get_weather"


def test_listening_is_told_with_its_reason() -> None:
    heard = only(samples.listened())
    assert (heard["reason"], heard["response_id"]) == ("model_listen", samples.RESPONSE_ID)
    bare = frames.ResponseListen(session_id="s", epoch=1, response=ResponseObject(status="listening"))
    assert only(bare) == {"type": "response.listen", "session_id": "s", "epoch": 1}


def test_an_error_is_flat() -> None:
    error = only(samples.error("bad_event", "No.", param="type", event_id="evt_1"))
    assert error == {
        "type": "error",
        "error": "No.",
        "code": "bad_event",
        "param": "type",
        "client_event_id": "evt_1",
    }


def test_a_session_names_itself() -> None:
    assert only(samples.EVERY[0])["session_id"] == "sess_demo_01"
