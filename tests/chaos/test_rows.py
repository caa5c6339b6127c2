"""Each row of the failure table once: ``pytest tests/chaos -k worker-killed``. ``make chaos`` plays more of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.rounds import Tally, play
from tests.chaos.rows import Row, chosen
from tests.support.chaos_fleet import Fleet
from tests.support.processes import StoreProcess

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(150)]


@pytest.fixture
def installed(valkey: StoreProcess) -> Iterator[None]:
    """Skips, or fails under CI, where the store's wheel is missing."""
    yield


@pytest.mark.parametrize("row", chosen(quick=True), ids=lambda row: row.name)
async def test_the_promise_holds(row: Row, installed: None) -> None:
    tally = Tally(row)
    async with Fleet(row.far) as fleet:
        await play(row, fleet, "pytest.0", tally)
    assert tally.faults == {}, f"{row.promise}; again: make chaos ROUNDS=1 SEED=pytest.0 ROW={row.name}"
