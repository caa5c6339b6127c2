"""An answer on request: announced at once, with what the client wants of this one answer, or refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.model import Generate, HistoryItem, ModelListened
from duplex_es.protocol import CancelResponse, CommitInput, CreateResponse, frames
from duplex_es.session.effects import AskModel
from duplex_es.session.events import AudioProduced, Listened, ResponseFinished, ResponseSpoken, ResponseStarted
from tests.session.cast import (
    answer,
    answer_id,
    append,
    chat,
    eager,
    finished,
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


def create(**response: Any) -> CreateResponse:
    return CreateResponse(response=response, event_id="evt_70")


def test_a_written_question_is_answered_from_the_history() -> None:
    scenario = patient().given(typed("Summarise what I said.")).when(CreateResponse()).then(ResponseStarted)
    question = HistoryItem(item_id=item_id(), role="user", text="Summarise what I said.")
    scenario.asks_for(AskModel(Generate(epoch=0, response_id=response_id(), history=(question,))))
    assert names(scenario)[0] == "response.created"


def test_the_announcement_names_the_response_and_echoes_the_clients_metadata() -> None:
    scenario = patient().given(typed("hi")).when(create(metadata={"trace": "turn-3"}))
    created = scenario.frames[0]
    assert isinstance(created, frames.ResponseCreated)
    response = created.response
    assert (created.response_id, response.id, response.status) == (response_id(), response_id(), "in_progress")
    assert response.metadata["trace"] == "turn-3"  # type: ignore[index]
    assert response.metadata["duplex_event"]["response_id"] == response_id()  # type: ignore[index]
    ended = scenario.given(spoke(), said("Hi.")).when(finished()).frames[-2]
    assert isinstance(ended, frames.ResponseDone)
    assert ended.response.metadata["trace"] == "turn-3"  # type: ignore[index]


def test_the_answer_to_an_owed_turn_is_the_one_the_model_is_giving_anyway() -> None:
    """A model that answers by itself is not asked a second time; the two requests are one response."""
    scenario = eager().given(append(), CommitInput()).when(CreateResponse()).then(ResponseStarted).asks_for()
    scenario = (
        scenario.given(spoke())
        .when(said("Yes."))
        .then(ResponseSpoken(response_id=response_id(), turn=0), AudioProduced)
    )
    scenario.when(create()).refuses("response_already_active")


def test_a_request_is_for_the_turn_that_the_model_has_begun_already() -> None:
    eager().given(spoke()).when(CreateResponse()).then(ResponseStarted).asks_for()
    words = eager().given(spoke(), typed("and this?")).when(CreateResponse()).then(ResponseStarted)
    words.asks_for(AskModel)


def test_two_requests_at_once_are_one_answer_and_one_error_that_names_its_request() -> None:
    scenario = patient().given(typed("hi"), CreateResponse()).when(create()).refuses("response_already_active")
    assert scenario.decision.facts[0].event_id == "evt_70"  # type: ignore[attr-defined]
    assert scenario.session.response is not None


def test_an_answer_that_is_not_heard_to_its_end_is_still_active_under_ack_only() -> None:
    scenario = patient(playback_commit_policy="ack_only").given(typed("hi"), *answer("Hello."))
    scenario.when(create()).refuses("response_already_active")


@pytest.mark.parametrize(
    "options",
    [
        {"instructions": "sing"},
        {"voice": "anna"},
        {"temperature": 0.1},
        {"max_output_tokens": 5},
        {"tools": [{"name": "f"}]},
        {"tool_choice": "none"},
    ],
)
def test_a_model_that_takes_no_options_refuses_each_by_name(options: dict[str, object]) -> None:
    scenario = patient().given(typed("hi")).when(create(**options))
    scenario.refuses("unsupported_native_response_options", param=f"response.{next(iter(options))}")
    eager().given(typed("hi")).when(create(**options)).then(ResponseStarted)


def test_options_that_say_nothing_are_no_options() -> None:
    patient().given(typed("hi")).when(create(instructions=None, temperature=None)).then(ResponseStarted)


def test_options_hold_for_this_one_answer() -> None:
    scenario = (
        eager(temperature=0.5)
        .given(typed("hi"))
        .when(create(instructions="sing", temperature=0.9, max_output_tokens=7, modalities=["text"]))
    )
    (ask,) = scenario.effects
    assert isinstance(ask, AskModel)
    request = ask.request
    assert isinstance(request, Generate)
    assert (request.instructions, request.temperature, request.max_output_tokens) == ("sing", 0.9, 7)
    assert request.modalities == ("text",)
    assert scenario.session.settings.temperature == 0.5


def test_an_output_format_that_does_not_exist_is_refused() -> None:
    patient().given(typed("hi")).when(create(output_audio_format="mp3")).refuses("unsupported_audio_format")


def test_a_model_that_hears_only_audio_needs_something_to_answer() -> None:
    plain().when(create()).refuses("response_create_without_input")
    plain().given(*answer("Hello.")).when(create()).refuses("response_create_without_input")
    plain().given(append(), CommitInput()).when(create()).then(ResponseStarted)
    patient().when(create()).then(ResponseStarted)


def test_an_answer_given_apart_never_enters_the_history() -> None:
    scenario = patient().given(typed("hi"), create(conversation="none"), spoke(), said("Secret."), finished())
    assert [item.text or item.transcript for item in scenario.session.items if item.remembered] == ["hi"]
    assert scenario.session.item(answer_id()) is not None


def test_a_model_that_listens_after_all_ends_the_request_without_output() -> None:
    scenario = patient().given(typed("hi"), create()).when(ModelListened(epoch=0, response_id=response_id()))
    scenario.then(Listened, ResponseFinished)
    assert names(scenario)[-2:] == ["response.done", "rate_limits.updated"]


def test_an_answer_that_comes_late_is_still_the_one_that_was_asked_for_and_can_be_cancelled() -> None:
    scenario = patient().given(typed("hi"), create(metadata={"k": "v"})).when(CancelResponse())
    scenario.then(ResponseFinished)
    scenario.when(spoke(response_id=response_id())).then()


def test_a_clients_own_metadata_is_told_apart_from_the_runtimes() -> None:
    mine = {"type": "mine", "trace": "3"}
    scenario = patient(metadata={"call": "c1"}).given(typed("hi")).when(create(metadata=mine, conversation="auto"))
    created = scenario.frames[0]
    assert isinstance(created, frames.ResponseCreated)
    metadata = created.response.metadata or {}
    assert (metadata["call"], metadata["type"], metadata["client_metadata"]) == ("c1", "mine", mine)  # type: ignore[index]
    event = metadata["duplex_event"]  # type: ignore[index]
    assert (event["metadata"], event["conversation"]) == (mine, "auto")  # type: ignore[index]
    done = scenario.given(spoke(), said("Hi.")).when(finished()).frames[-2]
    assert isinstance(done, frames.ResponseDone)
    ended = done.response.metadata or {}
    assert (ended["type"], ended["client_metadata"]) == ("response.done", mine)  # type: ignore[index]
    plain_one = patient().given(typed("hi")).when(create()).frames[0]
    assert "client_metadata" not in plain_one.response.metadata  # type: ignore[union-attr,operator]


def test_voice_and_tools_may_be_others_for_one_answer() -> None:
    scenario = eager().given(typed("hi")).when(create(voice="anna", tools=[{"name": "f"}], tool_choice="required"))
    request = scenario.effects[0].request  # type: ignore[union-attr]
    assert isinstance(request, Generate)
    assert (request.voice, request.tools, request.tool_choice) == ("anna", ({"name": "f"},), "required")
    none = eager().given(typed("hi")).when(create(tools=[])).effects[0].request  # type: ignore[union-attr]
    assert isinstance(none, Generate)
    assert none.tools == ()


@pytest.mark.parametrize("modalities", [["video"], ["video", "smell"]])
def test_an_answer_is_spoken_or_written(modalities: list[str]) -> None:
    scenario = patient().given(typed("hi")).when(create(modalities=modalities))
    scenario.refuses("unsupported_response_modality", param="response.modalities")
    chat().given(typed("hi")).when(create(modalities=["text", "video"])).refuses("unsupported_response_modality")
    patient().given(typed("hi")).when(create(modalities=["text", "video"])).then(ResponseStarted)


def test_a_turn_based_model_answers_on_request_even_to_nothing_and_takes_every_option() -> None:
    chat().when(create()).then(ResponseStarted)
    scenario = chat().when(create(instructions="sing", temperature=0.2))
    assert scenario.effects[0].request.instructions == "sing"  # type: ignore[union-attr]
    scenario.when(create()).refuses("response_already_active")


def test_the_sound_of_one_answer_may_be_another() -> None:
    scenario = patient().given(typed("hi")).when(create(output_audio_format="g711_ulaw"))
    live = scenario.session.response
    assert live is not None
    assert (live.output_format, live.output_rate_hz) == ("g711_ulaw", None)
    assert scenario.session.settings.output_format == "pcm16"
    other = patient().given(typed("hi")).when(create()).session.response
    assert other is not None
    assert other.output_format is None
