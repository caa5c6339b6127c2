"""An answer that goes on: what the new worker's model gives again is held against what the caller has had, and

swallowed as far as that goes. Pure: signals in, signals out.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from duplex_es.model import (
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    Signal,
)
from duplex_es.protocol import audio
from duplex_es.session.calls import known_call
from duplex_es.session.inputs import AnswerDiverged, SpeechReady
from duplex_es.session.state import Session, replace

Heard = Signal | SpeechReady
Goes = Heard | AnswerDiverged


class _Said(NamedTuple):
    """One piece of sound, whichever way it came."""

    data: bytes
    samples: int
    text: str
    rate_hz: int
    format: str


class Continuation:
    """One answer, given again from its beginning. Takes everything the model signals, in order, once it is converted.

    No sample, word or call leaves twice, and none is missing, however the two workers cut the answer into pieces. An
    answer that is not the same as far as the caller knows it comes to one ``AnswerDiverged``, and to nothing else.
    """

    def __init__(self, session: Session, turn: int, *, model_rate_hz: int, unheard: int = 0) -> None:
        """``session`` is as it was left; of its last audio, ``unheard`` bytes never reached the log."""
        live = session.response if session.response is not None and session.response.turn == turn else None
        item = session.item(live.item_id) if live is not None else None
        self.is_over = False
        self._turn, self._epoch = turn, session.epoch
        self._response_id = live.id if live is not None else None
        self._model_rate_hz = model_rate_hz
        self._size, self._crc = (live.size, live.crc) if live is not None else (0, 0)
        self._samples = live.samples if live is not None else 0
        self._transcript, self._text = (item.transcript, item.text) if item is not None else ("", "")
        self._unheard = min(unheard, self._size)
        self._seen_size = self._seen_crc = self._seen_samples = 0
        self._seen_transcript = self._seen_text = ""
        self._late = b""

    @property
    def is_catching_up(self) -> bool:
        """Whether the caller has had all that was given again so far."""
        behind = (len(self._seen_transcript) < len(self._transcript), len(self._seen_text) < len(self._text))
        return not self.is_over and (self._seen_size < self._size or any(behind))

    def take(self, session: Session, heard: Heard) -> list[Goes]:
        """What of ``heard`` the session has still to decide on; ``session`` is as it is now."""
        live = session.response
        if self._response_id is not None and (live is None or live.id != self._response_id):
            self.is_over = True  # It was cut meanwhile.
        if self.is_over or heard.epoch != self._epoch or getattr(heard, "turn", self._turn) != self._turn:
            return [heard]
        match heard:
            case ModelSpoke():
                return []
            case ModelCalledFunction(call_id=call_id):
                known = bool(call_id) and known_call(session, call_id) is not None
                return [] if known or self.is_catching_up else [heard]
            case ModelProducedAudio() | SpeechReady():
                aloud = live is None or "audio" in live.modalities
                return self._sound(heard) if aloud else self._written(heard.text)
            case ModelProducedText(text=text):
                return self._written(text)
            case ModelFinished() | ModelFailed():
                if self.is_catching_up and not getattr(heard, "fatal", False):
                    return self._diverged()
                self.is_over = True
        return [heard]

    def _diverged(self) -> list[Goes]:
        self.is_over = True
        return [] if self._response_id is None else [AnswerDiverged(self._response_id)]

    def _sound(self, heard: ModelProducedAudio | SpeechReady) -> list[Goes]:
        said = self._piece(heard)
        before, self._seen_size = self._seen_size, self._seen_size + len(said.data)
        self._seen_samples += said.samples
        had = max(0, min(self._size - before, len(said.data)))
        self._seen_crc = crc32(said.data[:had], self._seen_crc)
        self._late = (self._late + said.data[:had])[-self._unheard :] if self._unheard else b""
        words = self._new_words(said.text)
        cut = 0 < had < len(said.data)
        differs = (before < self._size <= self._seen_size and self._seen_crc != self._crc) or words is None
        if differs or (cut and said.format == audio.WAV):
            return self._diverged()
        late = self._owed(said) if self._seen_size >= self._size else []
        if not had:
            return [*late, heard if words == said.text else replace(heard, text=words)]
        samples = max(0, min(said.samples, self._seen_samples - self._samples))
        if had == len(said.data) and not words and not samples:
            return late
        rest = said._replace(data=said.data[had:], samples=samples, text=words or "")
        return [*late, self._as_it_came(heard, rest)]

    def _piece(self, heard: ModelProducedAudio | SpeechReady) -> _Said:
        if isinstance(heard, SpeechReady):
            return _Said(heard.audio, heard.samples, heard.text, heard.rate_hz, heard.format)
        return _Said(heard.pcm, len(heard.pcm) // 2, heard.text, heard.rate_hz or self._model_rate_hz, audio.PCM16)

    @staticmethod
    def _as_it_came(heard: ModelProducedAudio | SpeechReady, said: _Said) -> Heard:
        if isinstance(heard, SpeechReady):
            return replace(heard, audio=said.data, samples=said.samples, text=said.text)
        return replace(heard, pcm=said.data, text=said.text)

    def _owed(self, said: _Said) -> list[Goes]:
        """The sound that was counted but never written: it goes out now, without being counted again."""
        late, self._late, self._unheard = self._late, b"", 0
        if not late:
            return []
        return [
            SpeechReady(
                epoch=self._epoch,
                turn=self._turn,
                samples=0,
                model_rate_hz=self._model_rate_hz,
                audio=late,
                format=said.format,
                rate_hz=said.rate_hz,
            )
        ]

    def _new_words(self, text: str) -> str | None:
        """What of ``text`` the caller has not had; ``None`` when it is other words."""
        before, self._seen_transcript = self._seen_transcript, self._seen_transcript + text
        return _beyond(self._transcript, before, self._seen_transcript)

    def _written(self, text: str) -> list[Goes]:
        before, self._seen_text = self._seen_text, self._seen_text + text
        words = _beyond(self._text, before, self._seen_text)
        if words is None:
            return self._diverged()
        return [ModelProducedText(epoch=self._epoch, turn=self._turn, text=words)] if words else []


def _beyond(had: str, before: str, now: str) -> str | None:
    """The words that lead from ``before`` to ``now`` and lie beyond ``had``; ``None`` if the two do not agree."""
    if not now.startswith(had[: len(now)]):
        return None
    return now[max(len(before), len(had)) :]
