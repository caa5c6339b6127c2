"""The tiny Qwen3-Omni engine, asked without a process: for tests that need torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workers.engine.turns import TurnPiece
from workers.neural_qwen3omni.engine import Qwen3OmniEngine, make

OPTIONS = {
    "weights": "random",
    "device": "cpu",
    "slots": "4",
    "context": "512",
    "max_tokens": "24",
    "longest_answer_s": "3.2",
    "threads": "1",
}


def tiny(**options: str) -> Qwen3OmniEngine:
    """A loaded engine on random weights."""
    engine = make({**OPTIONS, **options})
    engine.load()
    return engine


def sound(duration_s: float = 1.0, seed: int = 1) -> bytes:
    """Noise, int16 at 16 kHz."""
    noise = np.random.default_rng(seed).normal(0, 0.1, int(16_000 * duration_s))
    return (noise.clip(-1, 1) * 32767).astype("<i2").tobytes()


def question(text: str = "hello", *, heard: int | None = None, **more: Any) -> dict[str, Any]:
    """A turn of one message."""
    message: dict[str, Any] = {"role": "user", "text": text}
    return {"messages": [message if heard is None else {**message, "sound": heard}], **more}


@dataclass
class Answer:
    """What came of one turn so far."""

    pieces: list[TurnPiece] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def pcm(self) -> bytes:
        return b"".join(piece.pcm for piece in self.pieces)

    @property
    def memory(self) -> bytes:
        return b"".join(piece.memory for piece in self.pieces)

    @property
    def is_over(self) -> bool:
        return bool(self.pieces) and bool(self.pieces[-1].ends)


class Table:
    """Turns of one engine, stepped by hand."""

    def __init__(self, engine: Qwen3OmniEngine) -> None:
        self.engine = engine
        self.answers: dict[int, Answer] = {}

    def ask(self, slot: int, asked: Mapping[str, Any], sounds: Sequence[bytes] = (), memory: bytes = b"") -> Answer:
        """Read the whole prompt; the answer grows with each step."""
        for _ in self.engine.ask(slot, asked, sounds, memory):
            pass
        self.answers[slot] = Answer()
        return self.answers[slot]

    def step(self, *slots: int) -> None:
        """One step of ``slots``, or of all that are not over."""
        going = [slot for slot in slots or self.answers if not self.answers[slot].is_over]
        for slot, piece in zip(going, self.engine.step(going), strict=True):
            self.answers[slot].pieces.append(piece)

    def finish(self) -> None:
        """Step until every turn is over, and free its slot."""
        while any(not answer.is_over for answer in self.answers.values()):
            self.step()
        for slot in self.answers:
            self.engine.drop(slot)
        self.answers = {}

    def whole(self, asked: Mapping[str, Any], sounds: Sequence[bytes] = ()) -> Answer:
        """One turn alone, in slot 0, from its beginning to its end."""
        answer = self.ask(0, asked, sounds)
        self.finish()
        return answer
