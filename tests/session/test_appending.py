"""Caller audio comes in: what an append is, where speech begins, what the model is fed."""

from __future__ import annotations

import pytest

from duplex_es.protocol import (
    AppendAudio,
    AppendText,
    CommitInput,
    frames,
)
from duplex_es.session.effects import FeedAppended
from duplex_es.session.events import (
    AudioAppended,
    SpeechStarted,
)
from duplex_es.session.inputs import AudioArrived
from tests.session.cast import (
    append,
    eager,
    item_id,
    patient,
    silence,
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
