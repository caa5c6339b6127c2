"""What an append is: its format, its samples, and whether somebody speaks in it."""

from __future__ import annotations

import io
import wave
from typing import Any

import pytest

from duplex_es.protocol import AppendAudio, ProtocolError
from duplex_es.protocol.commands import VadHints
from duplex_es.session.sound import appended_sound, is_speech, silence_rms
from duplex_es.session.state import Settings

pytestmark = pytest.mark.unit

SETTINGS = Settings()


def wav(*, channels: int = 1, width: int = 2, rate_hz: int = 24_000, frames: int = 240) -> bytes:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        file.writeframes(bytes(frames * channels * width))
    return written.getvalue()


@pytest.mark.parametrize(
    ("fields", "encoding", "rate_hz"),
    [
        ({}, "pcm16", 16_000),
        ({"format": "PCM_S16LE"}, "pcm16", 16_000),
        ({"input_audio_format": "pcm_f32le"}, "pcm_f32le", 16_000),
        ({"format": "g711_ulaw"}, "g711_ulaw", 8_000),
        ({"format": {"type": "audio/pcm", "rate": 24_000}}, "pcm16", 24_000),
        ({"sample_rate_hz": 48_000}, "pcm16", 48_000),
        ({"channels": 1}, "pcm16", 16_000),
    ],
)
def test_an_append_may_name_its_own_format(fields: dict[str, Any], encoding: str, rate_hz: int) -> None:
    sound, data = appended_sound(SETTINGS, AppendAudio(audio=bytes(32), **fields))
    assert (sound.encoding, sound.sample_rate_hz, len(data)) == (encoding, rate_hz, 32)


def test_an_append_that_says_nothing_has_the_format_of_the_session() -> None:
    settings = Settings(input_format="g711_alaw", input_rate_hz=11_025)
    sound, _ = appended_sound(settings, AppendAudio(audio=b"\0"))
    assert (sound.encoding, sound.sample_rate_hz) == ("g711_alaw", 11_025)


@pytest.mark.parametrize(
    ("audio", "fields", "code", "param"),
    [
        (b"", {}, "bad_event", "audio"),
        (b"\0", {}, "bad_audio", "audio"),
        (bytes(4801), {}, "bad_audio", "audio"),
        (bytes(6), {"format": "pcm_f32le"}, "bad_audio", "audio"),
        (bytes(4), {"format": "mp3"}, "unsupported_audio_format", "format"),
        (bytes(4), {"format": {"type": "audio/pcm", "rate": 5}}, "unsupported_audio_format", "format"),
        (bytes(4), {"channels": 2}, "unsupported_audio_format", "channels"),
        (bytes(44), {"format": "wav"}, "bad_audio", "audio"),
        (wav(width=1), {"format": "wav"}, "bad_audio", "audio"),
        (wav(channels=2), {"format": "wav"}, "unsupported_audio_format", "channels"),
        (wav(frames=0), {"format": "wav"}, "bad_event", "audio"),
    ],
)
def test_an_append_that_cannot_be_understood_names_its_field(
    audio: bytes, fields: dict[str, Any], code: str, param: str
) -> None:
    with pytest.raises(ProtocolError) as refused:
        appended_sound(SETTINGS, AppendAudio(audio=audio, **fields))
    assert (refused.value.code, refused.value.param) == (code, param)


def test_a_wav_file_is_unwrapped_and_its_own_rate_counts() -> None:
    sound, data = appended_sound(SETTINGS, AppendAudio(audio=wav(), format="wav", sample_rate_hz=8_000))
    assert (sound.encoding, sound.sample_rate_hz, len(data)) == ("pcm16", 24_000, 480)


@pytest.mark.parametrize(
    ("fields", "rms", "speech"),
    [
        ({}, 0.003, True),
        ({}, 0.0029, False),
        ({}, None, True),
        ({"is_speech": False}, 0.9, False),
        ({"is_speech": True, "speech_probability": 0.0}, 0.0, True),
        ({"vad": VadHints(is_speech=False), "speech_probability": 1.0}, 0.9, False),
        ({"vad": VadHints(speech_probability=0.5)}, 0.0, True),
        ({"speech_probability": 0.49}, 0.9, False),
        ({"overlap_silence_rms": 0.5}, 0.4, False),
        ({"overlap_silence_rms": 0.5, "vad": VadHints(silence_rms=0.1)}, 0.4, False),
        ({"vad": VadHints(silence_rms=0.1)}, 0.05, False),
        ({"overlap_silence_rms": -1}, 0.0, True),
    ],
)
def test_the_clients_verdict_counts_before_loudness(fields: dict[str, Any], rms: float | None, speech: bool) -> None:
    assert is_speech(SETTINGS, AppendAudio(audio=bytes(2), **fields), rms) is speech


def test_the_sessions_threshold_holds_where_the_append_names_none() -> None:
    settings = Settings(overlap_silence_rms=0.25)
    assert silence_rms(settings, AppendAudio(audio=bytes(2))) == 0.25
    assert silence_rms(settings, AppendAudio(audio=bytes(2), vad=VadHints(is_speech=True))) == 0.25
