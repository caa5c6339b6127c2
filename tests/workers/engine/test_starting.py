"""What the next process of an engine gets of what the last one left, by how that one ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.toy_engine import CRASHING, DEADLY, frame
from workers.engine.booting import ROOT
from workers.engine.process import EngineEvent, EngineLost, EngineProcess
from workers.engine.starting import Ways

pytestmark = pytest.mark.unit

KEEPING = "tests.support.keeping_engine:KeepingEngine"
PATIENCE_S = 60.0


def engine_with(**ways: object) -> EngineProcess:
    defaults = {"holds": True, "standby": False, "steady_s": 0.0, "standby_after_s": 0.0}
    return EngineProcess(KEEPING, {}, ways=Ways(**{**defaults, **ways}))  # type: ignore[arg-type]


@pytest.fixture
async def engines() -> AsyncIterator[list[EngineProcess]]:
    started: list[EngineProcess] = []
    yield started
    for engine in started:
        await engine.stop()


async def started(engine: EngineProcess) -> str:
    """What the engine says of itself once it is loaded."""
    return (await engine.start(timeout_s=PATIENCE_S)).device


async def killed(engine: EngineProcess) -> None:
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        await engine.ended()


async def ended_by(engine: EngineProcess, value: float) -> None:
    """Let a frame end the process."""
    heard: list[EngineEvent] = []
    engine.open("a", {}, heard.append)
    engine.feed("a", frame(round(value * 1000)))
    async with asyncio.timeout(PATIENCE_S):
        await engine.ended()


async def test_weights_that_were_filled_once_are_found_by_all_that_come_after(engines: list[EngineProcess]) -> None:
    engine = engine_with()
    engines.append(engine)
    assert await started(engine) == "saw none, filled them"
    await killed(engine)
    assert await started(engine) == "saw weights, found them"
    await ended_by(engine, CRASHING)
    assert await started(engine) == "saw weights, found them"


async def test_nothing_is_left_by_a_process_whose_device_is_at_fault(engines: list[EngineProcess]) -> None:
    engine = engine_with()
    engines.append(engine)
    await started(engine)
    await ended_by(engine, DEADLY)
    assert await started(engine) == "saw none, filled them"


async def test_what_a_process_died_of_soon_after_it_took_it_over_is_not_left_to_a_third(
    engines: list[EngineProcess],
) -> None:
    engine = engine_with(steady_s=60.0)
    engines.append(engine)
    await started(engine)
    await killed(engine)
    assert await started(engine) == "saw weights, found them"
    await killed(engine)
    assert await started(engine) == "saw none, filled them"
    await killed(engine)
    assert await started(engine) == "saw weights, found them"


async def test_without_a_holder_every_process_has_its_own(engines: list[EngineProcess]) -> None:
    engine = engine_with(holds=False)
    engines.append(engine)
    assert await started(engine) == "saw none, has its own"
    assert engine.starter.holder is None


async def test_one_that_waits_takes_over_and_the_next_one_waits(engines: list[EngineProcess]) -> None:
    engine = engine_with(standby=True)
    engines.append(engine)
    await started(engine)
    for _ in range(2):
        async with asyncio.timeout(PATIENCE_S):
            await engine.starter.standby.prepared.wait()
        waiting = engine.starter.standby.pid
        await killed(engine)
        assert await started(engine) == "saw weights, found them"
        assert engine.pid == waiting


async def test_one_that_waits_goes_with_memory_that_is_not_trusted(engines: list[EngineProcess]) -> None:
    engine = engine_with(standby=True)
    engines.append(engine)
    await started(engine)
    async with asyncio.timeout(PATIENCE_S):
        await engine.starter.standby.prepared.wait()
    waiting = engine.starter.standby.pid
    await ended_by(engine, DEADLY)
    assert await started(engine) == "saw none, filled them"
    assert engine.pid != waiting and waiting is not None
    with pytest.raises(ProcessLookupError):
        os.kill(waiting, 0)


async def test_an_engine_does_not_outlive_the_memory_it_works_in(engines: list[EngineProcess]) -> None:
    engine = engine_with()
    engines.append(engine)
    await started(engine)
    assert engine.starter.holder is not None
    os.kill(engine.starter.holder.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        await engine.ended()
    assert await started(engine) == "saw none, filled them"


async def test_a_failed_start_leaves_nothing_behind() -> None:
    engine = EngineProcess(KEEPING, {"broken": "yes"}, ways=Ways(holds=True, standby=True))
    with pytest.raises(EngineLost, match="ended with status 1"):
        await engine.start(timeout_s=PATIENCE_S)
    assert engine.starter.holder is None and engine.pid is None


def is_there(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not waited for does not."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_worker_that_is_killed_leaves_no_process_behind() -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.engine_owner_process"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    left = [int(each) for each in worker.stdout.readline().split()]
    assert len(left) == 3 and all(is_there(each) for each in left)
    worker.kill()
    worker.communicate()
    async with asyncio.timeout(PATIENCE_S):
        while any(is_there(each) for each in left):
            await asyncio.sleep(0.01)
