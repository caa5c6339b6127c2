"""The ga rows: every frame, and every shape that was ever refused by a client."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.protocol import EXTENSIONS, FRAMES, ContentPart, Frame, Item, ResponseObject, frames, wire_name
from duplex_es.protocol.dialects import GA, MAX_DELTA_BYTES, project
from duplex_es.protocol.dialects.ga import ROWS
from tests.protocol.dialects import samples

pytestmark = pytest.mark.unit

SILENT = {
    "session.heartbeat_ack",
    "session.resumed",
    "session.replaced",
    "session.resync_required",
    "conversation.item.created",
    "response.speak",
    "response.listen",
    "duplex.function_call.done",
    "playback.acknowledged",
    "overlap.decision",
    "runtime.control",
    "duplex.turn.event",
    "response.message",
    "session.going_away",
    "session.durable",
}
RENAMED = {"session.closed": "error", "session.expired": "error"}


def only(frame: Frame) -> dict[str, Any]:
    """The one event that is heard of ``frame``."""
    (event,) = project(frame, GA)
    return event


def test_every_frame_has_a_row() -> None:
    assert set(ROWS) == {*FRAMES.values(), *EXTENSIONS.values()}


@pytest.mark.parametrize("frame", samples.EVERY, ids=wire_name)
def test_a_frame_is_heard_under_its_name_or_not_at_all(frame: Frame) -> None:
    name = wire_name(frame)
    heard = [event["type"] for event in project(frame, GA)]
    assert heard == ([] if name in SILENT else [RENAMED.get(name, name)])


@pytest.mark.parametrize("frame", samples.EVERY, ids=wire_name)
def test_what_is_heard_depends_on_the_frame_alone(frame: Frame) -> None:
    assert project(frame, GA) == project(frame, GA)


def test_nothing_a_stock_client_has_no_name_for_is_heard() -> None:
    for frame in samples.EVERY:
        if frame.TIER == 3:
            assert [event["type"] for event in project(frame, GA)] in ([], ["error"]), wire_name(frame)


# -- shapes that clients refused -----------------------------------------------------------------------------------


def test_a_session_says_its_type_and_24_khz() -> None:
    session = only(samples.EVERY[0])["session"]
    assert session["type"] == "realtime"
    assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}


def test_the_way_back_is_under_one_key_beside_the_session() -> None:
    created = only(samples.EVERY[0])
    assert created["duplex"] == {"incarnation": 0, "attachment_generation": 1, "resume_token": "rt_1"}
    bare = only(frames.SessionCreated(session=samples.PUBLIC_SESSION))
    assert set(bare) == {"type", "session"}


def test_metadata_is_the_clients_strings() -> None:
    assert only(samples.created(client_event_id="evt_1"))["response"]["metadata"] == {"client_event_id": "evt_1"}
    assert "metadata" not in only(samples.created())["response"]
    assert only(samples.done(client_event_id="evt_1"))["response"]["metadata"] == {"client_event_id": "evt_1"}
    assert "metadata" not in only(samples.done())["response"]


def test_a_cancelled_item_is_incomplete_and_its_reason_one_that_clients_know() -> None:
    response = only(samples.done("cancelled", "barge_in"))["response"]
    assert response["status"] == "cancelled"
    assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert response["output"][0]["status"] == "incomplete"
    item = only(frames.ResponseOutputItemDone(response_id="r", item=samples.answer("cancelled")))["item"]
    assert item["status"] == "incomplete"


def test_usage_is_on_responses_and_transcriptions() -> None:
    assert only(samples.done())["response"]["usage"]["total_tokens"] == 0
    transcribed = frames.ConversationItemInputAudioTranscriptionCompleted(item_id="i", transcript="x")
    assert only(transcribed)["usage"] == {"type": "duration", "seconds": 0}


def test_finished_arguments_name_their_function() -> None:
    call = {**samples.CALL, "arguments": "{}"}
    assert only(frames.ResponseFunctionCallArgumentsDone(**call, name="f"))["name"] == "f"
    assert only(frames.ResponseFunctionCallArgumentsDone(**call))["name"] == ""


def test_a_function_call_begins_before_it_is_complete() -> None:
    call = samples.call()
    added = only(frames.ConversationItemAdded(previous_item_id="x", item=call))["item"]
    output = only(frames.ResponseOutputItemAdded(response_id="resp_02", item=call))["item"]
    assert added == output
    assert (added["status"], added["name"], added["call_id"]) == ("in_progress", "get_weather", "call_7d1f")
    finished = only(frames.ResponseOutputItemDone(response_id="resp_02", item=call))["item"]
    assert finished == only(frames.ConversationItemDone(previous_item_id="x", item=call))["item"]
    assert (finished["status"], finished["arguments"]) == ("completed", '{"city":"Hong Kong"}')


def test_an_item_always_says_what_it_is() -> None:
    assert only(frames.ConversationItemDone(previous_item_id=None, item=Item(id="x")))["item"]["type"] == "message"


def test_a_part_is_audio_or_text() -> None:
    place = {"response_id": "r", "item_id": "i"}
    part = ContentPart(type="output_audio", transcript=None)
    assert only(frames.ResponseContentPartDone(**place, part=part))["part"] == {"type": "audio", "transcript": ""}


def test_the_item_before_may_be_nobody() -> None:
    committed = only(frames.InputAudioBufferCommitted(previous_item_id=None, item_id="i"))
    assert committed == {"type": "input_audio_buffer.committed", "previous_item_id": None, "item_id": "i"}
    added = frames.ConversationItemAdded(previous_item_id="root", item=samples.question())
    assert only(added)["previous_item_id"] is None


def test_only_limits_that_clients_know_are_named() -> None:
    limits: list[dict[str, object]] = [{"name": "requests", "limit": 5}, {"name": "sessions", "limit": 4}]
    assert only(frames.RateLimitsUpdated(rate_limits=limits))["rate_limits"] == limits[:1]
    assert only(frames.RateLimitsUpdated())["rate_limits"] == []


def test_cleared_output_names_its_response_or_is_not_heard() -> None:
    assert only(frames.OutputAudioBufferCleared(response_id="r"))["response_id"] == "r"
    assert project(frames.OutputAudioBufferCleared(), GA) == []


# -- sound and text ------------------------------------------------------------------------------------------------


def test_a_delta_carries_sound_and_where_it_belongs() -> None:
    assert set(only(samples.delta())) == {
        "type",
        "response_id",
        "item_id",
        "output_index",
        "content_index",
        "delta",
    }


def test_a_delta_too_large_for_a_frame_is_several() -> None:
    import base64

    sound = bytes(range(256)) * 4000
    events = project(samples.delta(sound), GA)
    pieces = [base64.b64decode(str(event["delta"])) for event in events]
    assert b"".join(pieces) == sound
    assert [len(piece) for piece in pieces[:-1]] == [MAX_DELTA_BYTES] * (len(pieces) - 1)
    assert MAX_DELTA_BYTES % 4 == 0


def test_a_delta_without_anything_is_not_heard() -> None:
    assert project(samples.delta(b""), GA) == []
    assert project(frames.ResponseOutputAudioTranscriptDelta(**samples.PLACE, delta=""), GA) == []


# -- endings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["session_close", "disconnect", "runtime_append_task_failed"])
def test_a_session_that_ended_otherwise_than_by_time_says_nothing_more(reason: str) -> None:
    assert project(frames.SessionClosed(session_id="s", reason=reason), GA) == []


@pytest.mark.parametrize(
    "frame",
    [
        frames.SessionClosed(session_id="s", reason="timeout"),
        frames.SessionExpired(session_id="s", incarnation=0, reason="disconnect_grace_expired"),
    ],
)
def test_a_session_whose_time_is_up_is_an_error_that_clients_know(frame: Frame) -> None:
    error = only(frame)["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "session_expired")


def test_an_announced_response_that_was_not_taken_up_ends_with_its_done() -> None:
    assert project(samples.listened(), GA) == []
    ended = frames.ResponseDone(response=ResponseObject(id="r", status="completed", output=[]))
    assert only(ended)["response"]["status"] == "completed"
