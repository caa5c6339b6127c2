"""How long sound is kept: what is older is dropped from the log, exactly; the words and the facts stay."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from duplex_es.log.api import EntryId

APART_MS = 1_000
LONGEST_STEP_MS = 10_000


class Mark(NamedTuple):
    """At ``at_ms`` (Unix), ``consumed`` was the last input taken in, and ``seq`` the last frame written."""

    at_ms: int
    consumed: EntryId
    seq: int


class Marks:
    """Marks in order of time, oldest first: about one every ``apart_ms``, and always the newest."""

    def __init__(self, marks: Iterable[Mark] = (), *, apart_ms: int = APART_MS) -> None:
        self._marks = deque(marks)
        self._apart_ms = apart_ms

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._marks)

    def note(self, mark: Mark) -> None:
        """Add ``mark`` unless it says nothing new; of several that come close together the last one stays."""
        marks = self._marks
        if marks and (mark.consumed, mark.seq) == (marks[-1].consumed, marks[-1].seq):
            return
        if len(marks) > 1 and mark.at_ms - marks[-2].at_ms < self._apart_ms:
            marks[-1] = mark
        else:
            marks.append(mark)

    def take_until(self, at_ms: int) -> Mark | None:
        """The newest mark that is not younger than ``at_ms``, with all before it taken away; ``None`` if none is."""
        newest: Mark | None = None
        while self._marks and self._marks[0].at_ms <= at_ms:
            newest = self._marks.popleft()
        return newest


class Retention:
    """One session's sound: ``note`` where it stands, and ask for what is ``due``. ``keep_s`` 0 keeps it all.

    Dropping happens in steps, so that sound lives ``keep_s`` and at most a tenth of it, or 10 s, longer.
    """

    def __init__(self, keep_s: float, marks: Iterable[Mark] = ()) -> None:
        self._keep_ms = int(keep_s * 1000)
        self._step_ms = min(LONGEST_STEP_MS, self._keep_ms // 10)
        self._marks = Marks(marks if self._keep_ms else (), apart_ms=min(APART_MS, self._step_ms))
        self._next_ms = 0

    def note(self, mark: Mark) -> None:
        """What was taken in and written up to now."""
        if self._keep_ms:
            self._marks.note(mark)

    @property
    def due_ms(self) -> int | None:
        """When there is something to be dropped, in Unix milliseconds; ``None`` while nothing waits for it."""
        oldest = next(iter(self._marks), None)
        return None if oldest is None else max(oldest.at_ms + self._keep_ms, self._next_ms)

    def due(self, now_ms: int) -> tuple[EntryId, int] | None:
        """The input and the seq from which on sound is to be kept, if there may be any before them; asked once."""
        if self.due_ms is None or now_ms < self.due_ms:
            return None
        mark = self._marks.take_until(now_ms - self._keep_ms)
        self._next_ms = now_ms + self._step_ms
        if mark is None:
            return None
        return EntryId(mark.consumed.generation, mark.consumed.number + 1), mark.seq + 1
