"""Whose unit is next: earliest deadline first. Pure: time is handed in, in seconds of any monotonic clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace

BACKLOG_UNITS = 30
"""More than this many units waiting means that a session has fallen behind for good: the oldest is dropped."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit that waits. ``deadline_s`` is when its answer is due: one unit's length after it was whole."""

    session: str
    serial: int
    pcm: bytes
    frames: tuple[bytes, ...]
    forced: bool
    deadline_s: float


@dataclass(slots=True)
class _Line:
    units: deque[Unit] = field(default_factory=deque)
    newest_s: float = 0.0


class UnitQueue:
    """The units of all ready sessions.

    A session's units stay in order, and each is due a unit's length after the one before it: who sends a minute at
    once gets it answered in between those who speak at the pace of speech, never before them.
    """

    def __init__(self, *, period_s: float, backlog: int = BACKLOG_UNITS) -> None:
        self._period_s = period_s
        self._backlog = backlog
        self._lines: dict[str, _Line] = {}

    def __len__(self) -> int:
        return sum(len(line.units) for line in self._lines.values())

    def add(self, session: str) -> None:
        """Begin to queue for ``session``. Idempotent."""
        self._lines.setdefault(session, _Line())

    def remove(self, session: str) -> None:
        """Forget ``session`` and what waits for it. Idempotent."""
        self._lines.pop(session, None)

    def put(
        self, session: str, serial: int, pcm: bytes, frames: tuple[bytes, ...], *, forced: bool, now_s: float
    ) -> int:
        """Queue one unit of a session that is known; how many old ones were dropped for it."""
        line = self._lines.get(session)
        if line is None:
            return 0
        line.newest_s = max(line.newest_s, now_s) + self._period_s
        line.units.append(Unit(session, serial, pcm, frames, forced, line.newest_s))
        dropped = max(0, len(line.units) - self._backlog)
        for _ in range(dropped):
            line.units.popleft()
        return dropped

    def hush(self, session: str) -> None:
        """What waits for ``session`` is to be listened to: the caller has spoken over its answers."""
        if session in self._lines:
            line = self._lines[session]
            line.units = deque(replace(unit, forced=True) for unit in line.units)

    def clear(self, session: str) -> None:
        """Drop what waits for ``session``."""
        if session in self._lines:
            self._lines[session] = _Line()

    def take(self, *, without: Collection[str] = ()) -> Unit | None:
        """The unit that is due first, of those that are the oldest of their session; of equals, who was added first.

        Sessions in ``without`` wait.
        """
        heads = [line.units[0] for name, line in self._lines.items() if line.units and name not in without]
        if not heads:
            return None
        first = min(heads, key=lambda unit: unit.deadline_s)
        return self._lines[first.session].units.popleft()
