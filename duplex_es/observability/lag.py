"""How late the event loop is: what every sound in this process waits for besides its own work."""

from __future__ import annotations

import asyncio
import time

from .catalogue import LOOP_LAG
from .recording import Metrics

EVERY_S = 0.25


async def watch_loop(metrics: Metrics) -> None:
    """Measure for as long as the process runs."""
    while True:
        due_s = time.monotonic() + EVERY_S
        await asyncio.sleep(EVERY_S)
        metrics.observe(LOOP_LAG, time.monotonic() - due_s)
