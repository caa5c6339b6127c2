"""The checker of the ordering table finds what is wrong: a check that cannot fail proves nothing."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import msgspec
import pytest

from duplex_es.model import ModelCalledFunction, ModelProducedText
from duplex_es.protocol import AcknowledgePlayback, CancelResponse, CommitTurn
from tests.session.cast import answer, append, finished, patient, said, spoke
from tests.support.ordering import ResponseOrderChecker, check_order

pytestmark = pytest.mark.unit


def stream() -> list[dict[str, Any]]:
    """One client's whole life, as JSON objects: spoken, written, called and cancelled answers."""
    scenario = patient()
    told: list[dict[str, Any]] = []
    for one in (
        append(transcript="hello"),
        CommitTurn(),
        *answer("It is ", "sunny."),
        AcknowledgePlayback(played_ms=500),
        spoke(1),
        said("See: ", turn=1),
        ModelProducedText(epoch=0, turn=1, text="x = 1"),
        ModelCalledFunction(epoch=0, turn=1, call_id="c", name="f", arguments="{}"),
        finished(1),
        *answer("One. ", "Two.", turn=2)[:-1],
        CancelResponse(),
        spoke(3, epoch=1),
        said("Three.", turn=3, epoch=1),
        finished(3, epoch=1),
    ):
        scenario = scenario.when(one)
        told += [msgspec.to_builtins(frame) for frame in scenario.frames]
    return [{**frame, "server_event_seq": seq} for seq, frame in enumerate(told, 1)]


STREAM = stream()
FREE = {
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.input_audio_transcription.completed",
    "playback.acknowledged",
    "response.speak",
}
"""Frames that may be missing or stand elsewhere without breaking the order of a response."""


PIECES = {
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "conversation.item.added",
}
"""Frames that may come again: their repetition is found by what follows, or is another item's."""


def response_of(frame: dict[str, Any]) -> str:
    """The response a frame belongs to, by its id or its item's."""
    return str(frame.get("response_id") or frame.get("item", {}).get("id", "")).removeprefix("item_")


BOUND = [
    at for at, frame in enumerate(STREAM) if frame["type"] not in FREE and frame.get("item", {}).get("role") != "user"
]
"""Where the frames stand that the order of a response binds."""


def unnumbered(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in frame.items() if key != "server_event_seq"} for frame in frames]


def test_a_good_stream_passes_as_json_and_as_frames() -> None:
    checker = check_order(STREAM)
    checker.ended()
    assert checker.statuses() == ["completed", "completed", "completed", "cancelled", "completed"]
    assert checker.count == len(STREAM)


@pytest.mark.parametrize("at", BOUND)
def test_a_missing_frame_is_found(at: int) -> None:
    with pytest.raises(AssertionError):
        check_order(unnumbered(STREAM[:at] + STREAM[at + 1 :])).ended()


@pytest.mark.parametrize("at", [at for at in BOUND if STREAM[at]["type"] not in PIECES])
def test_a_frame_that_comes_twice_is_found(at: int) -> None:
    with pytest.raises(AssertionError):
        check_order(unnumbered([*STREAM[: at + 1], STREAM[at], *STREAM[at + 1 :]])).ended()


@pytest.mark.parametrize(
    "at", [at for at in BOUND if at + 1 in BOUND and response_of(STREAM[at]) == response_of(STREAM[at + 1])]
)
def test_two_frames_in_the_wrong_order_are_found(at: int) -> None:
    with pytest.raises(AssertionError):
        check_order(unnumbered([*STREAM[:at], STREAM[at + 1], STREAM[at], *STREAM[at + 2 :]])).ended()


def mutated(kind: str, **fields: Any) -> list[dict[str, Any]]:
    """The stream with the last frame of a kind changed."""
    frames = copy.deepcopy(STREAM)
    at = max(index for index, frame in enumerate(frames) if frame["type"] == kind)
    frames[at] = {**frames[at], **fields}
    return frames


@pytest.mark.parametrize(
    "frames",
    [
        mutated("response.output_audio_transcript.done", transcript="It is"),
        mutated("response.output_text.done", text="x = 2"),
        mutated("response.function_call_arguments.done", arguments="[]"),
        mutated("response.output_audio.delta", content_index=1),
        mutated("response.done", server_event_seq=999),
        mutated("response.created", response_id="resp_other"),
        mutated("response.output_item.done", item={"id": "item_other"}),
    ],
    ids=lambda frames: "",
)
def test_a_frame_that_says_the_wrong_thing_is_found(frames: list[dict[str, Any]]) -> None:
    with pytest.raises(AssertionError):
        check_order(frames).ended()


def test_an_epoch_or_a_ledger_that_goes_back_is_found() -> None:
    checker = ResponseOrderChecker()
    checker.take({"type": "response.listen", "epoch": 2, "response": {}})
    with pytest.raises(AssertionError, match="epoch 1 after 2"):
        checker.take({"type": "response.listen", "epoch": 1, "response": {}})

    def acknowledged(committed_ms: int, truncate: bool = False) -> dict[str, Any]:
        ledger = {"generated_ms": 9, "sent_ms": 9, "played_ms": 9, "committed_ms": committed_ms}
        event = {"item_id": "i", "playback": ledger, "truncate": truncate, "epoch": 3}
        return {"type": "playback.acknowledged", "event": event}

    checker.take(acknowledged(5))
    checker.take(acknowledged(3, truncate=True))
    with pytest.raises(AssertionError, match="went back"):
        checker.take(acknowledged(2))


def test_a_response_that_never_ends_is_found() -> None:
    for size in itertools.islice(range(len(STREAM) - 2, 0, -1), 6):
        with pytest.raises(AssertionError):
            check_order(STREAM[:size]).ended()
