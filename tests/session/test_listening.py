"""What the model hears by itself: speech, its end, and whole turns."""

from __future__ import annotations

import pytest

from duplex_es.model import (
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelHeardWords,
    ModelInterrupted,
    ModelListened,
)
from duplex_es.protocol import (
    CancelInput,
    ClearInput,
    CommitInput,
    frames,
)
from duplex_es.session.events import (
    CommitRepeated,
    InputCommitted,
    InputTranscribed,
    Listened,
    SpeechStarted,
    SpeechStopped,
    TranscriptGrown,
)
from tests.session.cast import (
    FAN_OUT,
    append,
    eager,
    heard,
    item_id,
    names,
    response_id,
    said,
    silence,
    spoke,
)

pytestmark = pytest.mark.unit


def test_the_model_begins_and_ends_speech_and_the_turn() -> None:
    scenario = eager().given(append(500)).when(ModelHeardSpeech(epoch=0, start_ms=120))
    scenario.shows(frames.InputAudioBufferSpeechStarted(audio_start_ms=120, item_id=item_id()))
    scenario = scenario.when(ModelHeardSpeechEnd(epoch=0, end_ms=480))
    scenario.shows(frames.InputAudioBufferSpeechStopped(audio_end_ms=480, item_id=item_id()))
    scenario = scenario.when(heard("good morning")).then(InputCommitted).asks_for()
    assert names(scenario) == FAN_OUT
    assert scenario.session.owed == item_id()


def test_speech_is_begun_and_ended_once_however_often_the_model_says_so() -> None:
    scenario = eager().given(append(), ModelHeardSpeech(epoch=0, start_ms=10))
    scenario.when(ModelHeardSpeech(epoch=0, start_ms=20)).then()
    scenario = scenario.given(ModelHeardSpeechEnd(epoch=0, end_ms=90))
    scenario.when(ModelHeardSpeechEnd(epoch=0, end_ms=95)).then()


def test_a_turn_the_model_ends_in_the_middle_of_speech_stops_the_speech_first() -> None:
    scenario = eager().given(append(), ModelHeardSpeech(epoch=0, start_ms=10)).when(heard("hey"))
    assert names(scenario) == ["input_audio_buffer.speech_stopped", *FAN_OUT]


def test_noise_is_stopped_and_forgotten() -> None:
    scenario = eager().given(append(), ModelHeardSpeech(epoch=0, start_ms=10))
    scenario = scenario.when(ModelHeardSpeechEnd(epoch=0, end_ms=90, is_turn=False))
    scenario.shows("input_audio_buffer.speech_stopped")
    assert (scenario.session.items, scenario.session.input.item_id) == ((), None)
    assert scenario.session.turn_state == "idle"
    later = scenario.given(append(), ModelHeardSpeech(epoch=0, start_ms=300)).session.input.item_id
    assert later == item_id(2), "an id is never used twice"


def test_a_late_commit_is_answered_with_the_turn_the_model_ended() -> None:
    turn = eager().given(append(), ModelHeardSpeech(epoch=0, start_ms=10), heard("hello"))
    for scenario in (turn, turn.given(silence()), turn.given(append())):
        scenario = scenario.when(CommitInput()).then(CommitRepeated(item_id=item_id())).asks_for()
        (frame,) = scenario.frames
        assert isinstance(frame, frames.InputAudioBufferCommitted)
        assert frame.item_id == item_id()
        assert isinstance(frame.event, frames.InputCommitted)
        assert (frame.event.empty, frame.event.no_response) == (True, True)
        assert len(scenario.session.items) == 1
        scenario.when(CommitInput()).refuses("input_audio_buffer_empty")


def test_noise_after_the_models_turn_does_not_take_the_late_commit_away() -> None:
    turn = eager().given(append(), ModelHeardSpeech(epoch=0, start_ms=10), heard("hello"))
    noise = turn.given(
        append(), ModelHeardSpeech(epoch=0, start_ms=300), ModelHeardSpeechEnd(epoch=0, end_ms=350, is_turn=False)
    )
    noise.when(CommitInput()).then(CommitRepeated(item_id=item_id()))


def test_new_speech_after_the_models_turn_is_a_turn_of_its_own() -> None:
    scenario = eager().given(append(), ModelHeardSpeech(epoch=0, start_ms=10), heard("hello"))
    scenario.given(append(), ModelHeardSpeech(epoch=0, start_ms=300)).when(CommitInput()).then(
        SpeechStopped, InputCommitted
    )


