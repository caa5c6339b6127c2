"""The newest records of one writer, kept a little while: what a store that lost its tail is given again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from .api import Record


class RecentRecords:
    """Consecutive records that landed, the newest ``keep_s`` of them and at most ``keep_bytes``; older ones go.

    ``last`` is the number of the newest, 0 when nothing is kept.
    """

    def __init__(self, keep_s: float, keep_bytes: int) -> None:
        self.last = 0
        self._keep_s = keep_s
        self._keep_bytes = keep_bytes
        self._kept: deque[tuple[float, Record]] = deque()
        self._bytes = 0

    def keep(self, first: int, records: Sequence[Record], now_s: float) -> None:
        """Note that ``records`` landed as ``first`` and up; a hole before them forgets what was there."""
        if first != self.last + 1:
            self._kept.clear()
            self._bytes = 0
        for record in records:
            self._kept.append((now_s, record))
            self._bytes += _size(record)
        self.last = first + len(records) - 1
        self.forget(now_s)

    def forget(self, now_s: float) -> None:
        """Let go of what is too old or too much."""
        while self._kept and (self._bytes > self._keep_bytes or self._kept[0][0] < now_s - self._keep_s):
            self._bytes -= _size(self._kept.popleft()[1])

    def after(self, number: int) -> list[Record] | None:
        """All that landed above ``number``; ``None`` when some of that is not kept any more."""
        missing = self.last - number
        if missing > len(self._kept):
            return None
        return [record for _, record in list(self._kept)[len(self._kept) - missing :]] if missing > 0 else []


def _size(record: Record) -> int:
    return len(record.body) + len(record.audio or b"")
