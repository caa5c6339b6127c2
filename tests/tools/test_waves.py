"""WAV files as a caller's voice."""

from __future__ import annotations

import wave
from array import array
from pathlib import Path

import pytest

from duplex_es.tools.errors import ToolError
from duplex_es.tools.waves import Wave, read_wave

pytestmark = pytest.mark.unit


def write(path: Path, samples: list[int], *, channels: int = 1, width: int = 2, rate_hz: int = 16_000) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        file.writeframes(array("h", samples).tobytes())
    return path


def test_a_mono_file_comes_as_it_is_at_its_own_rate(tmp_path: Path) -> None:
    loaded = read_wave(write(tmp_path / "a.wav", [1, -2, 3], rate_hz=22_050))
    assert loaded == Wave(array("h", [1, -2, 3]).tobytes(), 22_050)


def test_two_channels_are_mixed_without_overflow(tmp_path: Path) -> None:
    loaded = read_wave(write(tmp_path / "a.wav", [100, 300, 32_767, 32_767, -32_768, -32_768], channels=2))
    assert array("h", loaded.pcm).tolist() == [200, 32_767, -32_768]


@pytest.mark.parametrize(("width", "rate_hz"), [(1, 16_000), (2, 4_000)])
def test_a_file_of_another_kind_is_refused_in_words(tmp_path: Path, width: int, rate_hz: int) -> None:
    with pytest.raises(ToolError, match="needed is 16-bit PCM"):
        read_wave(write(tmp_path / "a.wav", [0] * 8, width=width, rate_hz=rate_hz))


def test_what_is_no_wav_or_not_there_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"hello")
    for name in ("a.wav", "b.wav"):
        with pytest.raises(ToolError, match="cannot read"):
            read_wave(tmp_path / name)


def test_the_speech_ends_where_the_quiet_tail_begins() -> None:
    speech, tail = [5_000, -5_000] * 4_000, [20, -20] * 4_000
    assert Wave(array("h", speech + tail).tobytes(), 16_000).speech_end_ms() == 500
    assert Wave(array("h", speech).tobytes(), 16_000).speech_end_ms() == 500


def test_a_pause_between_words_is_not_the_end() -> None:
    samples = [5_000] * 1_600 + [0] * 8_000 + [5_000] * 1_600 + [0] * 4_800
    assert Wave(array("h", samples).tobytes(), 16_000).speech_end_ms() == 700


def test_silence_and_nothing_have_no_speech() -> None:
    assert Wave(bytes(6_400), 16_000).speech_end_ms() == 0
    assert Wave(b"", 16_000).speech_end_ms() == 0


def test_silence_is_made_in_the_waves_own_format() -> None:
    assert Wave(b"", 24_000).silence(500) == bytes(24_000)
