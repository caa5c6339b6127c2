"""When which sessions step: absolute deadlines, one frame of each session that has one, and what to do when late.

Pure: time is handed in, in seconds of any monotonic clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from .contract import Floats

BACKLOG_FRAMES = 12
"""More than this much sound waiting means that a session has fallen behind for good: the oldest is dropped."""


@dataclass(slots=True)
class _Line:
    frames: deque[Floats] = field(default_factory=deque)
    rest: bytes = b""


class Ticker:
    """The queues of all ready sessions, and the beat.

    Deadline ``n`` is ``start_s + n * period``: a late tick does not shift those after it. A session without a whole
    frame is skipped, never fed silence: a late packet costs its session time, not content. Between deadlines, sessions
    that have fallen more than a frame behind may step again.
    """

    def __init__(self, *, frame_samples: int, period_s: float, start_s: float, backlog: int = BACKLOG_FRAMES) -> None:
        self._frame_bytes = frame_samples * 4
        self._period_s = period_s
        self._start_s = start_s
        self._backlog = backlog
        self._beat = 1
        self._lines: dict[str, _Line] = {}
        self.ticks = 0
        self.late = 0
        self.skipped_beats = 0

    @property
    def deadline_s(self) -> float:
        """When the next tick is due."""
        return self._start_s + self._beat * self._period_s

    @property
    def is_idle(self) -> bool:
        """Whether nobody could be late: there is no session."""
        return not self._lines

    def add(self, session: str) -> None:
        """Begin to queue for ``session``. Idempotent."""
        self._lines.setdefault(session, _Line())

    def remove(self, session: str) -> None:
        """Forget ``session`` and what waits for it. Idempotent."""
        self._lines.pop(session, None)

    def feed(self, session: str, pcm: bytes) -> int:
        """Queue float32 samples, cut into frames whatever their number; how many old frames were dropped for it."""
        line = self._lines.get(session)
        if line is None:
            return 0
        data = line.rest + pcm
        whole = len(data) // self._frame_bytes * self._frame_bytes
        line.rest = data[whole:]
        for at in range(0, whole, self._frame_bytes):
            line.frames.append(np.frombuffer(data, np.float32, self._frame_bytes // 4, at))
        dropped = max(0, len(line.frames) - self._backlog)
        for _ in range(dropped):
            line.frames.popleft()
        return dropped

    def clear(self, session: str) -> None:
        """Drop what waits for ``session``."""
        if session in self._lines:
            self._lines[session] = _Line()

    def waiting(self, session: str) -> int:
        """How many whole frames wait."""
        line = self._lines.get(session)
        return len(line.frames) if line else 0

    def take_due(self, now_s: float) -> list[tuple[str, Floats]]:
        """The batch of the tick that is due now: the oldest frame of each session that has one.

        Empty before the deadline. The beat moves to the first deadline that is still to come.
        """
        if now_s < self.deadline_s:
            return []
        behind = int((now_s - self.deadline_s) // self._period_s)
        self.skipped_beats += behind
        self._beat += 1 + behind
        self.ticks += 1
        return self._take(at_least=1)

    def take_behind(self, now_s: float, *, takes_s: float) -> list[tuple[str, Floats]]:
        """One more batch for those who are behind, if a tick that ``takes_s`` ends well before the next deadline."""
        if now_s + takes_s * 1.25 > self.deadline_s:
            return []
        return self._take(at_least=2)

    def done(self, due_s: float, now_s: float) -> bool:
        """Note when the results of the tick of ``due_s`` were out; whether that was late: a whole period or more."""
        is_late = now_s - due_s > self._period_s
        self.late += is_late
        return is_late

    def _take(self, *, at_least: int) -> list[tuple[str, Floats]]:
        return [(name, line.frames.popleft()) for name, line in self._lines.items() if len(line.frames) >= at_least]
