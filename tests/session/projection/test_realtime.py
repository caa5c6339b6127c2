"""Every frame the session makes has at least the fields of the published example of its kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duplex_es.model import (
    ModelCalledFunction,
    ModelFailed,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelListened,
    ModelProducedText,
)
from duplex_es.protocol import (
    AcknowledgePlayback,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutput,
    CloseSession,
    CommitInput,
    CommitTurn,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Heartbeat,
    Item,
    RetrieveItem,
    SocketAttached,
    SocketDetached,
    TruncateItem,
    UpdateSession,
    frames,
)
from duplex_es.protocol.records import pack_output, unpack_output
from duplex_es.session.events import FACTS, CommandRejected
from duplex_es.session.inputs import TimerFired
from duplex_es.session.lifecycle import GRACE_TIMER
from duplex_es.session.projection.realtime import PROJECTORS, error_frame, project
from duplex_es.session.state import Session
from duplex_es.testing.scenario import Scenario
from tests.session.cast import answer, answer_id, append, eager, item_id, patient, response_id, said, spoke, typed
from tests.support.ordering import check_order

pytestmark = pytest.mark.unit

SEED = Path(__file__).parents[2] / "protocol" / "fixtures" / "seed_examples.json"

NOT_OF_THE_SESSION = {
    "session.created": "the gateway tells it with this socket's token",
    "session.resumed": "the gateway",
    "session.replaced": "the gateway",
    "session.resync_required": "the gateway",
    "overlap.decision": "no overlap family yet",
    "runtime.control": "no control signal is only partly carried out",
}

HEARING = (ModelHeardSpeech(epoch=0, start_ms=40), ModelHeardSpeechEnd(epoch=0, end_ms=180))

STORIES: tuple[tuple[Scenario, tuple[Any, ...]], ...] = (
    (
        patient(),
        (
            UpdateSession(session={"instructions": "be brief"}),
            Heartbeat(),
            append(transcript="what is the weather today"),
            CommitInput(),
            CreateResponse(response={"metadata": {"trace": "turn-3"}}),
            *answer("It is sunny, ", "24 degrees."),
            AcknowledgePlayback(played_ms=1_000),
            RetrieveItem(item_id=answer_id()),
            TruncateItem(item_id=answer_id(), content_index=0, audio_end_ms=1_850),
            DeleteItem(item_id=item_id()),
            CommitInput(event_id="evt_60"),
            CloseSession(),
        ),
    ),
    (
        eager(),
        (
            append(),
            *HEARING,
            ModelHeardTurn(epoch=0, transcript="good morning"),
            CommitInput(),
            ModelListened(epoch=0),
            spoke(),
            said("Good morning."),
            append(),
            CommitTurn(),
            CancelInput(),
            ClearInput(),
            ModelCalledFunction(epoch=1, turn=1, call_id="call_7d1f", name="get_weather", arguments="{}"),
            CreateItem(item=Item(type="function_call_output", call_id="call_7d1f", output="24")),
            ModelCalledFunction(epoch=1, turn=1, call_id=None, name=None, arguments="{"),
            ModelFailed(epoch=1, code="runtime_append_failed", message="stale"),
            UpdateSession(session={"turn_detection": {"type": "model_native"}}, event_id="evt_1"),
            CloseSession(),
        ),
    ),
    (
        patient(modalities=["text"]),
        (
            typed("and tomorrow?"),
            CreateResponse(),
            spoke(response_id=response_id()),
            ModelProducedText(epoch=0, turn=0, text="Tomorrow looks "),
            ModelProducedText(epoch=0, turn=0, text="cloudy."),
            CancelResponse(),
            ClearOutput(),
            SocketAttached(generation=1, gateway="g"),
            SocketDetached(generation=1, reason="lost"),
            TimerFired(GRACE_TIMER),
        ),
    ),
)


def told(scenario: Scenario, inputs: tuple[Any, ...]) -> Iterator[frames.Frame]:
    for one in inputs:
        scenario = scenario.when(one)
        yield from scenario.frames


HEARD = [list(told(scenario, inputs)) for scenario, inputs in STORIES]
WIRE = [msgspec.to_builtins(frame) for story in HEARD for frame in story]


def lacking(example: Any, made: Any, path: str = "") -> list[str]:
    """The fields of ``example``, however deep, that ``made`` does not have."""
    if isinstance(example, dict):
        if not isinstance(made, dict):
            return [path]
        missing = [f"{path}.{key}" for key in example if key not in made]
        return missing + [
            lack for key in example if key in made for lack in lacking(example[key], made[key], f"{path}.{key}")
        ]
    if isinstance(example, list) and example and isinstance(example[0], dict):
        return lacking(example[0], made[0], f"{path}[0]") if made else [f"{path}[0]"]
    return []


def examples() -> list[Any]:
    events = [one["event"] for one in json.loads(SEED.read_text()) if one["direction"] == "server"]
    ours = [event for event in events if event["type"] not in NOT_OF_THE_SESSION]
    return [event for event in ours if not isinstance(event.get("error"), str)]


@pytest.mark.parametrize("example", examples(), ids=lambda event: event["type"])
def test_some_frame_has_every_field_of_the_published_example(example: Any) -> None:
    made = [frame for frame in WIRE if frame["type"] == example["type"]]
    assert made, "no story makes this frame"
    lacks = [lacking(example, frame) for frame in made]
    assert [] in lacks, min(lacks, key=len)


def test_every_published_frame_is_the_sessions_or_excused() -> None:
    kinds = {frame["type"] for frame in WIRE}
    assert set(frames.FRAMES) - kinds == set(NOT_OF_THE_SESSION)


def test_every_story_keeps_the_order() -> None:
    for story in HEARD:
        check_order(story).ended()


def test_every_frame_can_be_stored_and_read_again() -> None:
    for story in HEARD:
        for frame in story:
            packed = pack_output(0, frame=frame)
            assert unpack_output(packed.body, packed.audio).frame == frame


def test_a_fact_of_something_that_is_gone_shows_nothing_and_breaks_nothing() -> None:
    """Frames of facts that no longer fit the state: a delta of a response that ended, an item that was deleted."""
    scenario = eager()
    for one in (append(), CommitInput(), *answer("One."), typed("hi"), DeleteItem(item_id=answer_id()), CloseSession()):
        scenario = scenario.when(one)
        for fact in scenario.decision.facts:
            made = project(Session(), fact, Session(), b"")
            assert not any(getattr(frame, "response_id", "") == response_id() for frame in made)


def test_a_projector_is_there_for_facts_only() -> None:
    assert set(PROJECTORS) <= set(FACTS.values())


def test_an_error_leaves_out_what_it_does_not_know() -> None:
    frame = error_frame("bad_event", "no", None, None)
    assert msgspec.to_builtins(frame) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "code": "bad_event", "message": "no"},
    }
    assert error_frame("resource_exhausted", "no", None, None).error.type == "rate_limit_error"


def test_a_code_of_another_build_is_said_as_the_general_one() -> None:
    frame = error_frame("from_the_future", "no", "a.b", "evt")
    assert (frame.error.code, frame.error.param, frame.error.event_id) == ("duplex_error", "a.b", "evt")
    made = project(Session(), CommandRejected(code="from_the_future", message="x"), Session())
    assert made == [error_frame("duplex_error", "x", None, None)]
