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

    ``function`` is what the channel beside speech gave, special tokens as they are written but for those of a frame in
    which it says nothing; ``forced`` whether that was
    put there by ``inform``. Of what is forced ``function`` may be empty: a token may be half a letter.
    """

    pcm: bytes
    text: str
    speaks: bool
    memory: bytes
    function: str = ""
    forced: bool = False


class FrameEngine(Protocol):
    """A loaded model with a fixed number of slots. What happens in one slot changes nothing in another.

    One with a channel beside speech also has ``inform``, see ``InformedEngine``.
    """

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


class InformedEngine(FrameEngine, Protocol):
    """One that can be told something in the middle of a session, while frames go on."""

    def inform(self, slot: int, text: str, told: int = 0) -> None:
        """Force ``text`` into the channel beside speech of an open ``slot``, a token a frame, behind what waits there.

        Its first ``told`` tokens are in the session's memory already, and are left out: after a rebuild, the number of
        frames that were ``forced`` for it. Special tokens are written as they are. What waits is not in the memory:
        whoever informs says it again after a rebuild. Raises: EngineFull when too much waits.
        """
