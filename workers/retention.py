"""How much of a session its log keeps: what is too old, or too much, is dropped from the front, exactly.

Sound and history (the records themselves) are bounded apart from each other, each by age and by size. Some of both is
needed by somebody, and stays whatever the bounds say: what a client may ask for again (``WINDOW_MS``), and ``Needed``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from duplex_es.log.api import START, EntryId

MIB = 1024 * 1024
WINDOW_MS = 60_000
WINDOW_BYTES = 8 * MIB
"""What a client may ask for again: the frames of so long, up to so much, that it has not acknowledged."""
ENTRY_BYTES = 64
"""What an entry takes beside its bytes; measured: 14 for the shortest, 74 for those that fill a node of the stream."""

APART_MS = 1_000
PRECISION = 20
FEW_MARKS = 64
LONGEST_STEP_MS = 10_000
CROWDED_STEP_MS = 1_000
HELD_UP_STEP_MS = 5_000
SLACK = 16


class Bytes(NamedTuple):
    """Bytes written to the input and to the output stream of a session since it began."""

    input: int = 0
    output: int = 0


NOTHING = Bytes()


class Mark(NamedTuple):
    """At ``at_ms`` (Unix), ``consumed`` was the last input taken in, and ``seq`` the last frame written.

    ``audio`` and ``records`` are all that was in the log up to these two. Each field only grows, so marks compare.
    """

    at_ms: int
    consumed: EntryId
    seq: int
    audio: Bytes = NOTHING
    records: Bytes = NOTHING


BEGINNING = Mark(0, START, 0)


class Cut(NamedTuple):
    """The input and the seq from which on something is kept; what lies before them goes."""

    input_before: EntryId
    output_before: int


class Cuts(NamedTuple):
    """What to drop now, ``None`` for nothing."""

    audio: Cut | None = None
    history: Cut | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much is kept of one session, both directions together; 0 sets no limit."""

    audio_s: float = 600.0
    audio_bytes: int = 8 * MIB
    history_s: float = 0.0
    history_bytes: int = 8 * MIB


@dataclass(frozen=True, slots=True)
class Needed:
    """What is needed however old and large it is.

    ``input_after``: input that a successor has to take in, or to hear again, comes after it. ``snapshot_seq``: up to
    here a snapshot stands in for the output; without ``has_snapshot`` there is none for what opened the session.
    ``acknowledged_seq``: the client has all up to it.
    """

    input_after: EntryId
    snapshot_seq: int = 0
    has_snapshot: bool = False
    acknowledged_seq: int = 0


class Marks:
    """Marks in order of time, oldest first, and always the newest.

    Neighbours are a second apart, or about a twentieth of their age: so there are few, and all are exact enough.
    """

    def __init__(self, marks: Iterable[Mark] = ()) -> None:
        self._marks = deque(marks)

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._marks)

    @property
    def newest(self) -> Mark:
        """The last one noted."""
        return self._marks[-1] if self._marks else BEGINNING

    def note(self, mark: Mark) -> None:
        """Add ``mark`` unless it says nothing new; of several that come close together the last one stays."""
        marks = self._marks
        if mark[1:] == self.newest[1:]:
            return
        if len(marks) > 1 and mark.at_ms - marks[-2].at_ms < APART_MS:
            marks[-1] = mark
            return
        marks.append(mark)
        if len(marks) > FEW_MARKS:
            self._thin(mark.at_ms)

    def _thin(self, now_ms: int) -> None:
        marks = tuple(self._marks)
        kept = [marks[0]]
        for mark, following in pairwise(marks[1:]):
            if following.at_ms - kept[-1].at_ms > (now_ms - mark.at_ms) // PRECISION:
                kept.append(mark)
        self._marks = deque([*kept, marks[-1]])

    def forget_through(self, audio: Bytes, records: Bytes) -> None:
        """Marks of what is gone already serve nobody, but the last of them."""
        while (
            len(self._marks) > 1 and _within(self._marks[1].audio, audio) and _within(self._marks[1].records, records)
        ):
            self._marks.popleft()


