"""The model's speech on its way to the client: from int16 at the model's rate to the sound the client asked for.

What stands in the log is what the client hears, so all conversion happens before a decision. PCM at the model's own
rate passes untouched. Resampling keeps its state over one answer: no click where two pieces meet, and the last piece
brings out what the converter still held.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import soxr

from duplex_es.model import ModelFailed, ModelFinished, ModelProducedAudio, ModelSpoke, Signal
from duplex_es.protocol import AudioFormat, audio
from duplex_es.session.inputs import SpeechReady
from duplex_es.session.state import Response, Session, Settings

from . import g711

LONGEST_PIECE_MS = 2_000
"""No delta holds more: in base64, at 48 kHz, that is still a frame of a quarter of a mebibyte."""
G711_RATE_HZ = 8_000
G711_FRAME_SAMPLES = 160
"""Telephony counts in frames of 20 ms: every G.711 delta is a whole number of them, the last is filled with silence."""

Linear = npt.NDArray[np.int16]
Heard = Signal | SpeechReady


def wanted_sound(settings: Settings, model_rate_hz: int, response: Response | None = None) -> AudioFormat:
    """The sound the client hears: its format, at the rate it declared, else at the model's.

    What was asked for this one ``response`` goes before the session's. G.711 is always 8 kHz. WAV is PCM16 in a file
    per delta, each playable by itself.
    """
    encoding, rate_hz = settings.output_format, settings.output_rate_hz
    if response is not None and response.output_format is not None:
        encoding, rate_hz = response.output_format, response.output_rate_hz
    if encoding in (audio.G711_ULAW, audio.G711_ALAW):
        return AudioFormat(encoding, G711_RATE_HZ)
    return AudioFormat(encoding, rate_hz or model_rate_hz)


class Voice:
    """One session's voice. Takes what the model signals, in order, and gives what the session is to decide on."""

    def __init__(self, model_rate_hz: int) -> None:
        self._model_rate_hz = model_rate_hz
        self._speech: _Speech | None = None

    def take(self, session: Session, signal: Signal) -> list[Heard]:
        """``signal`` as the session takes it in: as it is, in another sound, or behind the rest of the answer before.

        An empty list: the converter still holds all of it. Speech that the session drops anyway is not converted.
        """
        if isinstance(signal, ModelProducedAudio):
            return self._spoken(session, signal)
        if isinstance(signal, ModelFinished | ModelFailed | ModelSpoke):
            return [*self._rest(session), signal]
        return [signal]

    def _spoken(self, session: Session, signal: ModelProducedAudio) -> list[Heard]:
        answer = (signal.epoch, signal.turn)
        if "audio" not in _wanted(session, answer):
            return [signal]
        rate_hz = signal.rate_hz or self._model_rate_hz
        if self._speech is None or self._speech.answer != answer:
            sound = wanted_sound(session.settings, rate_hz, session.response)
            self._speech = _Speech(answer, rate_hz, sound)
        pieces = _pieces(signal, rate_hz)
        if self._speech.is_native:
            return list(pieces)
        made = [self._speech.add(piece) for piece in pieces]
        return [ready for ready in made if ready is not None]

    def _rest(self, session: Session) -> list[Heard]:
        speech, self._speech = self._speech, None
        if speech is None or not _wanted(session, speech.answer):
            return []
        rest = speech.rest()
        return [] if rest is None else [rest]


def _wanted(session: Session, answer: tuple[int, int]) -> tuple[str, ...]:
    """How the session wants to have the model's turn ``answer`` (epoch and turn); empty when it drops it."""
    live, begun = session.response, session.begun
    turns = [known.turn for known in (live, begun) if known is not None]
    if session.state != "open" or answer[0] != session.epoch or answer[1] not in turns:
        return ()
    return session.settings.modalities if live is None else live.modalities


