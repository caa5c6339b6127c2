"""Turns come out: commit in all its situations, clear, and the turns a detector ends."""

from __future__ import annotations

import pytest

from duplex_es.model import (
    EndTurn,
    ResetInput,
)
from duplex_es.protocol import (
    CancelInput,
    ClearInput,
    CommitInput,
    CommitTurn,
    frames,
)
from duplex_es.session.effects import AskModel
from duplex_es.session.events import (
    InputCleared,
    InputCommitted,
    InputTranscribed,
    Listened,
    ResponseStarted,
    SilenceCommitted,
    SpeechStopped,
)
from tests.session.cast import (
    FAN_OUT,
    append,
    eager,
    finished,
    heard,
    item_id,
    names,
    patient,
    said,
    silence,
    spoke,
)

pytestmark = pytest.mark.unit


def test_a_commit_shows_the_item_in_the_order_of_the_contract() -> None:
    scenario = patient().given(append(transcript="what is the weather today")).when(CommitInput(final=True))
    scenario.then(SpeechStopped, InputCommitted)
    assert names(scenario) == ["input_audio_buffer.speech_stopped", *FAN_OUT]
    committed = scenario.frames[3]
    assert isinstance(committed, frames.InputAudioBufferCommitted)
    assert committed.item_id == item_id()
    assert committed.event == frames.InputCommitted(
        session_id="s1",
        turn_id=0,
        epoch=0,
        history_len=1,
        message={"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "native-duplex:input-audio"}}]},
        native_audio=True,
        transcript="what is the weather today",
        realtime_item_id=item_id(),
        item_id=item_id(),
    )
    scenario.asks_for(AskModel(EndTurn(epoch=0, item_id=item_id(), respond=False)))


def test_a_commit_alone_never_starts_a_response() -> None:
    scenario = patient().given(append()).when(CommitInput(response_create=False))
    assert not any(name.startswith("response.") for name in names(scenario))
    assert scenario.session.response is None


def test_items_of_two_turns_follow_each_other() -> None:
    scenario = patient().given(append(), CommitInput(), append()).when(CommitInput())
    added = scenario.frames[1]
    assert isinstance(added, frames.ConversationItemAdded)
    assert (added.previous_item_id, added.item.id) == (item_id(1), item_id(2))


def test_a_commit_that_asks_for_an_answer_announces_it_at_once() -> None:
    for commit in (CommitInput(response_create=True), CommitTurn()):
        scenario = patient().given(append()).when(commit).then(SpeechStopped, InputCommitted, ResponseStarted)
        assert names(scenario)[-5:] == [
            "response.created",
            "conversation.item.added",
            "conversation.item.created",
            "response.output_item.added",
            "response.content_part.added",
        ]
        scenario.asks_for(AskModel(EndTurn(epoch=0, item_id=item_id(), respond=True)))


def test_the_other_commit_may_be_told_not_to_ask() -> None:
    patient().given(append()).when(CommitTurn(response_create=False)).then(SpeechStopped, InputCommitted)


def test_a_model_that_decides_by_itself_is_let_to_and_nothing_is_announced() -> None:
    scenario = eager().given(append()).when(CommitInput(response_create=True)).then(InputCommitted)
    scenario.asks_for(AskModel(EndTurn(epoch=0, item_id=item_id(), respond=True)))
    assert scenario.session.owed == item_id()


def test_a_commit_during_an_answer_is_taken_and_its_own_answer_put_off() -> None:
    scenario = patient().given(append(), spoke(), said("One")).when(CommitTurn())
    scenario.then(SpeechStopped, InputCommitted)
    committed = scenario.frames[3]
    assert isinstance(committed, frames.InputAudioBufferCommitted)
    assert isinstance(committed.event, frames.InputCommitted)
    assert committed.event.response_create_deferred is True
    assert scenario.given(finished()).session.owed == item_id(), "the answer is still owed"
    assert scenario.given(CancelInput()).session.owed is None, "a cancel gives it up"


def test_the_transcript_of_a_model_completes_the_item_later() -> None:
    scenario = eager().given(append()).when(CommitInput())
    assert names(scenario) == FAN_OUT[:3]
    scenario.when(heard(" good morning ", item=item_id())).then(
        InputTranscribed(item_id=item_id(), transcript="good morning")
    ).shows(*FAN_OUT[3:])


def test_a_transcript_in_which_nothing_was_understood_completes_the_item_all_the_same() -> None:
    scenario = eager().given(append(), CommitInput()).when(heard("", item=item_id()))
    scenario.shows("conversation.item.done")
    scenario.when(heard("again", item=item_id())).then()


def test_a_transcript_comes_through_whatever_was_interrupted_since() -> None:
    scenario = eager().given(append(), CommitInput(), spoke(), CancelInput()).when(heard("hello", item=item_id()))
    scenario.then(InputTranscribed)


def test_a_commit_of_nothing_is_refused_and_makes_no_item() -> None:
    scenario = patient().when(CommitInput(event_id="evt_60")).refuses("input_audio_buffer_empty")
    assert scenario.session.items == ()
    patient().given(append(), CommitInput()).when(CommitInput()).refuses("input_audio_buffer_empty")


def test_the_other_commit_of_nothing_is_a_decision_to_listen() -> None:
    scenario = patient().when(CommitTurn()).then(SilenceCommitted, Listened(reason="silence_or_noise"))
    scenario.shows("input_audio_buffer.committed", "response.listen")


def test_a_declared_silence_makes_no_item_and_empties_the_buffer() -> None:
    scenario = patient().given(silence()).when(CommitInput(is_speech=False))
    scenario.then(SilenceCommitted(item_id=item_id()), Listened(reason="silence_or_noise"))
    scenario.shows("input_audio_buffer.committed", "response.listen")
    committed = scenario.frames[0]
    assert isinstance(committed, frames.InputAudioBufferCommitted)
    event = committed.event
    assert isinstance(event, frames.InputCommitted)
    assert (event.empty, event.is_speech, event.no_response) == (True, False, True)
    scenario.asks_for(AskModel(ResetInput(epoch=0)))
    assert (scenario.session.items, scenario.session.input.has_audio) == ((), False)


def test_a_silence_may_be_declared_without_any_audio() -> None:
    patient().when(CommitInput(is_speech=False)).shows("input_audio_buffer.committed", "response.listen")


def test_declared_silence_ends_speech_that_had_begun() -> None:
    scenario = patient().given(append(300)).when(CommitInput(is_speech=False))
    scenario.then(SpeechStopped(item_id=item_id(), end_ms=300, kept=False), SilenceCommitted, Listened)
    scenario.shows("input_audio_buffer.speech_stopped", "input_audio_buffer.committed", "response.listen")
    assert scenario.session.items == ()


def test_a_commit_of_audio_in_which_nobody_spoke_is_silence() -> None:
    patient().given(silence()).when(CommitInput()).then(SilenceCommitted, Listened)


def test_a_commit_says_where_speech_ended_or_the_clock_does() -> None:
    scenario = patient().given(append(300))
    scenario.when(CommitInput(audio_end_ms=120)).then(SpeechStopped(item_id=item_id(), end_ms=120), InputCommitted)
    scenario.when(CommitInput(audio_end_ms=-1)).then(SpeechStopped(item_id=item_id(), end_ms=0), InputCommitted)
    scenario.when(CommitInput()).then(SpeechStopped(item_id=item_id(), end_ms=300), InputCommitted)


# -- clear ---------------------------------------------------------------------------------------------------------


def test_clearing_drops_input_but_moves_no_epoch_and_touches_no_answer() -> None:
    scenario = patient().given(spoke(), said("One"), append()).when(ClearInput())
    scenario.then(InputCleared()).shows(frames.InputAudioBufferCleared()).asks_for(AskModel(ResetInput(epoch=0)))
    assert (scenario.session.epoch, scenario.session.input.has_audio) == (0, False)
    assert scenario.session.response is not None
    scenario.when(CommitInput()).refuses("input_audio_buffer_empty")


def test_clearing_keeps_the_clock() -> None:
    assert patient().given(append(300), ClearInput()).session.input.clock.ms == 300
