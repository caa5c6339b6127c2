"""What was said and may not have arrived: kept until the server proves that it has it, and said again if it has not."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

LIMIT_BYTES = 8 * 1024 * 1024
"""Held at most: more than a connection can have under way. The newest event is held whatever its size."""


@dataclass(frozen=True, slots=True)
class Said:
    """One event as it went out. A ``is_probe`` one is answered in its turn, which proves all before it."""

    event_id: str
    message: str
    is_probe: bool = False


class Outbox:
    """Events in the order they were said, oldest first.

    ``forgotten_count`` were let go without proof that they arrived, and none came since: a later event that has
    arrived proves all before it.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.forgotten_count = 0
        self._limit_bytes = limit_bytes
        self._said: deque[Said] = deque()
        self._size_bytes = 0

    def add(self, said: Said) -> None:
        """Hold one more event; beyond the limit the oldest are let go."""
        self._said.append(said)
        self._size_bytes += len(said.message)
        while self._size_bytes > self._limit_bytes and len(self._said) > 1:
            self._drop(1)
            self.forgotten_count += 1

    def probe_answered(self) -> None:
        """The oldest probe was answered: it and everything before it has arrived."""
        for place, said in enumerate(self._said, 1):
            if said.is_probe:
                self._drop(place)
                self.forgotten_count = 0
                return

    def arrived(self, event_id: str | None) -> bool:
        """Everything up to ``event_id`` has arrived, nothing after it; ``False`` when that event is not held.

        All that is held then came after it.
        """
        for place in range(len(self._said), 0, -1):
            if self._said[place - 1].event_id == event_id:
                self._drop(place)
                self.forgotten_count = 0
                return True
        return False

    def messages(self) -> list[str]:
        """All that is held, as it went out."""
        return [said.message for said in self._said]

    def clear(self) -> None:
        """Hold nothing: nobody can say any more what of it arrived."""
        self._drop(len(self._said))

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._size_bytes -= len(self._said.popleft().message)
