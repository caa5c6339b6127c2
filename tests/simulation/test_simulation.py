"""Schedules with fixed seeds: every promise holds in each of them. ``run`` explores more."""

from __future__ import annotations

import pytest

from tests.simulation.plan import MOODS, draw_plan
from tests.simulation.simulate import simulate
from tests.simulation.world import installed

pytestmark = pytest.mark.unit

SCHEDULES = 40


@pytest.mark.parametrize("mood", MOODS)
def test_every_promise_holds(mood: str) -> None:
    with installed() as world:
        for seed in range(1, SCHEDULES + 1):
            outcome = simulate(world, seed, mood=mood)
            again = f"python -m tests.simulation.run --schedules 1 --seed {seed} --mood {mood} --trace"
            assert not outcome.violations, "\n".join([*outcome.violations, str(draw_plan(seed, mood)), again])
            assert outcome.frames, f"nobody heard anything: {again}"


@pytest.mark.parametrize("seed", [1, 7, 23])
def test_a_seed_stands_for_one_course_of_events(seed: int) -> None:
    with installed() as world:
        first, second = (simulate(world, seed, mood="storm", keep_trace=True) for _ in range(2))
        other = simulate(world, seed + 1, mood="storm", keep_trace=True)
    assert first.trace == second.trace
    assert first.trace != other.trace


def test_the_moods_do_what_their_names_say() -> None:
    assert not draw_plan(1, "calm").faults
    assert all(fault.kind == "skip" for fault in draw_plan(1, "holes").faults)
    assert draw_plan(1, "orphan").loses
    assert not draw_plan(1, "storm").loses


def test_a_store_that_loses_its_end_is_noticed() -> None:
    with installed() as world:
        outcomes = [simulate(world, seed, mood="orphan") for seed in range(1, SCHEDULES + 1)]
    assert any(outcome.told for outcome in outcomes)
    # What was confirmed before is not lost, so some lose nothing.
    assert sum(outcome.losses > 0 for outcome in outcomes) > SCHEDULES / 2
