"""The units that a frame-locked model works in: so much caller audio in, one decision out.

Units come from the caller's audio. While the model speaks and the caller sends nothing, silence takes its place, so
that the answer goes on; real audio always goes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from .pcm import samples_in


@dataclass(frozen=True, slots=True)
class UnitShape:
    """How long a unit is. The first one may be longer: a model needs some sound to begin with."""

    period_ms: int
    first_ms: int | None = None


class Units:
    """One session's units. ``hear`` and ``pad`` close them; whoever gives an answer asks for them one by one.

    ``most_silence`` is how many silent units one answer may have, ``None`` any number. In ``real_time`` a silent unit
    takes its time, counted from the unit before it, so that the answer does not drift; else it comes at once.
    """

    def __init__(
        self,
        shape: UnitShape,
        rate_hz: int,
        *,
        real_time: bool,
        most_silence: int | None = None,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        self.period_ms = shape.period_ms
        self._period = samples_in(shape.period_ms, rate_hz)
        self._wanted = samples_in(shape.first_ms or shape.period_ms, rate_hz)
        self._real_time = real_time
        self._most_silence = most_silence
        self._now_s = now_s or asyncio.get_running_loop().time
        self._held = 0
        self._closed = 0
        self._silent = 0
        self._last_s = 0.0
        self._arrived = asyncio.Event()

    def hear(self, samples: int) -> int:
        """Take in caller audio; returns how many units it closed."""
        self._held += samples
        closed = 0
        while self._held >= self._wanted:
            self._held -= self._wanted
            self._wanted = self._period
            closed += 1
        return self._close(closed)

    def pad(self) -> int:
        """The turn is over: fill the unit that has begun with silence. Returns 1, or 0 at the border of two units."""
        if not self._held:
            return 0
        self._held, self._wanted = 0, self._period
        return self._close(1)

    def drop(self) -> None:
        """Forget the unit that has begun: its audio was cleared."""
        self._held = 0

    def begin(self) -> None:
        """An answer begins: the unit that led to it is its first."""
        self._closed, self._silent, self._last_s = 1, 0, self._now_s()
        self._arrived.set()

    async def next(self, *, endless: bool = False) -> bool:
        """Wait for the answer's next unit; false when it may have no more silence. ``endless`` takes its time."""
        if not self._closed:
            if self._most_silence is not None and self._silent >= self._most_silence:
                return False
            await self._wait(in_time=self._real_time or endless)
        if self._closed:
            self._closed -= 1
            self._last_s = max(self._last_s, self._now_s())
        else:
            self._silent += 1
        if not self._closed:
            self._arrived.clear()
        return True

    async def _wait(self, *, in_time: bool) -> None:
        if not in_time:
            return
        due_s = self._last_s + self.period_ms / 1000
        try:
            async with asyncio.timeout(max(0.0, due_s - self._now_s())):
                await self._arrived.wait()
        except TimeoutError:
            # Behind by more than a unit, it starts from now instead of catching up.
            late_s = self._now_s() - due_s
            self._last_s = due_s if late_s < self.period_ms / 1000 else self._now_s()

    def _close(self, count: int) -> int:
        if count:
            self._closed += count
            self._arrived.set()
        return count
