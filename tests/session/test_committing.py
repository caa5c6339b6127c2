"""Turns come out: commit in all its situations, clear, and the turns a detector ends."""

from __future__ import annotations

import pytest

from duplex_es.model import (
    EndTurn,
    Generate,
    ResetInput,
)
from duplex_es.protocol import (
    AppendText,
    CancelInput,
    ClearInput,
    CommitInput,
    CommitTurn,
    CreateResponse,
    DeleteItem,
    SocketAttached,
    Usage,
    frames,
)
from duplex_es.session.effects import AskModel, FeedAppended
from duplex_es.session.events import (
    AudioAppended,
    CommandRejected,
    InputCleared,
    InputCommitted,
    InputTranscribed,
    Listened,
    ResponseFinished,
    ResponseStarted,
    SilenceCommitted,
    SpeechStopped,
    TurnPromoted,
)
from duplex_es.session.inputs import AudioArrived
from tests.session.cast import (
    FAN_OUT,
    append,
    chat,
    detected,
    eager,
    finished,
    heard,
    item_id,
    names,
    native,
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


# -- said over an answer, said twice, said too often ---------------------------------------------------------------


def test_a_quiet_utterance_is_an_item_when_the_client_says_that_it_is_speech() -> None:
    patient().given(silence()).when(CommitInput(is_speech=True)).then(InputCommitted)


def test_so_many_transcripts_may_be_outstanding() -> None:
    scenario = eager()
    for _ in range(4):
        scenario = scenario.given(append(), CommitInput())
    scenario = scenario.given(append())
    scenario.when(CommitInput(event_id="evt_9")).refuses("input_backpressure")
    scenario.given(heard("one", item=item_id())).when(CommitInput()).then(InputCommitted)


def test_a_transcript_says_how_long_the_utterance_was() -> None:
    scenario = eager().given(append(1_500), CommitInput()).when(heard("hello", item=item_id()))
    completed = scenario.frames[0]
    assert isinstance(completed, frames.ConversationItemInputAudioTranscriptionCompleted)
    assert completed.usage == Usage(type="duration", seconds=1.5)


# -- turn-based models ---------------------------------------------------------------------------------------------

VAD = {"type": "server_vad"}


def test_a_turn_becomes_a_request_when_one_is_wanted() -> None:
    scenario = chat().given(append(300)).when(CommitInput()).then(SpeechStopped, InputCommitted)
    scenario.asks_for(AskModel(EndTurn(epoch=0, item_id=item_id(), respond=False)))
    for commit in (CommitTurn(), CommitInput(response_create=True)):
        scenario = chat().given(append(300)).when(commit).then(SpeechStopped, InputCommitted, ResponseStarted)
        end, ask = scenario.effects
        assert end == AskModel(EndTurn(epoch=0, item_id=item_id(), respond=False))
        assert isinstance(ask, AskModel)
        assert isinstance(ask.request, Generate)
        (entry,) = ask.request.history
        assert (entry.item_id, entry.role, entry.text, entry.spoken) == (item_id(), "user", "", True)
    automatic = chat(extra_body={"auto_response": True}).given(append(300)).when(CommitInput())
    automatic.then(SpeechStopped, InputCommitted, ResponseStarted)


def test_words_alone_are_a_turn_too() -> None:
    scenario = chat().given(AppendText(text="hi")).when(CommitInput()).then(InputCommitted).asks_for()
    assert scenario.session.items[0].text == "hi"
    committed = scenario.frames[2]
    assert isinstance(committed, frames.InputAudioBufferCommitted)
    assert isinstance(committed.event, frames.InputCommitted)
    assert committed.event.message == {"role": "user", "content": [{"type": "text", "text": "hi"}]}


def test_a_commit_of_nothing_is_told_so() -> None:
    scenario = chat().when(CommitTurn()).then(SilenceCommitted).shows("input_audio_buffer.committed")
    chat().when(CommitInput()).refuses("input_audio_buffer_empty")
    assert scenario.session.items == ()


def test_a_new_request_ends_the_one_that_is_being_answered() -> None:
    scenario = chat().given(append(), CommitTurn(), spoke(), said("One, "), append()).when(CommitTurn())
    scenario.then(ResponseFinished, SpeechStopped, InputCommitted, ResponseStarted)
    done = next(frame for frame in scenario.frames if isinstance(frame, frames.ResponseDone))
    assert done.response.status_details.reason == "new_response"  # type: ignore[union-attr]
    assert scenario.session.epoch == 1
    scenario.when(said("two.")).then()
    chat().given(append(), CommitTurn(), append()).when(CommitInput()).then(SpeechStopped, InputCommitted)


def utterance(**fields: int) -> tuple[AudioArrived, AudioArrived]:
    """Speech that a detector heard begin and end."""
    return detected(500, started=True, start_ms=fields.get("start_ms", 0)), detected(500, stopped=True)


def test_the_turn_a_detector_ends_is_committed_and_answered() -> None:
    begin, end = utterance(start_ms=100)
    scenario = chat(turn_detection=VAD).given(begin).when(end)
    scenario.then(AudioAppended, SpeechStopped, InputCommitted, ResponseStarted)
    feed, turn, ask = scenario.effects
    assert isinstance(feed, FeedAppended)
    assert turn == AskModel(EndTurn(epoch=0, item_id=item_id(), respond=False, audio_start_ms=100))
    assert isinstance(ask, AskModel)
    assert isinstance(ask.request, Generate)
    assert scenario.session.items[0].audio_ms == 900


def test_a_detector_that_is_not_to_ask_for_answers_only_commits() -> None:
    begin, end = utterance()
    scenario = chat(turn_detection={**VAD, "create_response": False}).given(begin).when(end)
    scenario.then(AudioAppended, SpeechStopped, InputCommitted)
    scenario.when(CreateResponse()).then(ResponseStarted)


def test_one_detected_turn_may_wait_and_the_next_is_lost() -> None:
    begin, end = utterance()
    scenario = chat(turn_detection=VAD).given(begin, end, spoke(), said("One."), begin).when(end)
    scenario.then(AudioAppended, SpeechStopped, InputCommitted)
    assert names(scenario)[1:4] == FAN_OUT[:3]
    assert scenario.session.waiting is not None
    lost = scenario.given(begin).when(end)
    lost.then(AudioAppended, SpeechStopped, CommandRejected, InputCleared)
    assert names(lost) == ["input_audio_buffer.speech_stopped", "error", "input_audio_buffer.cleared"]
    assert AskModel(ResetInput(epoch=0)) in lost.effects
    scenario.when(finished()).then(ResponseFinished, TurnPromoted(item_id=item_id(2), respond=True), ResponseStarted)
    scenario.given(DeleteItem(item_id=item_id(2)), begin).when(end).then(AudioAppended, SpeechStopped, InputCommitted)


def test_where_the_server_ends_turns_the_client_may_not() -> None:
    begin, _ = utterance()
    for commit in (CommitInput(event_id="e"), CommitTurn(event_id="e")):
        chat(turn_detection=VAD).given(begin).when(commit).refuses("server_vad_manual_commit_unsupported")
    native(turn_detection=VAD).given(begin).when(CommitInput()).then(SpeechStopped, InputCommitted)


@pytest.mark.parametrize(("dialect", "least_ms"), [("ga", 100), ("beta", 100), ("duplex", 1)])
def test_a_stock_client_is_refused_a_commit_of_less_than_a_tenth_of_a_second(dialect: str, least_ms: int) -> None:
    scenario = patient().given(SocketAttached(generation=1, gateway="g", dialect=dialect))
    commit = CommitInput(is_speech=True)

    if least_ms > 1:
        scenario.given(append(least_ms - 1)).when(commit).refuses("input_audio_buffer_empty")
    assert "input_audio_buffer.committed" in names(scenario.given(append(least_ms)).when(commit))


def test_audio_before_the_last_clear_does_not_count_towards_a_commit() -> None:
    stock = SocketAttached(generation=1, gateway="g", dialect="ga")
    scenario = patient().given(stock, append(400), ClearInput(), append(50))

    scenario.when(CommitInput(is_speech=True)).refuses("input_audio_buffer_empty")
