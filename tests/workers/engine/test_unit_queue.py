"""Whose unit is next, by a clock that the test turns."""

from __future__ import annotations

import pytest

from workers.engine.unit_queue import BACKLOG_UNITS, UnitQueue

pytestmark = pytest.mark.unit


class Line:
    """A queue of units of a second, and a clock."""

    def __init__(self, *sessions: str) -> None:
        self.queue = UnitQueue(period_s=1.0)
        for session in sessions:
            self.queue.add(session)
        self._serial = 0

    def put(self, session: str, now_s: float) -> int:
        self._serial += 1
        return self.queue.put(session, self._serial, b"", (), forced=False, now_s=now_s)

    def order(self) -> list[str]:
        taken = []
        while (unit := self.queue.take()) is not None:
            taken.append(unit.session)
        return taken


def test_who_is_due_first_is_next() -> None:
    line = Line("a", "b", "c")
    for session, now_s in (("b", 0.2), ("c", 0.4), ("a", 0.3)):
        line.put(session, now_s)
    assert line.order() == ["b", "a", "c"]


def test_a_unit_is_due_its_own_length_after_it_was_whole() -> None:
    line = Line("a")
    line.put("a", 7.0)
    unit = line.queue.take()
    assert unit is not None and unit.deadline_s == 8.0


def test_who_sends_a_minute_at_once_does_not_keep_the_others_waiting() -> None:
    line = Line("burst", "paced")
    for _ in range(5):
        line.put("burst", 0.0)
    line.put("paced", 0.1)
    assert line.order() == ["burst", "paced", "burst", "burst", "burst", "burst"]


def test_the_units_of_a_session_stay_in_order() -> None:
    line = Line("a")
    for _ in range(4):
        line.put("a", 0.0)
    serials = [unit.serial for unit in iter(line.queue.take, None)]
    assert serials == [1, 2, 3, 4]


def test_the_oldest_is_dropped_of_who_has_fallen_behind_for_good() -> None:
    line = Line("a")
    assert [line.put("a", 0.0) for _ in range(BACKLOG_UNITS + 2)] == [0] * BACKLOG_UNITS + [1, 1]
    unit = line.queue.take()
    assert unit is not None and unit.serial == 3


def test_who_is_left_out_waits() -> None:
    line = Line("a", "b")
    line.put("a", 0.0)
    line.put("b", 0.5)
    unit = line.queue.take(without={"a"})
    assert unit is not None and unit.session == "b"


def test_nothing_is_queued_for_strangers_and_nothing_kept_of_who_left() -> None:
    line = Line("a", "b")
    line.put("stranger", 0.0)
    line.put("a", 0.0)
    line.put("b", 0.0)
    line.queue.remove("a")
    line.queue.clear("b")
    assert len(line.queue) == 0
    line.put("b", 0.0)
    assert line.order() == ["b"]
