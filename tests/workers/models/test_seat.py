"""A place in an engine: taken, refused, lost and taken again; what came meanwhile is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from duplex_es.model import ModelRefused
from tests.support.toy_engine import CRASHING, SICK, frame
from workers.engine.contract import Stepped
from workers.engine.process import EngineLost, EngineProcess
from workers.engine.units import UnitDone
from workers.models.seat import Seat

pytestmark = pytest.mark.unit

TOY = "tests.support.toy_engine:ToyEngine"
PATIENCE_S = 60.0


class Caller:
    """Notes what it hears, in order."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[tuple[str, object]] = asyncio.Queue()

    def done(self, result: Stepped | UnitDone) -> None:
        self._heard.put_nowait(("done", result.text))

    def dropped(self, duration_ms: int) -> None:
        self._heard.put_nowait(("dropped", duration_ms))

    def failed(self, code: str, message: str) -> None:
        self._heard.put_nowait(("failed", code))

    def lost(self) -> None:
        self._heard.put_nowait(("lost", None))

    async def hears(self) -> tuple[str, object]:
        async with asyncio.timeout(PATIENCE_S):
            return await self._heard.get()

    @property
    def heard_nothing_more(self) -> bool:
        return self._heard.empty()


@pytest.fixture
async def engine() -> AsyncIterator[EngineProcess]:
    process = EngineProcess(TOY, {"slots": "2"})
    await process.start(timeout_s=PATIENCE_S)
    yield process
    await process.stop()


async def test_what_the_engine_has_no_room_for_is_told_to_who_wants_to_know() -> None:
    process, told = EngineProcess("tests.support.toy_nemotron:make", {}), asyncio.Queue[str]()
    facts = await process.start(timeout_s=PATIENCE_S)
    seat = Seat(process, facts, "s", Caller(), overfull=told.put_nowait)
    seat.begin({"prompt": "", "tools": []}, b"")
    await seat.prepared(PATIENCE_S)
    process.inform(seat.name, "x" * 10_000)
    async with asyncio.timeout(PATIENCE_S):
        assert await told.get() == "1667 tokens are too many"
    assert seat.is_live
    await process.stop()


async def seated(engine: EngineProcess, name: str = "s", **opening: object) -> tuple[Seat, Caller]:
    facts = await asyncio.shield(engine._facts)  # type: ignore[arg-type]
    caller = Caller()
    seat = Seat(engine, facts, name, caller)
    seat.begin(opening, b"")
    await seat.prepared(PATIENCE_S)
    return seat, caller


async def test_what_the_engine_does_is_heard_until_the_place_is_given_back(engine: EngineProcess) -> None:
    seat, caller = await seated(engine)
    engine.feed(seat.name, frame(1))
    assert await caller.hears() == ("done", "1 ")
    seat.leave()
    seat.leave()
    assert not seat.is_open and not seat.is_live
    engine.feed(seat.name, frame(2))
    await seated(engine, "other")
    assert caller.heard_nothing_more


async def test_a_refused_opening_raises_and_tells_the_sitter_nothing(engine: EngineProcess) -> None:
    with pytest.raises(ModelRefused, match="no such voice"):
        await seated(engine, voice="unknown")


async def test_a_place_that_is_not_prepared_in_time_is_given_back(engine: EngineProcess) -> None:
    facts = await asyncio.shield(engine._facts)  # type: ignore[arg-type]
    seat = Seat(engine, facts, "slow", Caller())
    seat.begin({"slow_s": 0.3}, b"")
    with pytest.raises(EngineLost, match="not prepared within"):
        await seat.prepared(0.01)
    assert not seat.is_open


async def test_a_place_whose_caller_does_not_wait_for_it_is_given_back(engine: EngineProcess) -> None:
    facts = await asyncio.shield(engine._facts)  # type: ignore[arg-type]
    seat = Seat(engine, facts, "slow", Caller())
    seat.begin({"slow_s": 0.3}, b"")
    waiting = asyncio.create_task(seat.prepared(PATIENCE_S))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not seat.is_open and not engine._sessions


async def test_a_sick_session_fails_and_its_engine_goes_on(engine: EngineProcess) -> None:
    seat, caller = await seated(engine)
    engine.feed(seat.name, frame(round(SICK * 1000)))
    assert await caller.hears() == ("failed", "runtime_data_plane_stream_failed")
    assert engine.is_alive and not seat.is_live


async def test_a_lost_engine_is_told_and_the_next_life_says_what_was_missed(engine: EngineProcess) -> None:
    seat, caller = await seated(engine)
    before = seat.name
    engine.feed(seat.name, frame(round(CRASHING * 1000)))
    assert await caller.hears() == ("lost", None)
    seat.missed(frame(1) + frame(2))
    await engine.start(timeout_s=PATIENCE_S)
    seat.begin({}, b"")
    assert await caller.hears() == ("dropped", 40)
    assert seat.name != before and seat.is_live
    engine.feed(seat.name, frame(5))
    assert await caller.hears() == ("done", "5 ")
