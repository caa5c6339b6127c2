"""A new worker ends what went with the old one, so that no client waits for it."""

from __future__ import annotations

import pytest

from duplex_es.model import ContinueAnswer, EndTurn, Generate, ModelCalledFunction, ModelHeardTurn, OpenModel, Recipe
from duplex_es.protocol import CloseSession, CommitInput, CommitTurn, CreateResponse, frames
from duplex_es.session.effects import AskModel, HearAgain, RestartModel
from duplex_es.session.events import (
    AnswerAskedAgain,
    AnswerContinued,
    AnswerPutOff,
    AudioProduced,
    CommandRejected,
    InputTranscribed,
    ResponseFinished,
    ResponseSpoken,
    ResponseStarted,
    TurnBegun,
    TurnHeardAgain,
    TurnPromoted,
    WorkerChanged,
)
from duplex_es.session.inputs import AnswerDiverged, WorkerTookOver
from duplex_es.testing.scenario import Scenario
from tests.session.cast import (
    TURN_BASED,
    answer,
    append,
    chat,
    eager,
    finished,
    heard,
    item_id,
    names,
    patient,
    plain,
    response_id,
    said,
    spoke,
    typed,
)

pytestmark = pytest.mark.unit

TOOK = WorkerTookOver(2)
ABLE = WorkerTookOver(2, can_rebuild=True)
RECIPE = Recipe(notes={"said": "One. Two."})


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


# -- answers that go on --------------------------------------------------------------------------------------------


def asked_of(scenario: Scenario) -> ContinueAnswer | Generate:
    (effect,) = scenario.effects
    assert isinstance(effect, AskModel)
    assert isinstance(effect.request, ContinueAnswer | Generate)
    return effect.request


def test_an_answer_with_a_recipe_goes_on_and_the_client_hears_nothing_of_it() -> None:
    begun = patient().given(spoke(4, recipe=RECIPE), said("One. ", turn=4))
    scenario = begun.when(ABLE).then(WorkerChanged, AnswerContinued(turn=4, response_id=response_id())).shows()
    request = ContinueAnswer(
        epoch=0, turn=4, recipe=RECIPE, response_id=response_id(), said_samples=24_000, said_chars=5
    )
    assert asked_of(scenario) == request
    scenario = scenario.when(spoke(4, recipe=RECIPE)).then()
    scenario = scenario.when(said("Two.", turn=4)).then(AudioProduced)
    scenario = scenario.when(finished(4)).then(ResponseFinished)
    assert scenario.session.items[-1].transcript == "One. Two."
    assert scenario.decision.facts[0].status == "completed"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("took", "recipe"), [(TOOK, RECIPE), (ABLE, None)], ids=["this worker cannot", "this answer cannot"]
)
def test_an_answer_that_nobody_can_give_again_ends_as_failed(took: WorkerTookOver, recipe: Recipe | None) -> None:
    scenario = patient().given(spoke(recipe=recipe), said("One. ")).when(took)
    scenario.then(WorkerChanged, ResponseFinished).asks_for()


def test_the_size_and_checksum_of_what_was_shown_are_kept_for_answers_with_a_recipe_only() -> None:
    kept = patient().given(spoke(recipe=RECIPE), said("One. "), said("Two. ")).session.response
    other = patient().given(spoke(), said("One. "), said("Two. ")).session.response
    assert kept is not None
    assert other is not None
    assert (kept.size, kept.crc != 0, kept.recipe) == (96_000, True, RECIPE)
    assert (other.size, other.crc, other.recipe) == (0, 0, None)


def test_a_turn_of_which_nothing_was_to_be_heard_yet_goes_on_too() -> None:
    call = ModelCalledFunction(epoch=0, turn=2, call_id="c", name="f", arguments="{}")
    scenario = eager().given(append(), heard("and?"), spoke(2, recipe=RECIPE), call).when(ABLE)
    kept = TurnBegun(turn=2, recipe=RECIPE, called=True)
    scenario.then(WorkerChanged, kept, AnswerContinued(turn=2)).shows()
    assert asked_of(scenario) == ContinueAnswer(epoch=0, turn=2, recipe=RECIPE)
    scenario.when(said("One.", turn=2)).then(ResponseStarted, ResponseSpoken, AudioProduced)


