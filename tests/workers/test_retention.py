"""Sound is dropped when it is old enough, exactly up to what stood in the log then."""

from __future__ import annotations

import pytest

from duplex_es.log.api import EntryId
from workers.retention import Mark, Marks, Retention

pytestmark = pytest.mark.unit


def mark(at_s: float, number: int, seq: int) -> Mark:
    return Mark(int(at_s * 1000), EntryId(2, number), seq)


def test_nothing_is_due_before_its_time_and_then_everything_up_to_it() -> None:
    retention = Retention(60)
    retention.note(mark(0, 10, 5))
    retention.note(mark(30, 20, 8))
    assert retention.due_ms == 60_000
    assert retention.due(59_999) is None
    assert retention.due(60_000) == (EntryId(2, 11), 6)
    assert retention.due(90_000) == (EntryId(2, 21), 9)
    assert retention.due(999_000) is None


def test_dropping_happens_in_steps() -> None:
    retention = Retention(60)
    for second in range(200):
        retention.note(mark(second, second, second))
    due = [second for second in range(60, 120) if retention.due(second * 1000) is not None]
    assert due == list(range(60, 120, 6))


def test_of_marks_close_together_the_newest_stays_and_one_that_says_nothing_new_is_not_kept() -> None:
    marks = Marks()
    for at_s, number in [(0, 1), (0.5, 2), (0.9, 3), (1.5, 4), (1.6, 5), (9, 5)]:
        marks.note(mark(at_s, number, 0))
    assert [(found.at_ms, found.consumed.number) for found in marks] == [(0, 1), (900, 3), (1600, 5)]


def test_a_successor_knows_what_is_old() -> None:
    before = Marks([mark(0, 1, 1), mark(30, 2, 2)])
    assert Retention(60, before).due(60_000) == (EntryId(2, 2), 2)


def test_zero_keeps_everything() -> None:
    retention = Retention(0, [mark(0, 1, 1)])
    retention.note(mark(5, 2, 2))
    assert retention.due_ms is None
    assert retention.due(10**12) is None
