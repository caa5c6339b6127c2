"""What a model offers that steps many sessions at once, one frame each.

It lives in the engine's process and is called from one thread. A factory ``make(options: Mapping[str, str]) ->
FrameEngine`` is named as ``package.module:attribute``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


class EngineFull(Exception):
    """There is no room for this session; the others are not touched."""


class EngineRefused(Exception):
    """This opening cannot be served; ``code`` and ``param`` as the client is told."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


class EngineDead(Exception):
    """The device or the model is beyond repair; the process must be replaced."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the worker may know. ``samples_in`` and ``samples_out`` are those of one frame.

    ``memory_bytes`` is the size of what one frame leaves behind (``Stepped.memory``), ``window_frames`` how many frames
    a session can look back: memory before them is not needed to rebuild it. ``first_ms`` is the length of a session's
    first frame where it differs.
    """

    name: str
    frame_ms: int
    input_rate_hz: int
    output_rate_hz: int
    slots: int
    window_frames: int
    memory_bytes: int
    device: str = "cpu"
    first_ms: int = 0

    @property
    def samples_in(self) -> int:
        """Samples of one frame of caller audio."""
        return self.input_rate_hz * self.frame_ms // 1000

    @property
    def samples_out(self) -> int:
        """Samples of one frame of speech."""
        return self.output_rate_hz * self.frame_ms // 1000

    def plain(self) -> dict[str, Any]:
        """As it travels; ``EngineFacts(**plain)`` reads it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Stepped:
    """What one frame of one session gave: int16 ``pcm``, the words that begin in it, and what must be remembered.

    ``speaks`` is whether the model says anything in this frame. ``pcm`` is empty while a session has no output yet.
    """

    pcm: bytes
    text: str
    speaks: bool
    memory: bytes


class FrameEngine(Protocol):
    """A loaded model with a fixed number of slots. What happens in one slot changes nothing in another."""

    facts: EngineFacts

    def load(self) -> None:
        """Load weights and warm up: the first step is no slower than any other. Raises: with what is missing."""

    def open(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        """Begin a session in a free ``slot``: exhausting the iterator prepares it, one bounded piece of work at a time.

        With ``memory``, the concatenated ``Stepped.memory`` of a session so far, or of its last ``window_frames``, it
        goes on exactly where that one stood. Raises, at once or on the way: EngineRefused, EngineFull.
        """

    def step(self, slots: Sequence[int], frames: Floats) -> list[Stepped]:
        """One frame of each of ``slots``, which are open and different; ``frames`` is (n, samples_in) in [-1, 1].

        Slots that are not named stand still. A result does not depend on which other slots step beside it.
        Raises: EngineDead.
        """

    def close(self, slot: int) -> None:
        """Free ``slot``. Idempotent."""