def test_the_next_answer_is_asked_for_when_the_one_that_goes_on_is_over() -> None:
    busy = eager().given(spoke(recipe=RECIPE), said("One. "), append(), heard("and then?"))
    scenario = busy.when(ABLE).then(WorkerChanged, AnswerContinued, AnswerPutOff(item_id=item_id()))
    assert isinstance(asked_of(scenario), ContinueAnswer)
    scenario = scenario.when(finished()).then(ResponseFinished, TurnPromoted, ResponseStarted)
    request = asked_of(scenario)
    assert isinstance(request, Generate)
    assert [entry.text for entry in request.history] == ["One.", "and then?"]


def test_a_next_answer_that_needs_sound_has_to_be_asked_for() -> None:
    busy = eager().given(spoke(recipe=RECIPE), said("One. "), append(), CommitTurn())
    scenario = busy.when(ABLE)
    assert [type(fact) for fact in scenario.decision.facts][-2:] == [AnswerContinued, CommandRejected]
    assert names(scenario)[-1] == "error"


def test_an_answer_that_was_asked_for_and_not_begun_is_asked_for_as_it_was() -> None:
    options = {"instructions": "Sing.", "temperature": 0.5, "modalities": ["text"]}
    announced = eager().given(typed("hi"), CreateResponse(response=options))
    for begun in (announced, announced.given(spoke(response_id=response_id()))):
        scenario = begun.when(TOOK).then(WorkerChanged, AnswerAskedAgain(response_id=response_id())).shows()
        request = asked_of(scenario)
        assert isinstance(request, Generate)
        assert (request.instructions, request.temperature, request.modalities) == ("Sing.", 0.5, ("text",))
        assert [entry.text for entry in request.history] == ["hi"]


def test_an_answer_announced_for_a_turn_whose_words_are_known_is_asked_for_from_them() -> None:
    turn = eager(extra_body={"auto_response": False}).given(append(), CommitTurn(), heard("two?", item=item_id()))
    assert turn.session.response is not None
    request = asked_of(turn.when(TOOK).then(WorkerChanged, AnswerAskedAgain(response_id=response_id())))
    assert isinstance(request, Generate)
    assert (request.response_id, [entry.text for entry in request.history]) == (response_id(), ["two?"])


@pytest.mark.parametrize(
    "turn",
    [
        chat().given(append(), CommitTurn()),
        eager().given(
            typed("hi"),
            CreateResponse(),
            spoke(response_id=response_id()),
            ModelCalledFunction(epoch=0, turn=0, call_id="c", name="f", arguments="{}"),
        ),
    ],
    ids=["the model heard it itself", "it has called already"],
)
def test_what_cannot_be_asked_for_twice_ends_as_failed(turn: Scenario) -> None:
    assert turn.session.response is not None
    turn.when(TOOK).then(WorkerChanged, ResponseFinished).asks_for()
    assert TURN_BASED.keeps_audio


def test_what_is_given_again_and_is_another_answer_ends_as_failed_and_the_model_is_opened_anew() -> None:
    going = patient().given(typed("hi"), spoke(recipe=RECIPE), said("One. "), ABLE)
    scenario = going.when(AnswerDiverged(response_id()))
    assert names(scenario)[-2:] == ["response.done", "rate_limits.updated"]
    (restart,) = scenario.effects
    assert isinstance(restart, RestartModel)
    assert isinstance(restart.request, OpenModel)
    assert [entry.text for entry in restart.request.history] == ["hi"]
    assert restart.request.resumed
    scenario.when(said("Other.")).then()
    scenario.given(spoke(1)).when(said("Next.", turn=1)).then(ResponseStarted, ResponseSpoken, AudioProduced)


def test_a_divergence_that_comes_after_the_end_changes_nothing() -> None:
    patient().given(*answer("One.")).when(AnswerDiverged(response_id())).then().asks_for()