class Kept:
    """One kind of stored thing in both streams, and its bounds. ``gone`` is how much of what was written is dropped."""

    def __init__(self, keep_s: float, keep_bytes: int, written: Callable[[Mark], Bytes], gone: Bytes) -> None:
        self.keep_ms = int(keep_s * 1000)
        self.gone = gone
        self._keep_bytes = keep_bytes
        self._written = written

    def size(self, newest: Mark) -> int:
        """How much there is in the log."""
        written, gone = self._written(newest), self.gone
        return written.input + written.output - gone.input - gone.output

    def is_too_much(self, newest: Mark) -> bool:
        """Whether that is above the bound."""
        return 0 < self._keep_bytes < self.size(newest)

    def due_ms(self, marks: Iterable[Mark]) -> int | None:
        """When the oldest that is there will be too old; ``None`` where nothing ever is."""
        if not self.keep_ms:
            return None
        oldest = next((mark for mark in marks if not _within(self._written(mark), self.gone)), None)
        return None if oldest is None else oldest.at_ms + self.keep_ms

    def cut(self, marks: tuple[Mark, ...], now_ms: int, input_until: Mark, output_until: Mark) -> Cut | None:
        """Drop what is too old or too much, no further than these marks. Counts it as gone."""
        wanted = newest_of(mark for mark in marks if self.keep_ms and mark.at_ms <= now_ms - self.keep_ms)
        if self.is_too_much(marks[-1]):
            enough = self._keep_bytes - self._keep_bytes // SLACK
            end = sum(self._written(marks[-1]))
            places = (mark for mark in marks if end - sum(self._reach(mark, input_until, output_until)) <= enough)
            wanted = max(wanted, next(places, marks[-1]))
        reached = self._reach(wanted, input_until, output_until)
        if reached == self.gone:
            return None
        self.gone = reached
        consumed = min(wanted, input_until).consumed
        return Cut(EntryId(consumed.generation, consumed.number + 1), min(wanted, output_until).seq + 1)

    def _reach(self, mark: Mark, input_until: Mark, output_until: Mark) -> Bytes:
        """How much is gone after a cut at ``mark``, or where the cut has to stop before it."""
        said, shown = self._written(min(mark, input_until)), self._written(min(mark, output_until))
        return Bytes(max(self.gone.input, said.input), max(self.gone.output, shown.output))


