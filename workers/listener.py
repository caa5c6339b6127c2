"""Caller audio on its way to the model: any accepted format to mono float32 at the model's rate.

Resampling keeps its state per session, so that there is no click where two appends meet and no drift over hours.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soxr
from msgspec import UNSET

from duplex_es.protocol import AppendAudio, AudioFormat, ProtocolError, decode_base64
from duplex_es.protocol.audio import PCM16, PCM_F32LE
from duplex_es.session.sound import appended_sound
from duplex_es.session.state import Settings

from . import g711

Samples = npt.NDArray[np.float32]

_PCM16_STEP = np.float32(1 / 32768)
_log = logging.getLogger(__name__)
_NOTHING: Samples = np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """One append, decoded once for all who need it.

    ``samples`` is ``(samples,)`` float32 in [-1, 1] at ``rate_hz``, the append's own rate. ``rms`` is their root mean
    square, ``None`` where the client's own verdict makes it pointless. ``frames`` are the pictures that came with it,
    as the client wrote them: bare base64.
    """

    samples: Samples
    rate_hz: int
    rms: float | None
    frames: tuple[str, ...] = ()


def decoded(sound: AudioFormat, data: bytes) -> Samples:
    """``data`` as ``(samples,)`` float32 in [-1, 1] at its own rate.

    32-bit floats beyond that range are clipped, those that are no number read as silence.
    """
    if sound.encoding == PCM16:
        return np.multiply(np.frombuffer(data, dtype="<i2"), _PCM16_STEP, dtype=np.float32)
    if sound.encoding == PCM_F32LE:
        samples = np.clip(np.frombuffer(data, dtype="<f4"), np.float32(-1.0), np.float32(1.0))
        return np.nan_to_num(samples, copy=False, nan=0.0).astype(np.float32, copy=False)
    return np.multiply(g711.decode(sound.encoding, data), _PCM16_STEP, dtype=np.float32)


def hear(settings: Settings, command: AppendAudio) -> Heard | None:
    """What an append holds, or ``None`` when it cannot be read; the session refuses it by the same rules."""
    try:
        sound, data = appended_sound(settings, command)
    except ProtocolError:
        return None
    samples = decoded(sound, data)
    rms = loudness(samples) if command.speech_verdict is None else None
    given = [] if command.video_frames is UNSET else command.video_frames
    return Heard(samples, sound.sample_rate_hz, rms, tuple(frame for frame in given if frame is not None))


def pictures(heard: Heard) -> Iterator[bytes]:
    """The pictures that came with ``heard``; one that is no base64 after all is left out."""
    for frame in heard.frames:
        try:
            yield decode_base64(frame)
        except ValueError:
            _log.warning("a picture of %d characters is no base64 and is left out", len(frame))


def loudness(samples: Samples) -> float | None:
    """The root mean square of ``samples``, ``None`` for none."""
    return math.sqrt(float(np.dot(samples, samples)) / samples.size) if samples.size else None


class Listener:
    """One session's ear: takes appends in order, gives the model's samples.

    Length-exact over any number of appends: what came out, and what ``rest`` would give, is what came in, to less than
    one sample. The resampler holds back the newest 10 ms (from 24 kHz) to 30 ms (from 8 kHz); ``rest`` gives them out.
    """

    def __init__(self, model_rate_hz: int) -> None:
        self._model_rate_hz = model_rate_hz
        self._stream: soxr.ResampleStream | None = None
        self._stream_rate_hz = 0

    def begins_anew(self, heard: Heard) -> bool:
        """Whether what ``heard`` gives depends on nothing that was heard before it."""
        is_native = heard.rate_hz == self._model_rate_hz
        return is_native or self._stream is None or self._stream_rate_hz != heard.rate_hz

    def at_model_rate(self, heard: Heard) -> bytes:
        """The append as float32 little-endian at the model's rate; may be empty while the resampler fills."""
        if heard.rate_hz == self._model_rate_hz:
            self._stream = None
            return heard.samples.astype("<f4", copy=False).tobytes()
        if self._stream is None or self._stream_rate_hz != heard.rate_hz:
            # The variable-rate engine holds back less than the block-wise one, and always the same.
            self._stream = soxr.ResampleStream(heard.rate_hz, self._model_rate_hz, 1, dtype="float32", vr=True)
            self._stream_rate_hz = heard.rate_hz
        return self._resampled(self._stream, heard.samples)

    def rest(self) -> bytes:
        """The audio still held back, as float32 at the model's rate: the caller's turn ends here."""
        stream, self._stream = self._stream, None
        return b"" if stream is None else self._resampled(stream, _NOTHING, last=True)

    def reset(self) -> None:
        """Forget what is still inside: the client cleared its input."""
        self._stream = None

    @staticmethod
    def _resampled(stream: soxr.ResampleStream, samples: Samples, *, last: bool = False) -> bytes:
        return np.asarray(stream.resample_chunk(samples, last=last)).astype("<f4", copy=False).tobytes()
