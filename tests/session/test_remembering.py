"""What a model that steps leaves behind, and how its successor goes on from it."""

from __future__ import annotations

import msgspec
import pytest

from duplex_es.model import ModelDroppedInput, ModelProducedAudio, ModelRemembered, OpenModel
from duplex_es.protocol import CancelResponse, CommitTurn, CreateResponse, frames
from duplex_es.session.events import (
    AnswerAskedAgain,
    AnswerContinued,
    InputSkipped,
    MemoryGrown,
    TurnHeardAgain,
    WorkerChanged,
)
from duplex_es.session.inputs import WorkerTookOver
from duplex_es.session.lifecycle import open_model
from duplex_es.session.step import fold, merged
from duplex_es.testing.scenario import Scenario, opened
from tests.session.cast import NATIVE, append, item_id, names, said, spoke, typed

pytestmark = pytest.mark.unit

STEPS = msgspec.structs.replace(NATIVE, memory_bytes=6)
TOOK = WorkerTookOver(2)


def stepping() -> Scenario:
    """A fresh session of a model that steps and remembers six bytes."""
    return opened(STEPS)


def test_what_it_reports_is_kept_in_order_and_only_the_newest_of_it() -> None:
    scenario = stepping().when(ModelRemembered(epoch=0, data=b"abcd")).then(MemoryGrown(data=b"abcd")).shows()
    assert scenario.session.memory == b"abcd"
    assert scenario.when(ModelRemembered(epoch=0, data=b"efgh")).session.memory == b"cdefgh"


def test_a_model_that_begins_anew_replaces_what_it_had_left() -> None:
    scenario = stepping().given(ModelRemembered(epoch=0, data=b"abcd"))
    assert scenario.when(ModelRemembered(epoch=0, data=b"x", anew=True)).session.memory == b"x"
    assert scenario.when(ModelRemembered(epoch=0, data=b"", anew=True)).session.memory == b""


def test_it_is_kept_whatever_the_epoch() -> None:
    scenario = stepping().given(spoke(), said("One."), CancelResponse())
    assert scenario.when(ModelRemembered(epoch=0, data=b"ab")).session.memory == b"ab"


def test_a_model_that_promises_no_memory_leaves_none() -> None:
    opened(NATIVE).when(ModelRemembered(epoch=0, data=b"abcd")).then()


def test_a_minute_of_steps_is_one_fact() -> None:
    facts = [MemoryGrown(data=bytes([n])) for n in range(8)]
    facts.insert(5, MemoryGrown(data=b"!", anew=True))
    one = facts[0]
    for fact in facts[1:]:
        joined = merged(one, fact)
        assert isinstance(joined, MemoryGrown)
        one = joined
    start = stepping().session
    assert fold([one], start).memory == fold(facts, start).memory == b"!\x05\x06\x07"


def test_the_next_owners_model_is_opened_with_it_and_the_answer_goes_on_unasked() -> None:
    scenario = stepping().given(ModelRemembered(epoch=0, data=b"abcd"), spoke(3), said("One.", turn=3))
    request = open_model(scenario.session)
    assert isinstance(request, OpenModel)
    assert (request.memory, request.open_turn) == (b"abcd", 3)
    scenario = scenario.when(TOOK).then(WorkerChanged(fence=2), AnswerContinued).shows().asks_for()
    scenario = scenario.when(ModelProducedAudio(epoch=0, turn=3, pcm=bytes(320), text=" Two."))
    assert "response.output_audio.delta" in names(scenario)


def test_without_an_open_answer_there_is_no_turn_to_go_on_with() -> None:
    scenario = stepping().given(ModelRemembered(epoch=0, data=b"abcd"))
    assert open_model(scenario.session).open_turn is None
    scenario.when(TOOK).then(WorkerChanged(fence=2)).shows().asks_for()


def test_sound_that_the_model_never_heard_is_told() -> None:
    scenario = stepping().when(ModelDroppedInput(epoch=0, duration_ms=160)).then(InputSkipped(duration_ms=160))
    (told,) = scenario.decision.frames
    assert isinstance(told, frames.RuntimeControl)
    assert told.result == {"input_dropped_ms": 160, "reason": "model_behind"}
    stepping().when(ModelDroppedInput(epoch=0, duration_ms=0)).then()


def asked() -> Scenario:
    """A session of a model that is asked, and knows where it was."""
    info = msgspec.structs.replace(NATIVE, memory_bytes=64, transcribes=True, takes_text_turns=True)
    return opened(info).given(ModelRemembered(epoch=0, data=b"here"))


def test_a_model_that_is_asked_hears_again_what_nobody_has_understood_yet() -> None:
    scenario = asked().given(append(320), CommitTurn())
    took = WorkerTookOver(2, sounding=(item_id(1),))
    scenario.when(took).then(WorkerChanged(fence=2), TurnHeardAgain(item_id=item_id(1), respond=True))


def test_a_model_that_is_asked_is_asked_again_for_an_answer_of_which_nothing_was_said() -> None:
    scenario = asked().given(typed("hi"), CreateResponse())
    scenario.when(TOOK).then(WorkerChanged(fence=2), AnswerAskedAgain)


def test_nothing_that_a_model_with_memory_may_still_say_is_given_up() -> None:
    asked().given(append(320), CommitTurn()).when(TOOK).then(WorkerChanged(fence=2))