class Retention:
    """One session's stored streams: ``note`` where they stand, ask whether something ``is_due``, carry out ``cuts``.

    Dropping happens in steps: what is too old lives a tenth of its time, at most 10 s, longer; what is too much is cut
    to a sixteenth below its bound.
    """

    def __init__(
        self, limits: Limits, marks: Iterable[Mark] = (), *, audio_gone: Bytes = NOTHING, records_gone: Bytes = NOTHING
    ) -> None:
        self.marks = Marks(marks)
        self.audio = Kept(limits.audio_s, limits.audio_bytes, lambda mark: mark.audio, audio_gone)
        self.history = Kept(limits.history_s, limits.history_bytes, lambda mark: mark.records, records_gone)
        steps_ms = [kept.keep_ms // 10 for kept in (self.audio, self.history) if kept.keep_ms]
        self._step_ms = min(LONGEST_STEP_MS, *steps_ms, LONGEST_STEP_MS)
        self._gone = audio_gone, records_gone
        self._next_old_ms = self._next_crowded_ms = 0
        self._old_ms: int | None = None
        self._is_crowded = False
        self._foresee()

    def note(self, at_ms: int, consumed: EntryId, seq: int, audio: Bytes, records: Bytes) -> None:
        """Where the session stands, and how much was written to both streams since the last time."""
        last = self.marks.newest
        audio = Bytes(last.audio.input + audio.input, last.audio.output + audio.output)
        records = Bytes(last.records.input + records.input, last.records.output + records.output)
        self.marks.note(Mark(max(at_ms, last.at_ms), consumed, seq, audio, records))
        self._is_crowded = self._crowded()
        if self._old_ms is None:
            self._foresee()

    @property
    def due_ms(self) -> int | None:
        """When to look for something to drop, in Unix milliseconds; ``None`` while nothing waits for it."""
        old_ms = None if self._old_ms is None else max(self._old_ms, self._next_old_ms)
        if not self._is_crowded:
            return old_ms
        return self._next_crowded_ms if old_ms is None else min(old_ms, self._next_crowded_ms)

    def is_due(self, now_ms: int) -> bool:
        """Whether to ask for ``cuts`` now."""
        due_ms = self.due_ms
        return due_ms is not None and due_ms <= now_ms

    def cuts(self, now_ms: int, needed: Needed) -> Cuts:
        """What to drop now. It counts as dropped, unless ``failed`` is called next."""
        self._gone = self.audio.gone, self.history.gone
        self.marks.forget_through(*self._gone)
        marks = tuple(self.marks)
        if not marks:
            return Cuts()
        taken_in = newest_of(mark for mark in marks if mark.consumed <= needed.input_after)
        window = self._before_window(marks, now_ms, needed.acknowledged_seq)
        history = self._cut_history(marks, now_ms, taken_in, window, needed) if needed.has_snapshot else None
        audio = self.audio.cut(marks, now_ms, taken_in, window)
        is_held_up = audio is history is None
        self._next_old_ms = now_ms + (max(HELD_UP_STEP_MS, self._step_ms) if is_held_up else self._step_ms)
        self._next_crowded_ms = now_ms + (HELD_UP_STEP_MS if is_held_up else CROWDED_STEP_MS)
        self._foresee()
        return Cuts(audio, history)

    def failed(self) -> None:
        """The last cuts were not carried out: the next look finds them again."""
        self.audio.gone, self.history.gone = self._gone
        self._foresee()

    def _cut_history(
        self, marks: tuple[Mark, ...], now_ms: int, taken_in: Mark, window: Mark, needed: Needed
    ) -> Cut | None:
        """Records go when their sound goes, and no later than a snapshot of what they tell; sound goes with them."""
        past = newest_of(mark for mark in marks if mark.at_ms <= now_ms - WINDOW_MS)
        told = newest_of(mark for mark in marks if mark.seq <= needed.snapshot_seq)
        input_until, output_until = min(taken_in, max(past, window)), min(window, told)
        cut = self.history.cut(marks, now_ms, input_until, output_until)
        if cut is not None:
            said = newest_of(mark for mark in marks if mark.consumed < cut.input_before)
            shown = newest_of(mark for mark in marks if mark.seq < cut.output_before)
            gone = self.audio.gone
            self.audio.gone = Bytes(max(gone.input, said.audio.input), max(gone.output, shown.audio.output))
        return cut

    def _before_window(self, marks: tuple[Mark, ...], now_ms: int, acknowledged_seq: int) -> Mark:
        """The newest mark before all frames that a client may still ask for."""
        end = marks[-1].audio.output + marks[-1].records.output
        return newest_of(
            mark
            for mark in marks
            if mark.at_ms <= now_ms - WINDOW_MS
            or mark.seq <= acknowledged_seq
            or end - mark.audio.output - mark.records.output >= WINDOW_BYTES
        )

    def _crowded(self) -> bool:
        newest = self.marks.newest
        return self.audio.is_too_much(newest) or self.history.is_too_much(newest)

    def _foresee(self) -> None:
        self._is_crowded = self._crowded()
        due = (kept.due_ms(self.marks) for kept in (self.audio, self.history))
        self._old_ms = min((at_ms for at_ms in due if at_ms is not None), default=None)


def newest_of(marks: Iterable[Mark]) -> Mark:
    """The newest of ``marks``; the beginning, where there is none."""
    return max(marks, default=BEGINNING)


def _within(written: Bytes, bound: Bytes) -> bool:
    return written.input <= bound.input and written.output <= bound.output
