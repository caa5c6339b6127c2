"""Each quick row of the failure table once: ``pytest tests/chaos -k worker-killed``. ``make chaos`` plays more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.catalogue import chosen
from tests.chaos.rounds import play
from tests.chaos.table import Row
from tests.support.chaos_fleet import Fleet
from tests.support.processes import StoreProcess

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.fixture
def installed(valkey: StoreProcess) -> Iterator[None]:
    """Skips, or fails under CI, where the store's wheel is missing."""
    yield


@pytest.mark.parametrize("row", chosen(quick=True), ids=lambda row: row.name)
async def test_the_promise_holds(row: Row, installed: None) -> None:
    async with Fleet(row.scene) as fleet:
        result = await play(row, fleet, "pytest.0")
    assert result.faults == [], f"{row.promise}; again: make chaos ROUNDS=1 SEED=pytest.0 ROW={row.name}"
