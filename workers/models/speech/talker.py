"""The one voice behind the contract of an engine that is asked turn by turn: a clause in, its sound piece by piece.

Runs in a process of its own; ``make`` is its factory. A turn is asked with ``text``; what it gives is int16 at
22,050 Hz, 80 ms at a time, each piece with the words that begin in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import soxr

from workers.engine.contract import EngineFacts
from workers.engine.turns import TurnPiece

from ..pcm import int16_bytes, samples_in
from . import tts
from .words import spread

RATE_HZ = 22_050
PIECE_MS = 80
SLOTS = 16
"""Four times as many clauses may wait: one of each session that any engine has room for."""


class Talker:
    """Says each clause as a whole: the same text is always the same samples, so one that broke off goes on exactly."""

    def __init__(self) -> None:
        self.facts = EngineFacts(
            name=tts.Voice.name,
            frame_ms=PIECE_MS,
            input_rate_hz=RATE_HZ,
            output_rate_hz=RATE_HZ,
            slots=SLOTS,
            window_frames=0,
            memory_bytes=0,
        )
        self._voice: tts.Voice | None = None
        self._pieces: dict[int, deque[TurnPiece]] = {}

    def load(self) -> None:
        """Load the voice and warm it up. Raises: CascadePartMissing naming what to install."""
        self._voice = tts.Voice()
        self._voice.warm_up()

    def ask(self, slot: int, asked: Mapping[str, Any], sounds: Sequence[bytes], memory: bytes) -> Iterator[None]:
        """See ``TurnEngine``; what was told of it already is left out."""
        if self._voice is None:
            raise RuntimeError("the voice is not loaded")
        text = str(asked["text"])
        samples = self._voice.say(text.strip())
        if len(samples):
            samples = np.asarray(soxr.resample(samples, tts.RATE_HZ, RATE_HZ), np.float32)
        known_chars, known_bytes = asked.get("told", (0, 0))
        pieces: deque[TurnPiece] = deque()
        for piece, words in spread(text, samples, samples_in(PIECE_MS, RATE_HZ)):
            pcm = int16_bytes(piece)
            left, said = pcm[known_bytes:], words[known_chars:]
            known_bytes, known_chars = max(0, known_bytes - len(pcm)), max(0, known_chars - len(words))
            if left or said:
                pieces.append(_piece(left, said))
        self._pieces[slot] = pieces
        yield

    def step(self, slots: Sequence[int]) -> list[TurnPiece]:
        """The next piece of each turn; an empty one ends it."""
        return [self._next(slot) for slot in slots]

    def drop(self, slot: int) -> None:
        """Forget a turn. Idempotent."""
        self._pieces.pop(slot, None)

    def _next(self, slot: int) -> TurnPiece:
        pieces = self._pieces[slot]
        return pieces.popleft() if pieces else TurnPiece(ends="stop")


def _piece(pcm: bytes, text: str) -> TurnPiece:
    said = {"format": "pcm", "sample_rate_hz": RATE_HZ, "frame_count": len(pcm) // 2, "channels": 1}
    return TurnPiece(text=text, pcm=pcm, audio_metadata=said if pcm else None)


def make(options: Mapping[str, str]) -> Talker:
    """The talker. Raises: ValueError for any option: it has none."""
    if options:
        raise ValueError(f"the speech option {sorted(options)[0]!r} is unknown; the voice has none")
    return Talker()
