"""A real engine process: opened, fed, stepped, sick, dead; in whatever interpreter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import numpy as np
import pytest
import uvloop

from tests.support import ears
from tests.support.toy_engine import CRASHING, DEADLY, SICK, frame
from tests.support.toy_nemotron import frame as silence
from workers.engine.contract import Stepped
from workers.engine.process import EngineEvent, EngineLost, EngineProcess, Failed, Overfull, Ready, Refused, Timing
from workers.engine.pulse import Pulse
from workers.engine.turns import TurnPiece, pack_turn

pytestmark = pytest.mark.unit

TOY = "tests.support.toy_engine:ToyEngine"
PATIENCE_S = 60.0


class Ear(ears.Ear[EngineEvent]):
    """Collects what one session hears."""

    def __init__(self) -> None:
        super().__init__(PATIENCE_S)

    async def stepped(self, count: int) -> list[Stepped]:
        await self.until(lambda heard: sum(isinstance(event, Stepped) for event in heard) >= count)
        return [event for event in self.heard if isinstance(event, Stepped)]


@pytest.fixture
async def toy() -> AsyncIterator[EngineProcess]:
    process = EngineProcess(TOY, {"slots": "2"})
    facts = await process.start(timeout_s=PATIENCE_S)
    assert (facts.name, facts.slots, facts.samples_in) == ("toy", 2, 320)
    yield process
    await process.stop()


def sums(stepped: list[Stepped]) -> list[int]:
    return [int(np.frombuffer(each.pcm, np.int16)[0]) for each in stepped]


async def test_a_session_is_opened_fed_and_stepped_in_order(toy: EngineProcess) -> None:
    ear = Ear()
    toy.open("a", {}, ear)
    toy.feed("a", frame(1) + frame(2))
    toy.feed("a", frame(3))
    stepped = await ear.stepped(3)
    assert ear.heard[0] == Ready()
    assert sums(stepped) == [1, 3, 6]
    assert "".join(each.text for each in stepped) == "1 2 3 "
    assert toy.timing.ticks >= 2


async def test_what_a_session_remembers_lets_another_slot_go_on_where_it_stood(toy: EngineProcess) -> None:
    first, second = Ear(), Ear()
    toy.open("a", {}, first)
    toy.feed("a", frame(5) + frame(6))
    memory = b"".join(each.memory for each in await first.stepped(2))
    toy.open("b", {}, second, memory)
    toy.feed("b", frame(1))
    assert sums(await second.stepped(1)) == [12]


async def test_an_engine_that_hangs_is_killed_and_its_sessions_hear_so() -> None:
    process = EngineProcess(TOY, {"slots": "2"}, pulse=partial(Pulse, every_s=0.2, most=20))
    await process.start(timeout_s=PATIENCE_S)
    ear = Ear()
    process.open("a", {}, ear)
    process.feed("a", frame(1))
    await ear.stepped(1)
    process.open("b", {"slow_s": 3600}, Ear())
    await asyncio.wait_for(process.ended(), PATIENCE_S)
    assert isinstance(ear.heard[-1], Failed) and ear.heard[-1].message.endswith("with status -9")
    await process.stop()


async def test_one_that_is_only_slow_is_not() -> None:
    process = EngineProcess(TOY, {"slots": "1"}, pulse=partial(Pulse, every_s=0.2, most=60))
    await process.start(timeout_s=PATIENCE_S)
    ear = Ear()
    process.open("a", {"slow_s": 1}, ear)
    process.feed("a", frame(1))
    await ear.stepped(1)
    assert process.is_alive
    await process.stop()


async def test_a_session_is_informed_and_hears_what_was_forced_or_that_it_was_too_much() -> None:
    process, ear = EngineProcess("tests.support.toy_nemotron:make", {}), Ear()
    await process.start(timeout_s=PATIENCE_S)
    process.inform("a", "nobody is there")
    process.open("a", {"prompt": "", "tools": []}, ear)
    process.inform("a", "abcdefgh", told=1)
    process.inform("a", "x" * 10_000)
    process.feed("a", silence() * 2)
    stepped = await ear.stepped(2)
    assert [(each.function, each.forced) for each in stepped] == [("gh", True), ("", False)]
    assert Overfull("1667 tokens are too many") in ear.heard
    await process.stop()


async def test_refusals_name_their_reason_and_touch_nobody_else(toy: EngineProcess) -> None:
    ears = [Ear() for _ in range(4)]
    toy.open("a", {}, ears[0])
    toy.open("x", {"voice": "unknown"}, ears[1])
    toy.open("b", {}, ears[2])
    toy.open("c", {}, ears[3])
    await ears[1].until(bool)
    await ears[3].until(bool)
    assert ears[1].heard == [Refused("invalid_duplex_runtime_config", "no such voice", "session.voice")]
    assert ears[3].heard == [Refused("resource_exhausted", "every slot is taken", None)]
    toy.close("b")
    again = Ear()
    toy.open("c", {}, again)
    assert (await again.until(bool))[0] == Ready()


async def test_a_sick_session_ends_alone(toy: EngineProcess) -> None:
    sick, well = Ear(), Ear()
    toy.open("sick", {}, sick)
    toy.open("well", {}, well)
    await sick.until(bool)
    await well.until(bool)
    for _ in range(2):
        toy.feed("well", frame(1))
    toy.feed("sick", frame(round(SICK * 1000)))
    assert sums(await well.stepped(2)) == [1, 2]
    last = (await sick.until(lambda heard: isinstance(heard[-1], Failed)))[-1]
    assert isinstance(last, Failed) and "told to fail" in last.message


async def test_a_session_that_cannot_take_what_it_hears_ends_alone(toy: EngineProcess) -> None:
    ear, told = Ear(), asyncio.Queue[EngineEvent]()

    def choke(event: EngineEvent) -> None:
        told.put_nowait(event)
        if isinstance(event, Stepped):
            raise ValueError("not to be written down")

    toy.open("a", {}, choke)
    toy.open("b", {}, ear)
    toy.feed("a", frame(1))
    toy.feed("b", frame(1))
    await ear.stepped(1)
    toy.feed("b", frame(2))
    assert sums(await ear.stepped(2)) == [1, 3]
    async with asyncio.timeout(PATIENCE_S):
        heard = [await told.get() for _ in range(3)]
    assert heard[0] == Ready() and heard[2] == Failed("ValueError: not to be written down")
    toy.open("c", {}, Ear())
    assert toy.is_alive and set(toy._sessions) == {"b", "c"}


@pytest.mark.parametrize(("value", "status"), [(DEADLY, "70"), (CRASHING, "3")])
async def test_when_the_process_dies_everybody_hears_it_and_it_can_be_started_again(
    toy: EngineProcess, value: float, status: str
) -> None:
    ears = [Ear(), Ear()]
    for name, ear in zip("ab", ears, strict=True):
        toy.open(name, {}, ear)
        await ear.until(bool)
    toy.feed("a", frame(round(value * 1000)))
    for ear in ears:
        last = (await ear.until(lambda heard: isinstance(heard[-1], Failed)))[-1]
        assert isinstance(last, Failed) and last.message.endswith(f"status {status}")
    assert not toy.is_alive
    with pytest.raises(EngineLost):
        toy.open("a", {}, ears[0])
    await toy.start(timeout_s=PATIENCE_S)
    again = Ear()
    toy.open("a", {}, again)
    assert (await again.until(bool))[0] == Ready()


async def test_an_engine_that_cannot_load_says_so_at_the_start() -> None:
    process = EngineProcess(TOY, {"broken": "yes"})
    with pytest.raises(EngineLost, match="ended with status 1"):
        await process.start(timeout_s=PATIENCE_S)
    await process.stop()


async def test_an_interpreter_that_is_not_there_is_a_clear_error() -> None:
    process = EngineProcess(TOY, {}, python="/nowhere/python")
    with pytest.raises(EngineLost, match="/nowhere/python cannot be started"):
        await process.start(timeout_s=PATIENCE_S)


def test_timing_is_one_line_for_a_person() -> None:
    timing = Timing()
    assert str(timing) == "no ticks"
    timing.ticks, timing.late, timing.sessions = 3, 1, 2
    timing.recent_ms += [40.0, 50.0, 90.0]
    assert str(timing) == (
        "3 ticks, 1 late; after due: p50 50.0 ms, p99 90.0 ms, max 90.0 ms of the last 3; 2 sessions in the last one"
    )


def test_a_process_that_dies_while_it_is_fed_is_lost_and_nothing_else() -> None:
    """In the loop that workers run: it knows the socket's end before the process's."""

    async def feed_until_lost() -> None:
        process = EngineProcess(TOY, {"slots": "2"})
        await process.start(timeout_s=PATIENCE_S)
        ear = Ear()
        process.open("a", {}, ear)
        await ear.until(bool)
        process.feed("a", frame(round(CRASHING * 1000)))
        async with asyncio.timeout(PATIENCE_S):
            while not any(isinstance(event, Failed) for event in ear.heard):
                if process.is_alive:
                    process.feed("a", b"")
                await asyncio.sleep(0)
        assert not process.is_alive
        process.close("a")
        await process.stop()

    for _ in range(3):
        uvloop.run(feed_until_lost())


# -- turns -----------------------------------------------------------------------------------------------------------


async def test_turns_are_answered_beside_each_other_and_are_over_by_themselves() -> None:
    engine = EngineProcess("tests.support.toy_turns:ToyTurns", {"slots": "2"})
    await engine.start(timeout_s=PATIENCE_S)
    first, second = Ear(), Ear()
    for ear, say in ((first, "abc"), (second, "uvwxyz")):
        opening, blob = pack_turn({"say": say}, [], b"")
        engine.open(say, opening, ear, blob)
    for ear, say in ((first, "abc"), (second, "uvwxyz")):
        heard = await ear.until(lambda heard: any(isinstance(event, TurnPiece) and event.ends for event in heard))
        assert heard[0] == Ready()
        assert "".join(event.text for event in heard if isinstance(event, TurnPiece)) == say
    assert engine._sessions == {}
    assert engine.timing.ticks >= 7
    await engine.stop()


async def test_turns_of_a_process_that_dies_hear_so_and_the_next_one_goes_on_behind_them() -> None:
    engine = EngineProcess("tests.support.toy_turns:ToyTurns", {"slots": "2"})
    await engine.start(timeout_s=PATIENCE_S)
    first, second = Ear(), Ear()
    opening, blob = pack_turn({"say": "abZd"}, [], b"")
    engine.open("a", opening, first, blob)
    heard = await first.until(lambda heard: any(isinstance(event, Failed) for event in heard))
    memory = b"".join(event.memory for event in heard if isinstance(event, TurnPiece))
    await engine.ended()
    await engine.start(timeout_s=PATIENCE_S)
    opening, blob = pack_turn({"say": "abcd"}, [], memory)
    engine.open("a", opening, second, blob)
    heard = await second.until(lambda heard: any(isinstance(event, TurnPiece) and event.ends for event in heard))
    assert "".join(event.text for event in heard if isinstance(event, TurnPiece)) == "cd"
    await engine.stop()
