"""Formats, durations and WAV files."""

from __future__ import annotations

import wave
from pathlib import Path

import pytest

from duplex_es.client.audio import (
    AudioFormat,
    audio_data_url,
    image_data_url,
    read_pcm16_wav,
    reference_audio_data_url,
    write_pcm16_wav,
)

pytestmark = pytest.mark.unit


def test_a_duration_counts_samples_of_the_encoding() -> None:
    assert AudioFormat("pcm16", 16_000).duration_ms(6_400) == 200
    assert AudioFormat("pcm_f32le", 24_000).duration_ms(96_000) == 1_000
    assert AudioFormat("g711_ulaw", 8_000).duration_ms(80) == 10


def test_a_byte_count_never_cuts_a_sample_in_half() -> None:
    assert AudioFormat("pcm16", 22_050).byte_count(1) == 44
    assert AudioFormat("pcm_f32le", 11_025).byte_count(0.1) == 4


def test_an_encoding_that_cannot_be_measured_is_refused_on_use() -> None:
    with pytest.raises(ValueError, match="opus"):
        AudioFormat("opus", 48_000).duration_ms(8)


def test_a_written_wav_reads_back_to_the_same_samples(tmp_path: Path) -> None:
    pcm = bytes(range(256)) * 4
    write_pcm16_wav(tmp_path / "a.wav", pcm, sample_rate_hz=24_000)
    assert read_pcm16_wav(tmp_path / "a.wav", sample_rate_hz=24_000) == pcm


@pytest.mark.parametrize(("channels", "width", "rate_hz"), [(2, 2, 16_000), (1, 1, 16_000), (1, 2, 8_000)])
def test_a_wav_of_another_shape_is_refused_with_what_it_is(
    tmp_path: Path, channels: int, width: int, rate_hz: int
) -> None:
    with wave.open(str(tmp_path / "b.wav"), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        file.writeframes(b"\0" * 64)
    with pytest.raises(ValueError, match=rf"{channels} channel\(s\), {width * 8} bit, {rate_hz} Hz"):
        read_pcm16_wav(tmp_path / "b.wav")


def test_a_data_url_holds_the_bytes_or_the_file(tmp_path: Path) -> None:
    (tmp_path / "voice.wav").write_bytes(b"RIFF")
    assert audio_data_url(b"RIFF") == "data:audio/wav;base64,UklGRg=="
    assert audio_data_url(tmp_path / "voice.wav", mime="audio/x-wav") == "data:audio/x-wav;base64,UklGRg=="
    assert image_data_url(b"\xff\xd8").startswith("data:image/jpeg;base64,")


def test_a_reference_voice_is_a_file_that_exists_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "voice.wav").write_bytes(b"RIFF")
    assert reference_audio_data_url(None) is None
    assert reference_audio_data_url(str(tmp_path / "voice.wav")) == "data:audio/wav;base64,UklGRg=="
    with pytest.raises(FileNotFoundError, match="nobody"):
        reference_audio_data_url(tmp_path / "nobody.wav")