# -- turns that are heard again --------------------------------------------------------------------------------------


def sounding(*items: int) -> WorkerTookOver:
    return WorkerTookOver(2, can_rebuild=True, sounding=tuple(item_id(number) for number in items))


def end_of(number: int, *, respond: bool) -> HearAgain:
    return HearAgain(EndTurn(epoch=0, item_id=item_id(number), respond=respond))


def test_a_turn_whose_words_went_with_the_old_model_is_heard_again_and_answered() -> None:
    scenario = eager().given(append(), CommitInput()).when(sounding(1))
    scenario.then(WorkerChanged, TurnHeardAgain(item_id=item_id(), respond=True)).shows()
    scenario.asks_for(end_of(1, respond=True))
    assert scenario.session.owed == item_id()
    scenario = scenario.given(heard("two?", item=item_id()), spoke()).when(said("Two."))
    scenario.then(ResponseStarted, ResponseSpoken, AudioProduced)
    assert scenario.session.item(item_id()).transcript == "two?"  # type: ignore[union-attr]


def test_a_turn_that_wants_no_answer_is_heard_for_its_words() -> None:
    scenario = eager(extra_body={"auto_response": False}).given(append(), CommitInput()).when(sounding(1))
    scenario.then(WorkerChanged, TurnHeardAgain(item_id=item_id())).asks_for(end_of(1, respond=False))


def test_a_model_that_needs_the_sound_answers_it_again() -> None:
    turn = plain(extra_body={"auto_response": True}).given(append(transcript=""), CommitInput())
    turn.when(sounding(1)).then(WorkerChanged, TurnHeardAgain(item_id=item_id(), respond=True)).shows()


def test_an_answer_that_was_announced_for_such_a_turn_waits_for_it() -> None:
    announced = eager(extra_body={"auto_response": False}).given(append(), CommitTurn())
    assert announced.session.response is not None
    scenario = announced.when(sounding(1)).then(WorkerChanged, TurnHeardAgain(item_id=item_id(), respond=True))
    scenario.shows().asks_for(end_of(1, respond=True))
    scenario = scenario.given(heard("two?", item=item_id()), spoke()).when(said("Two."))
    scenario.then(ResponseSpoken, AudioProduced)


def test_a_turn_behind_an_answer_is_heard_again_after_it_goes_on() -> None:
    busy = eager().given(spoke(recipe=RECIPE), said("One. "), append(), CommitInput())
    scenario = busy.when(sounding(1))
    scenario.then(WorkerChanged, AnswerContinued, TurnHeardAgain(item_id=item_id(), respond=True)).shows()
    first, second = scenario.effects
    assert isinstance(first, AskModel)
    assert isinstance(first.request, ContinueAnswer)
    assert second == end_of(1, respond=True)


def test_a_turn_whose_answer_has_begun_is_not_answered_again() -> None:
    begun = eager().given(append(), CommitInput(), heard("", item=item_id()), spoke(recipe=RECIPE))
    begun.when(sounding(1)).then(WorkerChanged, TurnBegun, AnswerContinued)


def test_words_that_are_known_are_asked_from_without_hearing_them_again() -> None:
    known = eager().given(append(), CommitInput(), heard("two?", item=item_id()))
    known.when(sounding(1)).then(WorkerChanged, ResponseStarted)


def test_a_request_that_waits_for_such_words_is_asked_when_they_are_known() -> None:
    held = eager(extra_body={"auto_response": False}).given(
        append(), CommitInput(), typed("and this"), CreateResponse()
    )
    assert held.session.response is not None
    scenario = held.when(sounding(1)).then(WorkerChanged, AnswerAskedAgain, TurnHeardAgain(item_id=item_id()))
    scenario.asks_for(end_of(1, respond=False))
    scenario = scenario.when(heard("two?", item=item_id()))
    request = asked_of(scenario)
    assert isinstance(request, Generate)
    assert [entry.text for entry in request.history] == ["two?", "and this"]
