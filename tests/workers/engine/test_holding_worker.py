"""The worker's end of the process that owns memory."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from workers.engine.holding import Holding
from workers.engine.holding_worker import HolderProcess

pytestmark = pytest.mark.unit

PATIENCE_S = 60.0


async def test_it_lends_lines_and_is_gone_when_stopped_without_being_missed() -> None:
    lost = asyncio.Event()
    holder = await HolderProcess.start(sys.executable, {}, lost.set)
    first, second = Holding(holder.lend()), Holding(holder.lend())
    await asyncio.to_thread(first.make, "weights", 100, "cpu")
    assert await asyncio.to_thread(second.find, "weights") is not None
    async with asyncio.timeout(PATIENCE_S):
        await holder.stop()
    assert not holder.is_alive and not lost.is_set()
    await holder.stop()


async def test_it_is_told_when_it_ends_by_itself() -> None:
    lost = asyncio.Event()
    holder = await HolderProcess.start(sys.executable, {}, lost.set)
    os.kill(holder.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        await lost.wait()
    assert not holder.is_alive
    with pytest.raises(OSError, match="Broken pipe"):
        holder.lend()
    await holder.stop()


async def test_an_interpreter_that_is_not_there_raises() -> None:
    with pytest.raises(OSError, match="/nowhere/python"):
        await HolderProcess.start("/nowhere/python", {}, lambda: None)
