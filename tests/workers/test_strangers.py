"""Sessions of another build come round again and again; neither they nor the worker spin."""

from __future__ import annotations

import pytest

from duplex_es.log.api import SessionRef
from workers.strangers import LONGEST_WAIT_S, PATIENCE_S, PAUSE_S, Strangers

pytestmark = pytest.mark.unit

ONE, OTHER = SessionRef("one", 0), SessionRef("other", 0)


class Clock:
    """Seconds that pass when a test says so."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_first_time_a_session_is_given_back_at_once_and_later_it_is_held_longer_each_time() -> None:
    clock = Clock()
    strangers = Strangers(clock)
    held = []
    for _ in range(7):
        held.append(strangers.wait_s(ONE))
        strangers.met(ONE)
    assert held == [0.0, 0.5, 1.0, 2.0, 4.0, LONGEST_WAIT_S, LONGEST_WAIT_S]
    assert strangers.wait_s(OTHER) == 0.0


def test_after_giving_one_back_the_others_of_the_fleet_are_first_at_the_queue() -> None:
    clock = Clock()
    strangers = Strangers(clock)
    assert strangers.pause_s() == 0.0
    strangers.met(ONE)
    assert strangers.pause_s() == PAUSE_S
    clock.now_s += PAUSE_S
    assert strangers.pause_s() == 0.0


def test_a_session_that_nobody_could_read_for_long_is_not_given_back_any_more() -> None:
    clock = Clock()
    strangers = Strangers(clock)
    strangers.met(ONE)
    while clock.now_s < 100 + PATIENCE_S:
        assert strangers.wait_s(ONE) is not None
        clock.now_s += 8
        strangers.met(ONE)
    assert strangers.wait_s(ONE) is None
    assert strangers.wait_s(OTHER) == 0.0


def test_one_that_somebody_took_is_forgotten() -> None:
    clock = Clock()
    strangers = Strangers(clock)
    strangers.met(ONE)
    clock.now_s += PATIENCE_S + 1
    strangers.met(OTHER)
    assert strangers.wait_s(ONE) == 0.0
