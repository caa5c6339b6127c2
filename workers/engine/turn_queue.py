"""Which turn gets the next free slot: sessions in rotation, and no more waiting than can be worth waiting for. Pure."""

from __future__ import annotations

from collections import deque
from typing import Any

BACKLOG_PER_SLOT = 4
"""Turns that may wait for each slot: with more, the last one would begin after several answers' time."""


class TurnQueue:
    """Turns that wait, each with whatever it needs to begin, under the session it is of.

    A session's turns keep their order. Of the sessions that wait, the one that was served longest ago is next: who asks
    often does not keep others from being answered.
    """

    def __init__(self, *, backlog: int) -> None:
        self._backlog = backlog
        self._lines: dict[str, deque[tuple[str, Any]]] = {}
        self._served: dict[str, int] = {}
        self._serves = 0

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def put(self, session: str, turn: str, load: Any) -> bool:
        """Let ``turn`` wait; false if there are too many already, and it does not."""
        if len(self) >= self._backlog:
            return False
        self._lines.setdefault(session, deque()).append((turn, load))
        return True

    def take(self) -> tuple[str, Any] | None:
        """The next turn and what it needs, if one waits."""
        if not self._lines:
            return None
        session = min(self._lines, key=lambda name: self._served.get(name, 0))
        line = self._lines[session]
        found = line.popleft()
        self._serves += 1
        self._served[session] = self._serves
        if not line:
            del self._lines[session]
        self._forget()
        return found

    def remove(self, turn: str) -> bool:
        """Forget ``turn``; whether it waited."""
        for session, line in self._lines.items():
            for waiting in line:
                if waiting[0] == turn:
                    line.remove(waiting)
                    if not line:
                        del self._lines[session]
                    return True
        return False

    def _forget(self) -> None:
        """Keep no account of sessions that were served long before anybody who could still be compared to them."""
        if len(self._served) > 4 * self._backlog + 64:
            recent = sorted(self._served, key=self._served.__getitem__)[len(self._served) // 2 :]
            self._served = {name: self._served[name] for name in recent}