def _pieces(signal: ModelProducedAudio, rate_hz: int) -> Sequence[ModelProducedAudio]:
    """``signal`` in pieces that fit a frame; the words ride on the last, whose end is theirs."""
    most = LONGEST_PIECE_MS * rate_hz // 1000 * 2
    if len(signal.pcm) <= most:
        return (signal,)
    cuts = range(0, len(signal.pcm), most)
    last = cuts[-1]
    return [
        msgspec.structs.replace(signal, pcm=signal.pcm[at : at + most], text=signal.text if at == last else "")
        for at in cuts
    ]


class _Speech:
    """One answer on its way: what was taken from the model and not given out yet."""

    def __init__(self, answer: tuple[int, int], rate_hz: int, sound: AudioFormat) -> None:
        self.answer = answer
        self._rate_hz = rate_hz
        self._sound = sound
        self._stream: soxr.ResampleStream | None = None
        if sound.sample_rate_hz != rate_hz:
            # The variable-rate engine holds back less than the block-wise one, and always the same.
            self._stream = soxr.ResampleStream(rate_hz, sound.sample_rate_hz, 1, dtype="float32", vr=True)
        self._unframed: Linear = np.zeros(0, np.int16)
        self._samples = 0
        self._text = ""

    @property
    def is_native(self) -> bool:
        """True when the client hears the model's samples as they are."""
        return self._stream is None and self._sound.encoding == audio.PCM16

    def add(self, piece: ModelProducedAudio) -> SpeechReady | None:
        """The next piece, ``None`` while there is nothing to hear of it yet."""
        self._samples += len(piece.pcm) // 2
        self._text += piece.text
        return self._ready(self._encoded(self._resampled(np.frombuffer(piece.pcm, "<i2")), last=False))

    def rest(self) -> SpeechReady | None:
        """What is still held, to its last sample; ``None`` when that is nothing."""
        held: Linear = np.zeros(0, np.int16)
        return self._ready(self._encoded(self._resampled(held, last=True), last=True), last=True)

    def _ready(self, sound: bytes, *, last: bool = False) -> SpeechReady | None:
        if not sound and not (last and (self._text or self._samples)):
            return None
        samples, text = self._samples, self._text
        self._samples, self._text = 0, ""
        epoch, turn = self.answer
        return SpeechReady(
            epoch=epoch,
            turn=turn,
            samples=samples,
            model_rate_hz=self._rate_hz,
            audio=sound,
            format=self._sound.encoding,
            rate_hz=self._sound.sample_rate_hz,
            text=text,
        )

    def _resampled(self, samples: Linear, *, last: bool = False) -> Linear:
        if self._stream is None:
            return samples
        made = self._stream.resample_chunk(samples.astype(np.float32), last=last)
        return np.clip(np.rint(made), -32_768, 32_767).astype(np.int16)

    def _encoded(self, samples: Linear, *, last: bool) -> bytes:
        match self._sound.encoding:
            case audio.WAV:
                return wav_file(samples, self._sound.sample_rate_hz) if samples.size else b""
            case audio.G711_ULAW | audio.G711_ALAW as law:
                return self._framed(law, samples, last=last)
        return samples.astype("<i2", copy=False).tobytes()

    def _framed(self, law: str, samples: Linear, *, last: bool) -> bytes:
        held = np.concatenate([self._unframed, samples])
        whole = len(held) - len(held) % G711_FRAME_SAMPLES
        self._unframed = held[whole:]
        codes = g711.encode(law, held[:whole])
        if last and self._unframed.size:
            codes += g711.encode(law, self._unframed)
            codes += bytes([g711.SILENCE[law]]) * (G711_FRAME_SAMPLES - self._unframed.size)
        return codes


def wav_file(samples: Linear, rate_hz: int) -> bytes:
    """Mono 16-bit ``samples`` as a complete RIFF/WAVE file."""
    data = samples.astype("<i2", copy=False).tobytes()
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate_hz, rate_hz * 2, 2, 16, b"data", len(data)),
    )
    return header + data
