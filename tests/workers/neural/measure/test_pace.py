"""The paced run on a machine that keeps up, and on one that does not."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from workers.neural.measure.pace import PERIOD_S, Plan, paced, rebuild_all, remembered
from workers.neural.personaplex.engine import PersonaPlexEngine, make
from workers.neural.personaplex.memory import unpack_frames

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def engine() -> Iterator[PersonaPlexEngine]:
    found = make({"weights": "random", "shape": "tiny", "slots": "2", "threads": "1"})
    found.load()
    yield found


def test_a_beat_that_takes_longer_than_its_period_is_late(
    engine: PersonaPlexEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = engine.step

    def slow(*arguments: object) -> object:
        time.sleep(PERIOD_S)
        return step(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "step", slow)
    found = paced(engine, Plan(2, seconds=0.3, join_every=100))
    assert found["beats"] == found["late"] == 3 and not found["passed"]


def test_what_is_remembered_follows_the_opening_that_is_used(engine: PersonaPlexEngine) -> None:
    first, ids = unpack_frames(remembered(engine, 5))
    assert ids.shape == (5, 17) and first > 12
    assert rebuild_all(engine, 5)["slots"] == 2
