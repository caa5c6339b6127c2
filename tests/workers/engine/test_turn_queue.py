"""Who is answered next."""

from __future__ import annotations

import pytest

from workers.engine.turn_queue import TurnQueue

pytestmark = pytest.mark.unit


def taken(queue: TurnQueue) -> list[str]:
    found = []
    while (one := queue.take()) is not None:
        found.append(one[0])
    return found


def test_a_sessions_turns_keep_their_order() -> None:
    queue = TurnQueue(backlog=8)
    for number in range(3):
        queue.put("a", f"a{number}", number)
    assert [queue.take() for _ in range(4)] == [("a0", 0), ("a1", 1), ("a2", 2), None]


def test_sessions_are_served_in_rotation_however_much_one_of_them_asks() -> None:
    queue = TurnQueue(backlog=8)
    for turn in ("a0", "a1", "a2"):
        queue.put("a", turn, None)
    queue.put("b", "b0", None)
    queue.put("c", "c0", None)
    assert taken(queue) == ["a0", "b0", "c0", "a1", "a2"]


def test_who_was_served_lately_waits_behind_who_was_not() -> None:
    queue = TurnQueue(backlog=8)
    queue.put("a", "a0", None)
    assert taken(queue) == ["a0"]
    queue.put("a", "a1", None)
    queue.put("b", "b0", None)
    assert taken(queue) == ["b0", "a1"]


def test_more_than_the_backlog_does_not_wait() -> None:
    queue = TurnQueue(backlog=2)
    assert [queue.put("a", f"a{number}", None) for number in range(3)] == [True, True, False]
    assert len(queue) == 2
    assert queue.take() is not None
    assert queue.put("b", "b0", None)


def test_a_turn_that_is_removed_is_not_taken() -> None:
    queue = TurnQueue(backlog=8)
    queue.put("a", "a0", None)
    queue.put("a", "a1", None)
    assert queue.remove("a0") and not queue.remove("a0")
    assert taken(queue) == ["a1"]
    assert not queue.remove("a1")


def test_sessions_that_are_long_gone_are_forgotten() -> None:
    queue = TurnQueue(backlog=1)
    for number in range(500):
        queue.put(f"s{number}", "t", None)
        queue.take()
    assert len(queue._served) <= 68
