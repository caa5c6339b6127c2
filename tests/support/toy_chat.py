"""A turn engine that speaks without a model: for plug-ins that ask one. Each letter of an answer is 80 ms of a tone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.toy_turns import ToyTurns
from workers.engine.turns import TurnPiece

LETTER_SAMPLES = 1920


class ToyChat(ToyTurns):
    """It answers ``so: `` and the newest text, or how many samples it heard; ``crash`` ends the process in the middle.

    ``wrong`` breaks what the sound says of itself, ``light`` calls a tool.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({"slots": "2"})
        self._weights = options["weights"]

    def ask(self, slot: int, asked: Mapping[str, Any], sounds: Sequence[bytes], memory: bytes) -> Iterator[None]:
        newest = asked["messages"][-1] if asked["messages"] else {"text": ""}
        words = newest["text"]
        if "sound" in newest:
            words += f"{len(sounds[newest['sound']]) // 2} samples"
        said = {"say": f"so: {words}", "calls": ["light"] if "light" in words else []}
        return super().ask(slot, {**asked, **said}, sounds, memory)

    def step(self, slots: Sequence[int]) -> list[TurnPiece]:
        for slot in slots:
            turn = self.turns[slot]
            if "crash" in turn.asked["say"] and turn.steps == 8 and not os.path.exists(self._weights):
                # Once only: the next process goes on.
                with open(self._weights, "w"):
                    os._exit(3)
        return [self._dressed(slot, piece) for slot, piece in zip(slots, super().step(slots), strict=True)]

    def _dressed(self, slot: int, piece: TurnPiece) -> TurnPiece:
        asked = self.turns[slot].asked
        if not piece.pcm or not asked.get("aloud", True):
            return replace(piece, pcm=b"", audio_metadata=None)
        tone = np.full(LETTER_SAMPLES, ord(piece.text), "<i2").tobytes()
        metadata = {**(piece.audio_metadata or {}), "frame_count": LETTER_SAMPLES}
        if "wrong" in asked["say"]:
            metadata["frame_count"] = 1
        return replace(piece, pcm=tone, audio_metadata=metadata)
