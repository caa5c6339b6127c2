"""The catalogue of what a client can hear: exactly the published names, spelled as their classes are."""

from __future__ import annotations

import re

import msgspec
import pytest

from duplex_es.protocol import EXTENSIONS, FRAMES, ResponseSpeak, ServerEvent, wire_name

pytestmark = pytest.mark.unit

TIERS = {
    "session.created": 2,
    "session.updated": 2,
    "session.heartbeat_ack": 3,
    "session.closed": 3,
    "session.resumed": 3,
    "session.replaced": 3,
    "session.expired": 3,
    "session.resync_required": 3,
    "input_audio_buffer.speech_started": 1,
    "input_audio_buffer.speech_stopped": 1,
    "input_audio_buffer.committed": 2,
    "input_audio_buffer.cleared": 1,
    "conversation.item.added": 2,
    "conversation.item.created": 2,
    "conversation.item.done": 2,
    "conversation.item.input_audio_transcription.completed": 1,
    "conversation.item.deleted": 2,
    "conversation.item.retrieved": 1,
    "conversation.item.truncated": 2,
    "response.created": 2,
    "response.output_item.added": 1,
    "response.content_part.added": 1,
    "response.speak": 3,
    "response.output_audio.delta": 2,
    "response.output_audio_transcript.delta": 1,
    "response.output_text.delta": 1,
    "response.output_text.done": 1,
    "response.output_audio.done": 1,
    "response.output_audio_transcript.done": 1,
    "response.content_part.done": 1,
    "response.output_item.done": 1,
    "response.done": 2,
    "rate_limits.updated": 1,
    "response.listen": 3,
    "response.function_call_arguments.delta": 1,
    "response.function_call_arguments.done": 1,
    "duplex.function_call.done": 3,
    "output_audio_buffer.cleared": 1,
    "playback.acknowledged": 3,
    "overlap.decision": 3,
    "runtime.control": 3,
    "error": 2,
}


def test_the_frames_are_the_42_of_the_catalogue_in_its_order_and_tiers() -> None:
    assert len(TIERS) == 42
    assert [(name, frame.TIER) for name, frame in FRAMES.items()] == list(TIERS.items())


def test_extensions_are_kept_apart_from_the_catalogue() -> None:
    transcription = "conversation.item.input_audio_transcription"
    ours = {"duplex.turn.event", "response.message", "session.going_away", "session.durable"}
    assert set(EXTENSIONS) == ours | {f"{transcription}.delta", f"{transcription}.failed"}
    assert not set(EXTENSIONS) & set(FRAMES)


@pytest.mark.parametrize("name", [*FRAMES, *EXTENSIONS])
def test_a_class_is_named_after_its_wire_name(name: str) -> None:
    frame = {**FRAMES, **EXTENSIONS}[name]
    assert frame.__name__ == "".join(word.capitalize() for word in re.split(r"[._]", name))
    assert wire_name(frame) == name


@pytest.mark.parametrize("name", [*FRAMES, *EXTENSIONS])
def test_a_frame_is_frozen_and_can_be_stamped(name: str) -> None:
    frame = {**FRAMES, **EXTENSIONS}[name]
    assert issubclass(frame, ServerEvent)
    assert frame.__struct_config__.frozen
    assert {"event_id", "server_event_seq"} <= set(frame.__struct_fields__)


def test_the_wire_name_of_a_frame_is_that_of_its_class() -> None:
    assert wire_name(ResponseSpeak(response_id="resp_1", item_id="item_resp_1")) == "response.speak"


def test_a_frame_addresses_the_first_item_and_part_unless_told_otherwise() -> None:
    plain = msgspec.to_builtins(ResponseSpeak(response_id="resp_1", item_id="item_resp_1"))
    assert (plain["output_index"], plain["content_index"]) == (0, 0)