def test_a_turn_that_the_client_committed_first_completes_that_item() -> None:
    """Both ended the same turn: one turn, one item."""
    scenario = eager().given(append(), ModelHeardSpeech(epoch=0, start_ms=10), CommitInput()).when(heard("hello"))
    scenario.then(InputTranscribed(item_id=item_id(), transcript="hello"))
    scenario.when(heard("hello", item=item_id())).then()
    scenario.given(silence()).when(heard("hello")).then()


def test_speech_that_a_commit_took_in_opens_no_second_item() -> None:
    scenario = eager().given(append(500), CommitInput())
    scenario.when(ModelHeardSpeech(epoch=0, start_ms=300)).then()
    scenario.when(ModelHeardSpeechEnd(epoch=0, end_ms=480)).then()


def test_a_new_turn_is_not_mistaken_for_the_one_whose_transcript_is_still_to_come() -> None:
    scenario = eager().given(append(), CommitInput(), append(), ModelHeardSpeech(epoch=0, start_ms=250))
    scenario = scenario.when(heard("second"))
    assert [item.transcript for item in scenario.session.items] == ["", "second"]
    scenario = scenario.when(heard("first", item=item_id(1)))
    assert [item.transcript for item in scenario.session.items] == ["first", "second"]


def test_a_turn_out_of_audio_that_was_cleared_is_dropped() -> None:
    scenario = eager().given(append(), ModelHeardSpeech(epoch=0, start_ms=10), ClearInput())
    scenario.when(heard("never mind")).then()
    scenario.given(silence()).when(heard("never mind")).then()


def test_what_was_heard_before_a_barge_in_that_cleared_the_input_is_stale() -> None:
    scenario = eager().given(append(), CancelInput(), append())
    for signal in (
        ModelHeardSpeech(epoch=0, start_ms=250),
        ModelHeardSpeechEnd(epoch=0, end_ms=300),
        heard("old words"),
    ):
        scenario.when(signal).then()
    scenario.when(ModelHeardSpeech(epoch=1, start_ms=250)).then(SpeechStarted)


def test_hearing_survives_the_interruption_of_an_answer() -> None:
    scenario = eager().given(spoke(), said("One"), append(), ModelHeardSpeech(epoch=0, start_ms=10))
    cut = scenario.given(ModelInterrupted(epoch=0, turn=0))
    assert cut.session.epoch == 1
    cut.when(heard("stop", epoch=0)).then(SpeechStopped, InputCommitted)


def test_a_turn_may_end_in_listening() -> None:
    scenario = eager().given(append(), CommitInput()).when(ModelListened(epoch=0, reason="model_listen"))
    scenario.then(Listened(reason="model_listen")).shows("response.listen")
    assert scenario.session.owed is None
    assert response_id() not in {item.response_id for item in scenario.session.items}


# -- transcripts in pieces, and none at all ------------------------------------------------------------------------


@pytest.mark.shows("conversation.item.input_audio_transcription.delta")
def test_words_may_be_shown_before_the_transcript_is_whole() -> None:
    scenario = eager().given(append(), CommitInput()).when(ModelHeardWords(epoch=0, text="good "))
    scenario.then(TranscriptGrown(item_id=item_id(), text="good ")).shows(
        frames.ConversationItemInputAudioTranscriptionDelta(item_id=item_id(), delta="good ")
    )
    assert scenario.session == eager().given(append(), CommitInput()).session
    scenario.when(ModelHeardWords(epoch=0, text="x", item_id="item_other")).then()
    scenario.when(ModelHeardWords(epoch=0, text="")).then()
    done = scenario.given(heard("good morning", item=item_id()))
    done.when(ModelHeardWords(epoch=0, text="late", item_id=item_id())).then()


@pytest.mark.shows("conversation.item.input_audio_transcription.failed")
def test_a_recogniser_that_fails_is_told_and_the_item_is_finished() -> None:
    failed = ModelHeardTurn(epoch=0, transcript="", item_id=item_id(), failed="Out of memory.")
    scenario = eager().given(append(), CommitInput()).when(failed)
    scenario.then(InputTranscribed(item_id=item_id(), failed="Out of memory."))
    told = scenario.frames[0]
    assert isinstance(told, frames.ConversationItemInputAudioTranscriptionFailed)
    assert (told.item_id, told.error.message) == (item_id(), "Out of memory.")
    assert names(scenario)[1:] == ["conversation.item.done"]
    assert not scenario.session.is_transcribing
