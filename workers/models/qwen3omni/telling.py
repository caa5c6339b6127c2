"""One answer on its way from the engine to the session."""

from __future__ import annotations

import hashlib

from duplex_es.model import HistoryItem
from workers.engine.turns import TurnPiece

from ..floor import Answer
from ..pcm import samples_in

PIECE_MS = 200


class SoundUnusable(Exception):
    """The audio cannot be played: what it says of itself is missing or wrong, or the rate changed within an answer."""


class Telling:
    """Says the pieces of one answer in their time; ``name`` is what its calls are numbered under."""

    def __init__(self, answer: Answer, name: str) -> None:
        self._answer = answer
        self._name = name
        self._untold = ""
        self._rate_hz: int | None = None
        self._calls: list[HistoryItem] = []

    async def tell(self, piece: TurnPiece, *, aloud: bool) -> None:
        """Signal one piece, when its time has come. Words go with the sound they came with, or with the next one.

        Raises: SoundUnusable, AnswerCut.
        """
        self._untold += piece.text
        if piece.pcm:
            rate_hz = self._rate_hz = rate_of(piece, self._rate_hz)
            step = samples_in(PIECE_MS, rate_hz) * 2
            for at in range(0, len(piece.pcm), step):
                text, self._untold = self._untold, ""
                await self._answer.say(piece.pcm[at : at + step], text, rate_hz=rate_hz)
        if self._untold and (piece.ends or not aloud):
            text, self._untold = self._untold, ""
            self._answer.write(text)
        if piece.ends:
            self._finish(piece)

    def _finish(self, piece: TurnPiece) -> None:
        for number, call in enumerate(piece.calls):
            call_id = f"call_{hashlib.blake2b(f'{self._name}:{number}'.encode(), digest_size=8).hexdigest()}"
            self._answer.call(call_id, call.name, call.arguments)
            if call.name is not None:
                item = HistoryItem(
                    item_id=self._name, role="assistant", text=call.arguments, call_id=call_id, name=call.name
                )
                self._calls.append(item)
        self._answer.finish(input_tokens=piece.input_tokens, output_tokens=piece.output_tokens)

    def said(self) -> list[HistoryItem]:
        """What the session remembers of it, however it ended."""
        return [HistoryItem(item_id=self._name, role="assistant", text=self._answer.text), *self._calls]


def rate_of(piece: TurnPiece, before_hz: int | None) -> int:
    """The rate of a piece with sound, by its ``audio_metadata``. Raises: SoundUnusable naming the field."""
    said = piece.audio_metadata
    if said is None:
        raise SoundUnusable("the engine gave audio without audio_metadata")
    if said.get("format") != "pcm":
        raise SoundUnusable(f"audio_metadata.format is {said.get('format')!r:.40}; pcm can be played")
    if said.get("channels") != 1:
        raise SoundUnusable(f"audio_metadata.channels is {said.get('channels')!r:.40}; one can be played")
    if said.get("frame_count") != len(piece.pcm) // 2:
        rule = f"but there are {len(piece.pcm)} bytes of sound"
        raise SoundUnusable(f"audio_metadata.frame_count is {said.get('frame_count')!r:.40}, {rule}")
    rate_hz = said.get("sample_rate_hz")
    if not isinstance(rate_hz, int) or rate_hz <= 0:
        raise SoundUnusable(f"audio_metadata.sample_rate_hz is {rate_hz!r:.40}; it is a whole number above 0")
    if before_hz not in (None, rate_hz):
        raise SoundUnusable(f"the sample rate changed from {before_hz} to {rate_hz} Hz within one answer")
    return rate_hz
