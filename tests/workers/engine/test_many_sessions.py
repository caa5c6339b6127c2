"""What hundreds of sessions leave behind in an engine and in the worker that owns it: nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.ears import Ear
from tests.support.toy_engine import frame
from workers.engine.contract import Stepped
from workers.engine.process import EngineEvent, EngineProcess, Ready

pytestmark = pytest.mark.unit

SESSIONS = 300
WARM_UP = 50
FRAMES = 1_500
PIECE = 10
MOST_GROWTH_BYTES = 2 * 1024 * 1024


def resident_bytes(pid: int) -> int:
    """What a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def one_call(engine: EngineProcess, name: str, frames: int) -> None:
    ear: Ear[EngineEvent] = Ear(60.0)
    engine.open(name, {}, ear)
    await ear.until(lambda heard: bool(heard) and isinstance(heard[0], Ready))
    for at in range(0, frames, PIECE):
        for _ in range(min(PIECE, frames - at)):
            engine.feed(name, frame(1))
        wanted = min(at + PIECE, frames)
        await ear.until(lambda heard, wanted=wanted: sum(isinstance(one, Stepped) for one in heard) >= wanted)
    engine.close(name)


async def test_hundreds_of_calls_and_thousands_of_frames_leave_neither_memory_nor_slots_taken() -> None:  # V48
    engine = EngineProcess("tests.support.toy_engine:ToyEngine", {"slots": "2"})
    await engine.start(timeout_s=60.0)
    assert engine.pid is not None
    for number in range(WARM_UP):
        await one_call(engine, f"warm_{number}", 1)
    before = resident_bytes(engine.pid)
    for number in range(SESSIONS):
        await one_call(engine, f"call_{number}", 1)
    await one_call(engine, "long", FRAMES)
    assert resident_bytes(engine.pid) - before < MOST_GROWTH_BYTES
    assert engine._sessions == {}
    ears: list[Ear[EngineEvent]] = [Ear(60.0), Ear(60.0)]
    for number, ear in enumerate(ears):
        engine.open(f"last_{number}", {}, ear)
    await asyncio.gather(*(ear.until(lambda heard: any(isinstance(one, Ready) for one in heard)) for ear in ears))
    await engine.stop()
