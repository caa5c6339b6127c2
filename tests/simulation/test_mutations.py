"""Bugs planted one by one: the simulation finds each of them, and nothing in the same schedule without it."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.simulate import simulate
from tests.simulation.world import installed

pytestmark = pytest.mark.unit

MOST_SCHEDULES = 60
FORM = "without a claim"
"""What is seen at a glance, without anything having gone wrong for anybody: not what the test is about."""


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_found(name: str) -> None:
    plant, mood = MUTATIONS[name]
    with installed() as world:
        for seed in range(1, MOST_SCHEDULES + 1):
            with plant():
                found = simulate(world, seed, mood=mood).violations
            # What a schedule breaks without the bug, too, is another matter.
            if any(FORM not in text for text in found) and not simulate(world, seed, mood=mood).violations:
                return
    pytest.fail(f"{MOST_SCHEDULES} schedules found nothing wrong with {name}")
