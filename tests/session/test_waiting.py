"""Turns that wait behind an answer: promoted when it is over, given up when it is cancelled, kept when it failed."""

from __future__ import annotations

import pytest

from duplex_es.model import EndTurn, ModelFailed, ModelListened, ResetInput
from duplex_es.protocol import (
    CancelResponse,
    CommitInput,
    CommitTurn,
    CreateResponse,
    DeleteItem,
    frames,
)
from duplex_es.session.effects import AskModel
from duplex_es.session.events import (
    InputCommitted,
    InputTranscribed,
    ResponseFinished,
    ResponseStarted,
    TurnPromoted,
    WorkerChanged,
)
from duplex_es.session.inputs import WorkerTookOver
from duplex_es.testing.scenario import Scenario
from tests.session.cast import (
    answer,
    append,
    finished,
    heard,
    item_id,
    names,
    native,
    patient,
    response_id,
    said,
    spoke,
)

pytestmark = pytest.mark.unit


def put_off(scenario: Scenario, commit: CommitInput | CommitTurn) -> Scenario:
    """The caller says a whole second over an answer, and commits it."""
    return scenario.given(spoke(), said("It is ")).given(append(1_000)).when(commit)


def event(scenario: Scenario) -> frames.InputCommitted:
    """What the last commit came to."""
    committed = next(frame for frame in scenario.frames if isinstance(frame, frames.InputAudioBufferCommitted))
    assert isinstance(committed.event, frames.InputCommitted)
    return committed.event


def test_what_is_said_over_an_answer_waits_for_its_end() -> None:
    scenario = put_off(patient(), CommitInput())
    assert (event(scenario).overlap_deferred, scenario.session.waiting is not None) == (True, True)
    scenario.asks_for()
    scenario = scenario.when(finished()).then(ResponseFinished, TurnPromoted(item_id=item_id(), respond=False))
    scenario.asks_for(AskModel(EndTurn(epoch=0, item_id=item_id(), respond=False)))
    assert scenario.session.waiting is None


def test_an_answer_the_client_asked_for_is_announced_when_its_turn_comes() -> None:
    scenario = put_off(patient(), CommitTurn())
    assert event(scenario).response_create_deferred is True
    scenario = scenario.when(finished()).then(ResponseFinished, TurnPromoted, ResponseStarted)
    scenario.asks_for(AskModel(EndTurn(epoch=0, item_id=item_id(), respond=True)))
    assert names(scenario)[-5] == "response.created"
    scenario.given(spoke(1)).when(said("Yes.", turn=1)).shows(
        "response.speak", "response.output_audio.delta", "response.output_audio_transcript.delta"
    )


def test_a_model_that_speaks_when_it_likes_is_told_and_nothing_is_announced() -> None:
    scenario = (
        put_off(native(), CommitTurn())
        .when(finished())
        .then(ResponseFinished, TurnPromoted(item_id=item_id(), respond=True))
    )
    assert scenario.session.owed == item_id()
    scenario.when(heard("what", item=item_id())).then(InputTranscribed)


def test_several_turns_wait_as_one() -> None:
    scenario = (
        put_off(patient(), CommitInput()).given(append(1_000)).when(CommitTurn()).given(append(1_000), CommitInput())
    )
    assert scenario.session.waiting is not None
    assert (scenario.session.waiting.count, scenario.session.waiting.item_id) == (3, item_id(3))
    scenario.when(finished()).then(ResponseFinished, TurnPromoted(item_id=item_id(3), respond=True), ResponseStarted)


def test_only_so_many_may_wait() -> None:
    scenario = put_off(patient(), CommitInput())
    for _ in range(3):
        scenario = scenario.given(append(1_000), CommitInput())
    scenario = scenario.given(append(1_000))
    scenario.when(CommitInput(event_id="evt_9")).refuses("input_backpressure")


def test_a_model_that_transcribes_completes_only_the_turn_it_is_told_of() -> None:
    scenario = put_off(native(), CommitInput()).given(append(1_000)).when(CommitInput())
    assert scenario.decision.facts[-1] == InputTranscribed(item_id=item_id(1))
    assert names(scenario)[-1] == "conversation.item.done"


