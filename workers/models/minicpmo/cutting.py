"""A caller's sound cut into a model's units, with the pictures and the wishes that belong to each. Pure."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from ..pcm import floats_of, samples_in
from ..units import UnitShape

FLOAT_BYTES = 4
SPEECH_RMS = 0.01
"""How loud a turn must have been to count as speech, where the client gave no verdict."""


@dataclass(frozen=True, slots=True)
class Whole:
    """One unit: float32 ``pcm``, the picture it carries, and whether the model must listen to it."""

    pcm: bytes
    frames: tuple[bytes, ...] = ()
    forced: bool = False


class Cutter:
    """One session's units. Pictures wait in line, one leaves with each unit; a wish to listen holds for the unit that

    the append is in.
    """

    def __init__(self, shape: UnitShape, rate_hz: int) -> None:
        self._period = samples_in(shape.period_ms, rate_hz) * FLOAT_BYTES
        self._wanted = samples_in(shape.first_ms or shape.period_ms, rate_hz) * FLOAT_BYTES
        self._held = bytearray()
        self._forced = False
        self._frames: deque[bytes] = deque()
        self.has_speech = False

    def hear(
        self, pcm: bytes, frames: tuple[bytes, ...] = (), *, is_speech: bool | None = None, forced: bool = False
    ) -> list[Whole]:
        """Take in one append; the units it closes."""
        pcm = pcm[: len(pcm) // FLOAT_BYTES * FLOAT_BYTES]
        self._frames += frames
        self.has_speech = self.has_speech or (is_loud(pcm) if is_speech is None else is_speech)
        self._held += pcm
        self._forced = self._forced or (forced and bool(pcm))
        closed = []
        while len(self._held) >= self._wanted:
            closed.append(self._close())
            self._forced = forced and bool(self._held)
        return closed

    def end(self, *, forced: bool = False) -> Whole | None:
        """The turn is over: if there was speech in it, the unit that has begun is filled with silence.

        ``forced`` holds for it instead of what its appends wished.
        """
        spoken, self.has_speech = self.has_speech, False
        if not (spoken and self._held):
            return None
        self._held += bytes(self._wanted - len(self._held))
        self._forced = forced
        return self._close()

    def silence(self) -> Whole:
        """A unit in which nothing is said; what has begun is filled up and leaves with it."""
        self._held += bytes(self._wanted - len(self._held))
        self._forced = False
        return self._close()

    def drop(self) -> None:
        """Forget what no unit holds yet, pictures included."""
        self._held.clear()
        self._frames.clear()
        self._forced = self.has_speech = False

    @property
    def holds_sound(self) -> bool:
        """Whether a unit has begun."""
        return bool(self._held)

    def _close(self) -> Whole:
        pcm = bytes(self._held[: self._wanted])
        del self._held[: self._wanted]
        self._wanted = self._period
        frames = (self._frames.popleft(),) if self._frames else ()
        whole = Whole(pcm, frames, self._forced)
        self._forced = False
        return whole


def is_loud(pcm: bytes) -> bool:
    """Whether float32 samples are loud enough for speech."""
    samples = floats_of(pcm)
    return bool(samples.size) and math.sqrt(float(samples @ samples) / samples.size) >= SPEECH_RMS
