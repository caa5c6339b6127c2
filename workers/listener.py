"""Caller audio on its way to the model: any accepted format to mono float32 at the model's rate.

Resampling keeps its state per session, so that there is no click where two appends meet and no drift over hours.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import soxr

from duplex_es.protocol import AppendAudio, AudioFormat, ProtocolError
from duplex_es.protocol.audio import G711_ALAW, G711_ULAW, PCM16, PCM_F32LE
from duplex_es.session.sound import appended_sound
from duplex_es.session.state import Settings

Samples = npt.NDArray[np.float32]


def _ulaw_table() -> Samples:
    """Linear values of the 256 mu-law codes (ITU-T G.711), in [-1, 1]."""
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = ((((code & 0x0F) << 3) + 0x84) << ((code & 0x70) >> 4)) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.float32) / 32768.0


def _alaw_table() -> Samples:
    """Linear values of the 256 A-law codes (ITU-T G.711), in [-1, 1]."""
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment, mantissa = (code & 0x70) >> 4, (code & 0x0F) << 4
    magnitude = np.where(segment == 0, mantissa + 8, (mantissa + 0x108) << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.float32) / 32768.0


_TABLES = {G711_ULAW: _ulaw_table(), G711_ALAW: _alaw_table()}


def decoded(sound: AudioFormat, data: bytes) -> Samples:
    """``data`` as ``(samples,)`` float32 in [-1, 1] at its own rate. Not finite 32-bit floats read as silence."""
    if sound.encoding == PCM16:
        return np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(32768.0)
    if sound.encoding == PCM_F32LE:
        samples = np.frombuffer(data, dtype="<f4").astype(np.float32)
        return np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0)
    return np.asarray(_TABLES[sound.encoding][np.frombuffer(data, dtype=np.uint8)])


def measured_rms(settings: Settings, command: AppendAudio) -> float | None:
    """Root mean square of the append's samples, or ``None`` where nobody needs it or nothing can be read."""
    if command.speech_verdict is not None:
        return None
    try:
        sound, data = appended_sound(settings, command)
    except ProtocolError:
        return None
    samples = decoded(sound, data)
    return math.sqrt(float(np.dot(samples, samples)) / max(1, samples.size))


class Listener:
    """One session's ear: takes appends in order, gives the model's samples. Length-exact over any number of appends."""

    def __init__(self, model_rate_hz: int) -> None:
        self._model_rate_hz = model_rate_hz
        self._stream: soxr.ResampleStream | None = None
        self._stream_rate_hz = 0

    def hear(self, settings: Settings, command: AppendAudio) -> bytes:
        """The append as float32 little-endian at the model's rate; may be empty while the resampler fills.

        Raises: ProtocolError as ``appended_sound``; the session has refused such an append before.
        """
        sound, data = appended_sound(settings, command)
        samples = decoded(sound, data)
        if sound.sample_rate_hz != self._model_rate_hz:
            samples = self._resampled(samples, sound.sample_rate_hz)
        return np.ascontiguousarray(samples, dtype="<f4").tobytes()

    def reset(self) -> None:
        """Forget what is still inside: the client cleared its input."""
        self._stream = None

    def _resampled(self, samples: Samples, rate_hz: int) -> Samples:
        if self._stream is None or self._stream_rate_hz != rate_hz:
            self._stream = soxr.ResampleStream(rate_hz, self._model_rate_hz, 1, dtype="float32")
            self._stream_rate_hz = rate_hz
        return np.asarray(self._stream.resample_chunk(samples), dtype=np.float32)