def test_nobody_is_cut_off_in_the_middle_of_a_sentence() -> None:
    scenario = put_off(patient(), CommitTurn()).given(append(300)).when(finished()).then(ResponseFinished)
    scenario.when(CommitTurn()).then(object, InputCommitted, ResponseStarted)


@pytest.mark.parametrize("commit", [CommitInput(), CommitTurn()])
def test_a_cancel_gives_up_what_waits(commit: CommitInput | CommitTurn) -> None:
    scenario = put_off(patient(), commit).when(CancelResponse()).then(ResponseFinished)
    assert AskModel(ResetInput(epoch=1)) in scenario.effects
    assert scenario.session.waiting is None
    settled = put_off(native(), commit).when(CancelResponse())
    settled.then(ResponseFinished, InputTranscribed(item_id=item_id()))


def test_after_a_failure_only_the_client_can_ask() -> None:
    scenario = put_off(patient(), CommitTurn()).given(ModelFailed(epoch=0, code="response_error", message="x"))
    assert scenario.session.response is None
    assert scenario.session.waiting is not None
    scenario = scenario.when(CreateResponse()).then(TurnPromoted(item_id=item_id(), respond=True), ResponseStarted)
    scenario.asks_for(AskModel(EndTurn(epoch=0, item_id=item_id(), respond=True)))


def test_after_a_failure_the_next_turn_takes_it_along() -> None:
    scenario = put_off(native(), CommitInput()).given(ModelFailed(epoch=0, code="response_error", message="x"))
    scenario = scenario.given(append(1_000)).when(CommitInput())
    scenario.asks_for(AskModel(EndTurn(epoch=0, item_id=item_id(2), respond=True)))
    assert InputTranscribed(item_id=item_id(1)) in scenario.decision.facts


def test_nobody_waits_for_playback_that_a_client_may_report_much_later() -> None:
    scenario = put_off(patient(playback_commit_policy="ack_only"), CommitTurn())
    scenario.when(finished()).then(ResponseFinished, TurnPromoted, ResponseStarted)
    unheard = patient(playback_commit_policy="ack_only").given(*answer("It is sunny."), append(1_000))
    unheard.when(CommitTurn()).then(object, InputCommitted).asks_for(
        AskModel(EndTurn(epoch=0, item_id=item_id(), respond=True))
    )


def test_a_response_that_ends_by_listening_makes_way_too() -> None:
    scenario = patient().given(append(800), CommitTurn()).given(append(1_000)).when(CommitTurn())
    assert event(scenario).overlap_deferred is True
    scenario.when(ModelListened(epoch=0)).then(object, ResponseFinished, TurnPromoted, ResponseStarted)


def test_a_deleted_turn_waits_no_more() -> None:
    scenario = put_off(patient(), CommitTurn()).given(DeleteItem(item_id=item_id()))
    assert scenario.session.waiting is None
    scenario.when(finished()).then(ResponseFinished)


def test_what_waited_goes_with_the_old_worker_and_its_client_is_told() -> None:
    scenario = put_off(native(), CommitTurn()).when(WorkerTookOver(fence=2))
    scenario.then(WorkerChanged, InputTranscribed, ResponseFinished)
    assert scenario.session.waiting is None


def test_short_words_over_an_answer_are_dropped_with_an_answer_to_the_commit() -> None:
    scenario = patient().given(spoke(), said("It is "), append(300)).when(CommitTurn())
    assert names(scenario) == ["input_audio_buffer.speech_stopped", "input_audio_buffer.committed"]
    told = event(scenario)
    assert (told.overlap_ack, told.empty, told.is_speech, told.no_response) == (True, True, False, True)
    scenario.asks_for(AskModel(ResetInput(epoch=0)))
    assert [item.role for item in scenario.session.items] == ["assistant"]
    scenario.when(finished()).then(ResponseFinished)


def test_a_client_that_says_it_is_speech_is_believed() -> None:
    scenario = patient().given(spoke(), said("It is "), append(300)).when(CommitTurn(is_speech=True))
    scenario.then(object, InputCommitted)


def test_a_turn_in_time_waits_for_nothing() -> None:
    scenario = patient().given(*answer("One.")).given(append(300)).when(CommitTurn())
    scenario.then(object, InputCommitted, ResponseStarted)
    assert scenario.session.response is not None
    assert scenario.session.response.id == response_id(2)
