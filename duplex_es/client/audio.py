"""Raw audio as the client handles it: formats, durations, and mono 16-bit WAV files.

``wave`` is imported where files are: a client that only talks starts faster without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pybase64

BYTES_PER_SAMPLE = {"pcm16": 2, "pcm_f32le": 4, "g711_ulaw": 1, "g711_alaw": 1}
PCM16_SAMPLE_RATE = 16_000
PCM16_BYTES_PER_SAMPLE = 2


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """One channel of ``pcm16``, ``pcm_f32le``, ``g711_ulaw`` or ``g711_alaw`` at ``sample_rate_hz``.

    Another encoding is a ValueError on use.
    """

    encoding: str = "pcm16"
    sample_rate_hz: int = PCM16_SAMPLE_RATE

    @property
    def bytes_per_sample(self) -> int:
        """4, 2 or 1. Raises: ValueError for an encoding this client cannot measure."""
        if size := BYTES_PER_SAMPLE.get(self.encoding):
            return size
        raise ValueError(f"{self.encoding!r} is not one of {sorted(BYTES_PER_SAMPLE)}")

    def duration_ms(self, size_bytes: int) -> float:
        """How long ``size_bytes`` of this audio last."""
        return size_bytes * 1000 / (self.bytes_per_sample * self.sample_rate_hz)

    def byte_count(self, duration_ms: float) -> int:
        """The bytes of whole samples that fit into ``duration_ms``."""
        return int(duration_ms * self.sample_rate_hz / 1000) * self.bytes_per_sample


def read_pcm16_wav(path: str | Path, *, sample_rate_hz: int = PCM16_SAMPLE_RATE) -> bytes:
    """The samples of a WAV file, little-endian.

    Raises: ValueError unless it is mono, 16 bit, uncompressed and of that rate.
    """
    import wave

    with wave.open(str(path), "rb") as file:
        found = (file.getnchannels(), file.getsampwidth() * 8, file.getframerate(), file.getcomptype())
        if found != (1, 16, sample_rate_hz, "NONE"):
            channels, bits, rate_hz, _ = found
            raise ValueError(
                f"{path}: {channels} channel(s), {bits} bit, {rate_hz} Hz; needed is mono 16 bit at {sample_rate_hz} Hz"
            )
        return file.readframes(file.getnframes())


def write_pcm16_wav(path: str | Path, pcm: bytes, *, sample_rate_hz: int) -> None:
    """Write mono 16-bit little-endian samples as a WAV file, replacing what was there."""
    import wave

    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(PCM16_BYTES_PER_SAMPLE)
        file.setframerate(sample_rate_hz)
        file.writeframes(pcm)


def audio_data_url(data: bytes | Path, *, mime: str = "audio/wav") -> str:
    """A data URL of a sound file, as ``ref_audio`` takes it. Raises: OSError when a path cannot be read."""
    return _data_url(data, mime)


def image_data_url(data: bytes | Path, *, mime: str = "image/jpeg") -> str:
    """A data URL of a picture, as ``video_frames`` take it. Raises: OSError when a path cannot be read."""
    return _data_url(data, mime)


def reference_audio_data_url(path: str | Path | None) -> str | None:
    """The data URL of a voice to imitate; ``None`` for ``None``. Raises: FileNotFoundError."""
    if path is None:
        return None
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(f"there is no reference audio at {file}")
    return audio_data_url(file)


def _data_url(data: bytes | Path, mime: str) -> str:
    content = data.read_bytes() if isinstance(data, Path) else data
    return f"data:{mime};base64,{pybase64.b64encode(content).decode()}"
