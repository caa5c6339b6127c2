"""Schedules with fixed seeds: every promise holds in each of them. ``run`` explores more."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from duplex_es.log.api import SessionRef
from tests.simulation.checker import Stored, told_of
from tests.simulation.plan import MOODS, draw_plan
from tests.simulation.simulate import simulate
from tests.simulation.world import installed

pytestmark = pytest.mark.unit

SCHEDULES = 40
BROKE_ONCE = (
    *(10004828, 10008021, 20000618, 20000925, 20001811, 20004268, 20005657, 20007659),
    *(40005250, 40008065, 40008561, 50007048, 60001440, 60009459),
)
"""Every seed that broke a promise in three long runs of 20,000; docs/reliability.md says what each kind was."""


@pytest.mark.parametrize("mood", MOODS)
def test_every_promise_holds(mood: str) -> None:
    with installed() as world:
        for seed in range(1, SCHEDULES + 1):
            outcome = simulate(world, seed, mood=mood)
            again = f"python -m tests.simulation.run --schedules 1 --seed {seed} --mood {mood} --trace"
            assert not outcome.violations, "\n".join([*outcome.violations, str(draw_plan(seed, mood)), again])
            assert outcome.frames, f"nobody heard anything: {again}"


@pytest.mark.parametrize("seed", BROKE_ONCE)
def test_what_once_broke_a_promise_does_not_any_more(seed: int) -> None:
    with installed() as world:
        assert not simulate(world, seed).violations


def test_who_asked_to_close_and_hears_that_nothing_is_there_is_told_so_unless_it_was_closed() -> None:
    client = SimpleNamespace(closed_unheard=True, told=None)
    gone, closed = (Stored(SessionRef("s", 0), [], [], {}, state) for state in (None, b"closed"))
    assert told_of(client, gone) == "session_resume_expired"
    assert told_of(client, closed) is None
    client.closed_unheard = False
    assert told_of(client, gone) is None


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
