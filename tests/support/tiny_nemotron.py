"""The tiny Nemotron engine, stepped without a process: for tests that need torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from workers.engine.contract import Stepped
from workers.neural_nemotron.engine import NemotronEngine, make
from workers.neural_nemotron.options import FRAME_SAMPLES, INPUT_HZ

Floats = npt.NDArray[np.float32]

OPTIONS = {
    "weights": "random",
    "shape": "tiny",
    "device": "cpu",
    "slots": "4",
    "memory_frames": "120",
    "context_frames": "320",
    "chunk_frames": "16",
    "threads": "1",
}


def tiny(**options: str) -> NemotronEngine:
    """A loaded engine on random weights."""
    engine = make({**OPTIONS, **options})
    engine.load()
    return engine


def sound(frames: int, seed: int = 0) -> Floats:
    """Tones that come and go: (frames, 1280). Noise alone would sound the same in every frame."""
    dice = np.random.default_rng(seed)
    times_s = np.arange(FRAME_SAMPLES) / INPUT_HZ
    tones = [
        dice.choice([0.0, 0.02, 0.3]) * np.sin(2 * np.pi * dice.uniform(100, 4000) * times_s) for _ in range(frames)
    ]
    return (np.stack(tones) + dice.normal(0, 0.003, (frames, FRAME_SAMPLES))).astype(np.float32)


@dataclass
class Call:
    """One session: what it still has to hear, and what came of it."""

    heard: Floats
    frames: list[Stepped] = field(default_factory=list)

    @property
    def memory(self) -> bytes:
        return b"".join(frame.memory for frame in self.frames)

    @property
    def text(self) -> str:
        return "".join(frame.text for frame in self.frames)

    @property
    def function(self) -> str:
        return "".join(frame.function for frame in self.frames)


class Table:
    """Sessions of one engine, stepped by hand."""

    def __init__(self, engine: NemotronEngine) -> None:
        self.engine = engine
        self.calls: dict[int, Call] = {}

    def open(self, slot: int, heard: Floats, memory: bytes = b"", **opening: Any) -> Call:
        """Prepare a session that will hear ``heard``."""
        prepare(self.engine, slot, {"prompt": "be kind", "session_id": "s", **opening}, memory)
        self.calls[slot] = Call(heard)
        return self.calls[slot]

    def step(self, *slots: int) -> None:
        """One frame of ``slots``, or of all that have something to hear."""
        going = [slot for slot in slots or self.calls if len(self.calls[slot].frames) < len(self.calls[slot].heard)]
        frames = np.stack([self.calls[slot].heard[len(self.calls[slot].frames)] for slot in going])
        for slot, stepped in zip(going, self.engine.step(going, frames), strict=True):
            self.calls[slot].frames.append(stepped)

    def finish(self) -> None:
        """Step until everything was heard, and free the slots."""
        while any(len(call.frames) < len(call.heard) for call in self.calls.values()):
            self.step()
        for slot in self.calls:
            self.engine.close(slot)
        self.calls = {}

    def whole(self, heard: Floats, slot: int = 0, **opening: Any) -> Call:
        """One session alone, from its beginning to its end."""
        call = self.open(slot, heard, **opening)
        self.finish()
        return call


def prepare(engine: NemotronEngine, slot: int, opening: Mapping[str, Any], memory: bytes = b"") -> int:
    """Open a session whole; in how many pieces."""
    return sum(1 for _ in engine.open(slot, opening, memory))


def ids_of(call: Call) -> Sequence[tuple[int, int]]:
    """The two tokens of each frame."""
    from workers.neural_nemotron.memory import unpack_frames

    found = unpack_frames(call.memory, len(call.frames))
    return list(zip(found.text.tolist(), found.function.tolist(), strict=True))
