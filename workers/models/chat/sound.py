"""Audio of a chat server: checked against what it says of itself, as mono 16-bit samples."""

from __future__ import annotations

import binascii
import io
import wave
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from duplex_es.protocol import ProtocolError, read_wav
from duplex_es.protocol.audio import MAX_RATE_HZ, MIN_RATE_HZ, PCM16


class SoundUnusable(Exception):
    """The audio cannot be played: its metadata is missing or wrong, or the rate changed within an answer."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a server says of one piece: ``frame_count`` samples per channel, not bytes."""

    format: str
    sample_rate_hz: int
    frame_count: int
    channels: int

    @classmethod
    def read(cls, said: object) -> Metadata:
        """From the wire's object. Raises: SoundUnusable naming the field."""
        if not isinstance(said, Mapping):
            raise SoundUnusable("the server sent audio without audio_metadata")
        kind = said.get("format")
        if kind not in ("pcm", "pcm16", "wav"):
            raise SoundUnusable(f"audio_metadata.format is {kind!r:.40}; pcm and wav can be played")
        return cls(
            "wav" if kind == "wav" else "pcm",
            _whole(said, "sample_rate_hz", MIN_RATE_HZ, MAX_RATE_HZ),
            _whole(said, "frame_count", 0, 2**40),
            _whole(said, "channels", 1, 64),
        )


def _whole(said: Mapping[str, object], name: str, least: int, most: int) -> int:
    value = said.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SoundUnusable(f"audio_metadata.{name} is {value!r:.40}; it is a whole number from {least} to {most}")
    return value


class SoundReader:
    """Reads the pieces of one answer. ``rate_hz`` is the answer's, once there was a piece."""

    def __init__(self, *, assumed_rate_hz: int | None) -> None:
        """``assumed_rate_hz`` stands in for metadata that is missing; ``None``: it must not be missing."""
        self._assumed_rate_hz = assumed_rate_hz
        self.rate_hz: int | None = None

    def read(self, data: str, said: object) -> bytes:
        """One piece of base64 as mono int16 little-endian; empty for an empty piece. Raises: SoundUnusable."""
        try:
            sound = b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise SoundUnusable("the server's audio is no base64") from error
        if not sound:
            return b""
        rate_hz, pcm = self._samples(sound, said)
        if self.rate_hz not in (None, rate_hz):
            raise SoundUnusable(f"the sample rate changed from {self.rate_hz} to {rate_hz} Hz within one answer")
        self.rate_hz = rate_hz
        return pcm

    def _samples(self, sound: bytes, said: object) -> tuple[int, bytes]:
        if said is None and self._assumed_rate_hz is not None:
            return self._assumed(sound, self._assumed_rate_hz)
        metadata = Metadata.read(said)
        if metadata.format == "wav":
            rate_hz, channels, pcm = _unwrapped(sound)
            if (rate_hz, channels) != (metadata.sample_rate_hz, metadata.channels):
                raise SoundUnusable(f"audio_metadata disagrees with the WAV header ({rate_hz} Hz, {channels} channels)")
        else:
            rate_hz, channels, pcm = metadata.sample_rate_hz, metadata.channels, sound
        if len(pcm) != metadata.frame_count * channels * 2:
            rule = f"audio_metadata.frame_count is {metadata.frame_count}, but there are {len(pcm)} bytes of sound"
            raise SoundUnusable(rule)
        return rate_hz, _mono(pcm, channels)

    @staticmethod
    def _assumed(sound: bytes, rate_hz: int) -> tuple[int, bytes]:
        if sound.startswith(b"RIFF"):
            rate_hz, channels, pcm = _unwrapped(sound)
            return rate_hz, _mono(pcm, channels)
        if len(sound) % 2:
            raise SoundUnusable(f"{len(sound)} bytes are no 16-bit samples")
        return rate_hz, sound


def _unwrapped(sound: bytes) -> tuple[int, int, bytes]:
    try:
        found, channels, pcm = read_wav(sound)
    except ProtocolError as error:
        raise SoundUnusable(error.message) from error
    if found.encoding != PCM16:
        raise SoundUnusable(f"the WAV file holds {found.encoding}; 16-bit samples can be played")
    return found.sample_rate_hz, channels, pcm


def _mono(pcm: bytes, channels: int) -> bytes:
    if channels == 1:
        return pcm
    frames = np.frombuffer(pcm, "<i2").reshape(-1, channels)
    return np.rint(frames.mean(axis=1)).astype("<i2").tobytes()


def wav_file(pcm: bytes, rate_hz: int) -> bytes:
    """Mono int16 samples as a WAV file."""
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(pcm)
    return made.getvalue()
