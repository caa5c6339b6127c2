"""Caller audio comes in, turns come out: append, commit in all its situations, clear, and what the model hears."""

from __future__ import annotations

import pytest

from duplex_es.model import (
    EndTurn,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelInterrupted,
    ModelListened,
    ResetInput,
)
from duplex_es.protocol import AppendAudio, AppendText, CancelInput, ClearInput, CommitInput, CommitTurn, frames
from duplex_es.session.effects import AskModel, FeedAppended
from duplex_es.session.events import (
    AudioAppended,
    CommitRepeated,
    InputCleared,
    InputCommitted,
    InputTranscribed,
    Listened,
    ResponseStarted,
    SilenceCommitted,
    SpeechStarted,
    SpeechStopped,
)
from duplex_es.session.inputs import AudioArrived
from tests.session.cast import (
    append,
    eager,
    finished,
    item_id,
    names,
    patient,
    response_id,
    said,
    silence,
    spoke,
)

pytestmark = pytest.mark.unit

FAN_OUT = [
    "conversation.item.added",
    "conversation.item.created",
    "input_audio_buffer.committed",
    "conversation.item.input_audio_transcription.completed",
    "conversation.item.done",
]


def heard(transcript: str, *, item: str | None = None, epoch: int = 0) -> ModelHeardTurn:
    return ModelHeardTurn(epoch=epoch, transcript=transcript, item_id=item)


# -- append --------------------------------------------------------------------------------------------------------


def test_the_first_loud_append_starts_speech_and_feeds_the_model() -> None:
    patient().given(silence(200)).when(append(200)).then(
        SpeechStarted(item_id=item_id(), start_ms=200),
        AudioAppended(samples=3_200, rate_hz=16_000, is_speech=True),
    ).shows(frames.InputAudioBufferSpeechStarted(audio_start_ms=200, item_id=item_id())).asks_for(
        FeedAppended(epoch=0, end_ms=400, is_speech=None, force_listen=True)
    )


def test_speech_starts_once_however_loud_it_goes_on() -> None:
    patient().given(append()).when(append()).then(AudioAppended).shows()


def test_an_append_may_say_itself_where_speech_began() -> None:
    patient().when(append(audio_start_ms=1_040)).shows(
        frames.InputAudioBufferSpeechStarted(audio_start_ms=1_040, item_id=item_id())
    )
    patient().when(append(audio_start_ms=-5)).shows(
        frames.InputAudioBufferSpeechStarted(audio_start_ms=0, item_id=item_id())
    )


def test_the_clients_verdict_is_passed_on_and_a_guess_is_not() -> None:
    for fields, verdict in (({}, None), ({"is_speech": False}, False), ({"speech_probability": 0.9}, True)):
        scenario = patient().when(append(**fields))
        (feed,) = scenario.effects
        assert isinstance(feed, FeedAppended)
        assert feed.is_speech is verdict


def test_a_model_that_hears_turns_itself_says_where_speech_begins() -> None:
    eager().when(append(is_speech=True)).then(AudioAppended).shows()


def test_a_model_that_decides_by_itself_is_not_forced_to_listen() -> None:
    eager().when(append()).asks_for(FeedAppended(epoch=0, end_ms=200, is_speech=None, force_listen=False))


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"audio": b""}, "bad_event", "audio"),
        ({"audio": b"\0\0\0"}, "bad_audio", "audio"),
        ({"audio": bytes(4), "format": "mp3"}, "unsupported_audio_format", "format"),
        ({"audio": bytes(4), "channels": 2}, "unsupported_audio_format", "channels"),
    ],
)
def test_an_append_that_cannot_be_understood_is_refused_and_the_buffer_stays(
    fields: dict[str, object], code: str, param: str
) -> None:
    before = patient().given(append())
    bad = AudioArrived(command=AppendAudio(event_id="evt_42", **fields))  # type: ignore[arg-type]
    after = before.when(bad).refuses(code, param=param).asks_for()
    assert after.session == before.session
    assert after.decision.facts[0].event_id == "evt_42"  # type: ignore[attr-defined]


def test_an_append_that_was_not_measured_is_taken_for_speech() -> None:
    patient().when(AppendAudio(audio=bytes(640))).then(SpeechStarted, AudioAppended)


def test_the_clock_counts_whole_samples_over_any_rate() -> None:
    scenario = patient()
    for _ in range(100):
        scenario = scenario.given(append(audio=bytes(2 * 441), sample_rate_hz=44_100))
    assert scenario.session.input.clock.ms == 1_000
    assert scenario.given(append(20)).session.input.clock.ms == 1_020
    assert scenario.given(append(20)).session.usage_input_ms == 1_020


def test_hints_gather_to_the_transcript_and_a_repeated_one_counts_once() -> None:
    scenario = patient().given(*(append(transcript=hint) for hint in ("what is", "what is", "", "the", "the time")))
    committed = scenario.when(CommitInput())
    assert [frame.transcript for frame in committed.frames if hasattr(frame, "transcript")] == ["what is the the time"]


def test_a_hint_that_ends_like_the_words_before_is_not_lost() -> None:
    scenario = patient().given(append(transcript="so"), append(transcript="o"))
    assert scenario.session.input.transcript == "so o"


def test_written_input_belongs_to_another_kind_of_model() -> None:
    patient().when(AppendText(text="hi")).refuses("native_text_append_unsupported")


# -- commit --------------------------------------------------------------------------------------------------------


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
    scenario = patient().given(spoke(), said("One"), append()).when(CommitTurn())
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
    patient().when(CommitTurn()).then(SilenceCommitted, Listened(reason="silence_or_noise")).shows("response.listen")


def test_a_declared_silence_makes_no_item_and_empties_the_buffer() -> None:
    scenario = patient().given(silence()).when(CommitInput(is_speech=False))
    scenario.then(SilenceCommitted, Listened(reason="silence_or_noise")).shows("response.listen")
    scenario.asks_for(AskModel(ResetInput(epoch=0)))
    assert (scenario.session.items, scenario.session.input.has_audio) == ((), False)


def test_a_silence_may_be_declared_without_any_audio() -> None:
    patient().when(CommitInput(is_speech=False)).shows("response.listen")


def test_declared_silence_ends_speech_that_had_begun() -> None:
    scenario = patient().given(append(300)).when(CommitInput(is_speech=False))
    scenario.then(SpeechStopped(item_id=item_id(), end_ms=300, kept=False), SilenceCommitted, Listened)
    scenario.shows("input_audio_buffer.speech_stopped", "response.listen")
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


# -- what the model hears ------------------------------------------------------------------------------------------


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
