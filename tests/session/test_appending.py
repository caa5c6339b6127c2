"""Caller audio comes in: what an append is, where speech begins, what the model is fed."""

from __future__ import annotations

import pytest

from duplex_es.model import EndTurn
from duplex_es.protocol import (
    AppendAudio,
    AppendText,
    ClearInput,
    CommitInput,
    frames,
)
from duplex_es.session.appending import MAX_PENDING_BYTES
from duplex_es.session.effects import AskModel, FeedAppended
from duplex_es.session.events import (
    AudioAppended,
    SpeechStarted,
    SpeechStopped,
    TextAppended,
)
from duplex_es.session.inputs import AudioArrived
from tests.session.cast import (
    answer,
    append,
    chat,
    detected,
    eager,
    item_id,
    names,
    native,
    patient,
    said,
    silence,
    spoke,
)

pytestmark = pytest.mark.unit


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


# -- a detector ----------------------------------------------------------------------------------------------------

VAD = {"type": "server_vad"}


def test_a_detector_says_where_speech_begins_and_ends() -> None:
    scenario = native(turn_detection=VAD).given(silence(500))
    scenario.when(detected(active=False)).then(AudioAppended).shows()
    scenario = scenario.when(detected(started=True, start_ms=420))
    scenario.then(SpeechStarted(item_id=item_id(), start_ms=420, detected=True), AudioAppended)
    scenario = scenario.given(detected()).when(detected(stopped=True, end_ms=1_100))
    scenario.then(AudioAppended, SpeechStopped(item_id=item_id(), end_ms=1_100))
    assert scenario.session.input.has_speech, "a model that listens all the time is not told that the turn is over"


def test_every_utterance_of_an_open_item_is_told_begun_and_ended() -> None:
    scenario = native(turn_detection=VAD).given(detected(started=True, start_ms=0), detected(stopped=True))
    scenario = scenario.when(detected(started=True, start_ms=900))
    scenario.shows(frames.InputAudioBufferSpeechStarted(audio_start_ms=900, item_id=item_id()))
    scenario = scenario.when(detected(stopped=True, end_ms=1_300))
    scenario.shows(frames.InputAudioBufferSpeechStopped(audio_end_ms=1_300, item_id=item_id()))
    assert scenario.given(CommitInput()).session.items_count == 1


def test_an_utterance_that_ends_over_an_answer_is_told_ended() -> None:
    scenario = native(turn_detection=VAD, extra_body={"auto_response": False}).given(detected(started=True))
    scenario = scenario.given(spoke(), said("One.")).when(detected(stopped=True, active=False, end_ms=700))
    assert names(scenario)[-1] == "input_audio_buffer.speech_stopped"
    assert scenario.session.input.has_speech


def test_a_detector_never_reaches_back_beyond_the_last_clear() -> None:
    scenario = native(turn_detection=VAD).given(silence(500), ClearInput()).when(detected(started=True, start_ms=200))
    scenario.then(SpeechStarted(item_id=item_id(), start_ms=500, detected=True), AudioAppended)


def test_while_a_detector_hears_speech_the_model_only_listens() -> None:
    scenario = native(turn_detection=VAD)
    for said_by, forced in ((detected(started=True), True), (detected(stopped=True), False)):
        scenario = scenario.when(said_by)
        (feed,) = scenario.effects
        assert isinstance(feed, FeedAppended)
        assert (feed.force_listen, feed.is_speech) == (forced, True)


def test_the_verdict_of_a_detector_counts_and_the_loudness_does_not() -> None:
    scenario = native(turn_detection=VAD).when(detected(active=False))
    scenario.then(AudioAppended(samples=3_200, rate_hz=16_000, is_speech=False, hinted=True))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"format": "pcm_f32le"}, "audio"),
        ({"format": "g711_ulaw"}, "audio"),
        ({"sample_rate_hz": 48_000}, "audio"),
        ({"sample_rate_hz": 24_000}, "sample_rate_hz"),
    ],
)
def test_a_turn_based_detector_takes_one_plain_rate(fields: dict[str, object], param: str) -> None:
    scenario = chat(turn_detection=VAD).given(detected(started=True))
    scenario.when(detected(**fields)).refuses("bad_audio", param=param)  # type: ignore[arg-type]
    chat(turn_detection=VAD).when(detected(started=True, sample_rate_hz=24_000)).then(SpeechStarted, AudioAppended)
    chat().given(append()).when(append(sample_rate_hz=24_000)).then(AudioAppended)


def test_the_first_appends_of_a_turn_may_be_for_listening_only() -> None:
    scenario = native(extra_body={"force_listen_count": 2})
    forced = []
    for _ in range(3):
        scenario = scenario.when(append())
        forced.append(scenario.effects[0].force_listen)  # type: ignore[union-attr]
    assert forced == [True, True, False]
    again = scenario.given(*answer("Yes.")).when(append())
    assert again.effects[0].force_listen is True  # type: ignore[union-attr]
    assert native(extra_body={"force_listen_count": "2"}).when(append()).effects[0].force_listen is False  # type: ignore[union-attr]


# -- typed input ---------------------------------------------------------------------------------------------------


def test_a_turn_based_model_takes_typed_text_with_the_audio() -> None:
    scenario = chat().when(AppendText(text="and ")).then(TextAppended(text="and ")).shows()
    scenario = scenario.given(AppendText(text="tomorrow?"), append(300)).when(CommitInput())
    added = next(frame for frame in scenario.frames if isinstance(frame, frames.ConversationItemAdded))
    assert [part.type for part in added.item.content] == ["input_text", "input_audio"]  # type: ignore[union-attr]
    assert added.item.content[0].text == "and tomorrow?"  # type: ignore[index]
    scenario.asks_for(AskModel(EndTurn(epoch=0, item_id=item_id(), respond=False)))


def test_no_more_sound_than_fits_waits_for_a_turn_to_end() -> None:
    longest_ms = MAX_PENDING_BYTES // 4 // 16
    full = chat().given(append(longest_ms - 200), append(200))
    full.when(append(200)).refuses("input_backpressure", param="audio")
    full.given(ClearInput()).when(append(200)).then(SpeechStarted, AudioAppended)
    full.given(CommitInput()).when(append(200)).then(SpeechStarted, AudioAppended)
    patient().given(append(longest_ms)).when(append(200)).then(AudioAppended)


def test_with_a_detector_only_the_utterance_waits_and_its_end_is_heard() -> None:
    longest_ms = MAX_PENDING_BYTES // 4 // 16
    quiet = chat(turn_detection=VAD).given(detected(longest_ms, active=False))
    speaking = quiet.when(detected(started=True, start_ms=longest_ms)).then(SpeechStarted, AudioAppended)
    full = speaking.given(detected(longest_ms - 200))
    full.when(detected()).refuses("input_backpressure", param="audio")
    shown = [type(frame) for frame in full.when(detected(stopped=True)).frames]
    assert frames.InputAudioBufferSpeechStopped in shown
