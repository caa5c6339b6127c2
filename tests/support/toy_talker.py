"""A turn engine that speaks without a voice: every word of a clause is two frames of one level, piece by piece."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workers.engine.contract import EngineFacts
from workers.engine.turns import TurnPiece

RATE_HZ = 22_050
WORD_SAMPLES = 2 * RATE_HZ * 20 // 1000


class ToyTalker:
    """The word ``sick`` fails its clause, ``stuck`` hangs the process.

    The option ``rate_hz`` is what it says that it speaks at.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.facts = EngineFacts(
            name="toy talker",
            frame_ms=20,
            input_rate_hz=RATE_HZ,
            output_rate_hz=int(options.get("rate_hz", RATE_HZ)),
            slots=4,
            window_frames=0,
            memory_bytes=0,
        )
        self._left: dict[int, deque[TurnPiece]] = {}

    def load(self) -> None:
        pass

    def ask(self, slot: int, asked: Mapping[str, Any], sounds: Sequence[bytes], memory: bytes) -> Iterator[None]:
        if "stuck" in asked["text"]:
            time.sleep(3600)
        if "sick" in asked["text"]:
            raise ValueError("told to fail")
        told_chars, told_bytes = asked.get("told", (0, 0))
        pieces: deque[TurnPiece] = deque()
        for word in re.findall(r"\s*\S+\s*", asked["text"]):
            pcm, text = sound_of(word)[told_bytes:], word[told_chars:]
            told_bytes = max(0, told_bytes - WORD_SAMPLES * 2)
            told_chars = max(0, told_chars - len(word))
            if pcm:
                pieces.append(_piece(pcm, text))
        self._left[slot] = pieces
        yield

    def step(self, slots: Sequence[int]) -> list[TurnPiece]:
        return [self._left[slot].popleft() if self._left[slot] else TurnPiece(ends="stop") for slot in slots]

    def drop(self, slot: int) -> None:
        self._left.pop(slot, None)


def sound_of(word: str) -> bytes:
    """What a word sounds like: its length, for two frames."""
    return np.full(WORD_SAMPLES, 100 + len(word.strip()), np.int16).tobytes()


def _piece(pcm: bytes, text: str) -> TurnPiece:
    said = {"format": "pcm", "sample_rate_hz": RATE_HZ, "frame_count": len(pcm) // 2, "channels": 1}
    return TurnPiece(text=text, pcm=pcm, audio_metadata=said)


def make(options: Mapping[str, str]) -> ToyTalker:
    """The talker."""
    return ToyTalker(options)
