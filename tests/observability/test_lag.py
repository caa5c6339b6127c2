"""A loop that is held up is seen to be late."""

from __future__ import annotations

import asyncio
import time

import pytest

from duplex_es.observability import lag
from duplex_es.observability.prometheus import PrometheusMetrics

pytestmark = pytest.mark.unit


async def test_a_loop_that_is_held_up_is_seen_to_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "EVERY_S", 0.01)
    metrics = PrometheusMetrics("worker")
    watching = asyncio.create_task(lag.watch_loop(metrics))
    await asyncio.sleep(0)
    time.sleep(0.12)  # the very thing that is measured
    async with asyncio.timeout(30):
        while b'duplex_loop_lag_seconds_bucket{le="+Inf"} 0.0' in metrics.exposition():
            await asyncio.sleep(0.01)
    watching.cancel()
    text = metrics.exposition().decode()
    late = float(text.split("duplex_loop_lag_seconds_sum ")[1].split("\n")[0])
    assert late >= 0.1
