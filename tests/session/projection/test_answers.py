"""The frames of one response: what rides on each, and what is left out where nothing happened."""

from __future__ import annotations

import pytest

from duplex_es.model import ModelProducedText
from duplex_es.protocol import CancelResponse, ContentPart, CreateResponse, StatusDetails, Usage, frames
from duplex_es.session.events import AudioProduced, ResponseFinished, ResponseStarted, TextProduced
from duplex_es.session.projection.answers import FINISHES, PRODUCES, STARTS
from tests.session.cast import answer, answer_id, finished, names, patient, response_id, said, spoke, typed

pytestmark = pytest.mark.unit


def test_the_announcement_says_where_in_the_session_it_is() -> None:
    scenario = patient().given(*answer("One."), typed("and?")).when(CreateResponse())
    created = scenario.frames[0]
    assert isinstance(created, frames.ResponseCreated)
    assert created.response.modalities == ["text", "audio"]
    assert created.response.metadata == {
        "duplex_event": {
            "type": "response.created",
            "session_id": "s1",
            "response_id": response_id(2),
            "epoch": 0,
            "turn_id": 1,
            "modalities": ["text", "audio"],
        }
    }
    item = scenario.frames[1].item  # type: ignore[union-attr]
    assert (item.status, item.content) == ("in_progress", [])
    assert scenario.frames[4] == frames.ResponseContentPartAdded(
        response_id=response_id(2), item_id=answer_id(2), part=ContentPart(type="audio", transcript="")
    )


def test_the_decision_to_speak_is_not_told_of_a_written_answer() -> None:
    assert "response.speak" not in names(patient(modalities=["text"]).given(spoke()).when(said("One.")))
    speak = patient().given(spoke()).when(said("One.")).frames[-3]
    assert isinstance(speak, frames.ResponseSpeak)
    assert speak.metadata == frames.OutputMetadata(session_id="s1", epoch=0, model_speak=True)


def test_a_silent_piece_has_no_mark() -> None:
    delta = patient().given(spoke(), said("One.")).when(said("", 500)).frames[0]
    assert isinstance(delta, frames.ResponseOutputAudioDelta)
    assert isinstance(delta.metadata, frames.OutputMetadata)
    assert (delta.metadata.audio_text_marks, delta.metadata.audio_duration_ms) == ([], 1_500)


def test_a_part_is_opened_by_the_first_piece_of_its_kind_only() -> None:
    scenario = patient().given(spoke(), said("One.")).when(ModelProducedText(epoch=0, turn=0, text="a"))
    assert names(scenario) == ["response.content_part.added", "response.output_text.delta"]
    assert names(scenario.when(ModelProducedText(epoch=0, turn=0, text="b"))) == ["response.output_text.delta"]


def test_a_response_without_token_counts_shows_its_seconds() -> None:
    done = patient().given(spoke(), said("One.")).when(finished()).frames[-2]
    assert isinstance(done, frames.ResponseDone)
    assert done.response.usage == Usage(
        input_token_details={"audio_seconds": 0.0}, output_token_details={"audio_seconds": 1.0}
    )
    partly = patient().given(spoke(), said("One.")).when(finished(output_tokens=7)).frames[-2]
    assert isinstance(partly, frames.ResponseDone)
    assert partly.response.usage.total_tokens == 7  # type: ignore[union-attr]


def test_an_ending_names_its_reason_in_two_words() -> None:
    done = patient().given(spoke(), said("One.")).when(CancelResponse()).frames[-2]
    assert isinstance(done, frames.ResponseDone)
    assert done.response.status_details == StatusDetails(type="cancelled", reason="client_cancelled")
    assert done.response.output[0].status == "cancelled"  # type: ignore[index]


def test_facts_of_another_response_than_the_open_one_show_nothing() -> None:
    session = patient().given(spoke(), said("One.")).session
    idle = patient().session
    for rows, fact in (
        (STARTS, ResponseStarted(response_id="resp_x")),
        (PRODUCES, AudioProduced(response_id="resp_x", samples=1, rate_hz=8_000)),
        (PRODUCES, TextProduced(response_id="resp_x", text="a")),
        (FINISHES, ResponseFinished(response_id="resp_x", status="completed", epoch=0)),
    ):
        project = rows[type(fact)]
        assert project(idle, fact, idle, b"") == []
        if not isinstance(fact, ResponseStarted):
            assert project(session, fact, session, b"") == []
