"""A new worker ends what went with the old one, so that no client waits for it."""

from __future__ import annotations

import pytest

from duplex_es.model import Generate, ModelHeardTurn
from duplex_es.protocol import CloseSession, CommitInput, CommitTurn, frames
from duplex_es.session.effects import AskModel
from duplex_es.session.events import (
    CommandRejected,
    InputTranscribed,
    ResponseFinished,
    ResponseStarted,
    WorkerChanged,
)
from duplex_es.session.inputs import WorkerTookOver
from duplex_es.testing.scenario import Scenario
from tests.session.cast import answer, append, eager, item_id, names, patient, plain, response_id, said, spoke, typed

pytestmark = pytest.mark.unit

TOOK = WorkerTookOver(2)


def test_an_idle_session_goes_on_as_if_nothing_had_happened() -> None:
    scenario = patient().given(typed("hi"), *answer("Hello.")).when(TOOK)
    scenario.then(WorkerChanged(fence=2)).shows().asks_for()
    scenario.given(spoke(1)).when(said("Yes.", turn=1)).then(ResponseStarted, object, object)


def test_an_answer_that_was_being_given_ends_as_failed() -> None:
    scenario = patient().given(spoke(), said("One. ")).when(TOOK).then(WorkerChanged(fence=2), ResponseFinished)
    scenario.asks_for()
    assert names(scenario)[-2:] == ["response.done", "rate_limits.updated"]
    done = scenario.frames[-2]
    assert isinstance(done, frames.ResponseDone)
    assert (done.response.status, done.response.status_details.reason) == ("failed", "worker_lost")  # type: ignore[union-attr]
    assert scenario.session.epoch == 0


def test_a_response_that_was_only_announced_ends_too() -> None:
    scenario = patient().given(append(), CommitTurn()).when(TOOK)
    assert names(scenario)[-2:] == ["response.done", "rate_limits.updated"]


def test_an_item_whose_transcript_went_with_the_old_model_is_finished_without_one() -> None:
    scenario = eager(extra_body={"auto_response": False}).given(append(), CommitInput()).when(TOOK)
    scenario.then(WorkerChanged(fence=2), InputTranscribed(item_id=item_id())).shows("conversation.item.done")


def test_an_answer_that_was_owed_is_asked_for_again_from_the_words() -> None:
    turn = eager().given(append(), ModelHeardTurn(epoch=0, transcript="what time is it"))
    scenario = turn.when(TOOK).then(WorkerChanged(fence=2), ResponseStarted)
    (ask,) = scenario.effects
    assert isinstance(ask, AskModel)
    assert isinstance(ask.request, Generate)
    assert [entry.text for entry in ask.request.history] == ["what time is it"]
    scenario = scenario.given(spoke(response_id=response_id())).when(said("Two."))
    assert names(scenario)[0] == "response.speak"


@pytest.mark.parametrize(
    "turn",
    [
        eager().given(append(), CommitInput()),
        plain(extra_body={"auto_response": True}).given(append(transcript="hello"), CommitInput()),
    ],
    ids=["the words are lost", "the model needs the sound"],
)
def test_where_it_cannot_be_asked_for_again_the_client_is_told(turn: Scenario) -> None:
    scenario = turn.when(TOOK)
    rejected = scenario.decision.facts[-1]
    assert isinstance(rejected, CommandRejected)
    assert rejected.code == "worker_lost"
    assert names(scenario)[-1] == "error"
    assert scenario.session.owed is None


def test_a_session_that_is_not_open_only_notes_its_new_owner() -> None:
    Scenario().when(TOOK).then(WorkerChanged(fence=2)).shows()
    patient().given(CloseSession()).when(TOOK).then()
