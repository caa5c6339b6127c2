"""WAV files as a caller's voice: one channel of 16-bit samples at the file's own rate, and where the speech ends."""

from __future__ import annotations

import sys
import wave
from array import array
from dataclasses import dataclass
from pathlib import Path

from .errors import ToolError

RATES_HZ = range(8_000, 192_001)
WINDOW_MS = 20
# A window is speech when its mean level is above this part of the loudest one; quiet rooms and codec noise lie below.
SPEECH_LEVEL = 0.03


@dataclass(frozen=True, slots=True)
class Wave:
    """``pcm``: mono int16 little-endian at ``sample_rate_hz``."""

    pcm: bytes
    sample_rate_hz: int

    @property
    def duration_ms(self) -> float:
        """How long it sounds."""
        return len(self.pcm) * 1000 / (2 * self.sample_rate_hz)

    def silence(self, duration_ms: float) -> bytes:
        """Silence in this wave's format."""
        return bytes(2 * int(duration_ms * self.sample_rate_hz / 1000))

    def speech_end_ms(self) -> float:
        """Where the last window that is not silence ends; 0 when there is none."""
        samples = _samples(self.pcm)
        size = max(1, self.sample_rate_hz * WINDOW_MS // 1000)
        levels = [sum(map(abs, samples[at : at + size])) / size for at in range(0, len(samples), size)]
        loudest = max(levels, default=0.0)
        if loudest == 0:
            return 0.0
        last = max(index for index, level in enumerate(levels) if level >= SPEECH_LEVEL * loudest)
        return min(self.duration_ms, (last + 1) * WINDOW_MS)


def read_wave(path: Path) -> Wave:
    """The file at ``path``; several channels are mixed. Raises: ToolError for what is not a 16-bit PCM WAV."""
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate_hz = file.getnchannels(), file.getsampwidth(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise ToolError(f"cannot read {path}: {error}") from error
    if width != 2 or rate_hz not in RATES_HZ:
        raise ToolError(f"{path} is {width * 8} bit at {rate_hz} Hz; needed is 16-bit PCM at 8 to 192 kHz")
    return Wave(raw if channels == 1 else _mixed(raw, channels), rate_hz)


def _mixed(raw: bytes, channels: int) -> bytes:
    samples = _samples(raw)
    mixed = array("h", (sum(frame) // channels for frame in zip(*[iter(samples)] * channels, strict=False)))
    if sys.byteorder == "big":
        mixed.byteswap()
    return mixed.tobytes()


def _samples(pcm: bytes) -> array[int]:
    samples = array("h", pcm[: len(pcm) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    return samples
