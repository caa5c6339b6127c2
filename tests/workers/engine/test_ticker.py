"""The beat: absolute deadlines, nobody fed silence, those who are behind catch up, late ticks are counted."""

from __future__ import annotations

import numpy as np
import pytest

from workers.engine.ticker import Ticker

pytestmark = pytest.mark.unit

SAMPLES = 4


def ticker(**more: int) -> Ticker:
    return Ticker(frame_samples=SAMPLES, period_s=0.08, start_s=100.0, **more)


def pcm(*values: float) -> bytes:
    return np.repeat(np.array(values, np.float32), SAMPLES).tobytes()


def values(batch: list[tuple[str, np.ndarray]]) -> dict[str, float]:
    return {session: float(frame[0]) for session, frame in batch}


def test_nothing_is_due_before_the_deadline_and_one_frame_of_each_at_it() -> None:
    beat = ticker()
    for name in ("a", "b", "c"):
        beat.add(name)
    beat.feed("a", pcm(1, 2))
    beat.feed("b", pcm(3))
    assert beat.take_due(100.079) == []
    assert values(beat.take_due(100.08)) == {"a": 1, "b": 3}
    assert beat.deadline_s == pytest.approx(100.16)
    assert values(beat.take_due(100.16)) == {"a": 2}


def test_samples_are_cut_into_frames_whatever_their_number() -> None:
    beat = ticker()
    beat.add("a")
    data = pcm(1, 2, 3)
    beat.feed("a", data[:10])
    assert beat.waiting("a") == 0
    beat.feed("a", data[10:40])
    assert beat.waiting("a") == 2
    beat.feed("a", data[40:])
    assert [values(beat.take_due(100.08 * n))["a"] for n in (1, 2, 3)] == [1, 2, 3]


def test_a_late_tick_moves_no_later_deadline() -> None:
    beat = ticker()
    beat.add("a")
    beat.feed("a", pcm(1, 2, 3))
    assert values(beat.take_due(100.33)) == {"a": 1}
    assert beat.deadline_s == pytest.approx(100.40)
    assert beat.skipped_beats == 3


def test_the_oldest_sound_of_a_session_that_fell_too_far_behind_is_dropped_and_counted() -> None:  # V56
    beat = ticker(backlog=2)
    beat.add("a")
    assert beat.feed("a", pcm(1, 2)) == 0
    assert beat.feed("a", pcm(3, 4, 5)) == 3
    assert values(beat.take_due(100.08)) == {"a": 4}


def test_those_who_are_behind_step_again_if_there_is_time() -> None:
    beat = ticker()
    beat.add("a")
    beat.add("b")
    beat.feed("a", pcm(1, 2, 3))
    beat.feed("b", pcm(7, 8))
    beat.take_due(100.08)
    assert values(beat.take_behind(100.10, takes_s=0.04)) == {"a": 2}
    assert beat.take_behind(100.10, takes_s=0.04) == []  # each has one frame left, which is its next
    beat.feed("a", pcm(4, 5))
    assert beat.take_behind(100.13, takes_s=0.04) == []  # too close to the next deadline


def test_a_session_that_left_is_neither_stepped_nor_fed() -> None:
    beat = ticker()
    beat.add("a")
    beat.feed("a", pcm(1))
    beat.remove("a")
    assert beat.feed("a", pcm(2)) == 0
    assert beat.take_due(100.08) == []
    beat.remove("a")


def test_cleared_sound_is_gone_with_the_rest_of_a_frame() -> None:
    beat = ticker()
    beat.add("a")
    beat.feed("a", pcm(1)[:-4])
    beat.clear("a")
    beat.feed("a", pcm(2))
    assert values(beat.take_due(100.08)) == {"a": 2}


def test_a_tick_is_late_when_its_results_are_out_a_period_after_it_was_due() -> None:
    beat = ticker()
    assert not beat.done(100.0, 100.079)
    assert beat.done(100.0, 100.081)
    assert beat.late == 1
