"""What a writer still remembers of what landed."""

from __future__ import annotations

import pytest

from duplex_es.log.api import Record
from duplex_es.log.recent import RecentRecords

pytestmark = pytest.mark.unit


def records(*bodies: bytes) -> list[Record]:
    return [Record(body) for body in bodies]


def test_what_landed_after_a_number_comes_back_in_order() -> None:
    recent = RecentRecords(3.0, 1000)
    recent.keep(5, records(b"5", b"6"), 0.0)
    recent.keep(7, records(b"7"), 1.0)
    assert recent.last == 7
    assert recent.after(5) == records(b"6", b"7")
    assert recent.after(4) == records(b"5", b"6", b"7")
    assert recent.after(7) == []


def test_a_hole_that_reaches_below_what_is_kept_is_not_filled_in_part() -> None:
    recent = RecentRecords(3.0, 1000)
    assert recent.after(0) == []
    recent.keep(5, records(b"5"), 0.0)
    assert recent.after(3) is None


def test_records_are_forgotten_by_age() -> None:
    recent = RecentRecords(3.0, 1000)
    recent.keep(1, records(b"1"), 0.0)
    recent.keep(2, records(b"2"), 2.0)
    recent.keep(3, records(b"3"), 4.0)
    assert recent.after(0) is None
    assert recent.after(1) == records(b"2", b"3")


def test_a_writer_that_fell_silent_can_be_told_to_forget() -> None:
    recent = RecentRecords(3.0, 1000)
    recent.keep(1, records(b"1"), 0.0)
    recent.forget(2.0)
    assert recent.after(0) == records(b"1")
    recent.forget(9.0)
    assert recent.after(0) is None
    assert recent.last == 1


def test_records_are_forgotten_by_size_with_their_audio() -> None:
    recent = RecentRecords(3.0, 20)
    recent.keep(1, [Record(b"1", b"x" * 12), Record(b"2", b"x" * 12)], 0.0)
    assert recent.after(0) is None
    assert recent.after(1) == [Record(b"2", b"x" * 12)]


def test_what_does_not_follow_begins_anew() -> None:
    recent = RecentRecords(3.0, 1000)
    recent.keep(1, records(b"1"), 0.0)
    recent.keep(9, records(b"9"), 0.0)
    assert recent.after(8) == records(b"9")
    assert recent.after(7) is None
