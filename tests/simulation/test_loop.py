"""The loop: time jumps, processes take turns, stall and die, and the same draw gives the same order."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.simulation.loop import Overrun, SimulatedLoop

pytestmark = pytest.mark.unit


def made(seed: int = 1, **settings: int) -> SimulatedLoop:
    return SimulatedLoop(random.Random(seed), **settings)


def test_an_hour_passes_at_once() -> None:
    loop = made()

    async def sleeper() -> None:
        await asyncio.sleep(3600)
        loop.finish()

    loop.spawn(loop.outside, sleeper())
    began_s = loop.time()
    assert loop.run_schedule(began_s + 4000)
    assert loop.time() == began_s + 3600


def test_a_schedule_ends_at_its_limit() -> None:
    loop = made()
    loop.spawn(loop.outside, asyncio.sleep(100))
    assert not loop.run_schedule(loop.time() + 50)


def test_a_stalled_process_runs_nothing_until_it_wakes() -> None:
    loop, ran_s = made(), []
    process = loop.process("p")

    async def ticks() -> None:
        while True:
            await asyncio.sleep(1)
            ran_s.append(loop.time() - 1_000)

    loop.spawn(process, ticks())
    loop.stall(process, 5.5)
    loop.run_schedule(loop.time() + 8)
    assert ran_s == [6.5, 7.5]


def test_a_dead_process_does_not_even_clean_up() -> None:
    loop, cleaned = made(), []
    process = loop.process("p")

    async def work() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            cleaned.append(True)

    loop.spawn(process, work())
    loop.call_later(0.5, loop.kill, process)
    loop.run_schedule(loop.time() + 5)
    assert not cleaned


def order(seed: int) -> list[str]:
    loop, ran = made(seed), []

    async def steps(name: str) -> None:
        for number in range(5):
            ran.append(f"{name}{number}")
            await asyncio.sleep(0)

    for name in "ab":
        loop.spawn(loop.process(name), steps(name))
    loop.run_schedule(loop.time() + 1)
    return ran


def test_the_draw_decides_which_process_goes_on() -> None:
    assert order(3) == order(3)
    assert len({tuple(order(seed)) for seed in range(20)}) >= 4


def test_within_a_process_the_order_is_that_of_asyncio() -> None:
    for seed in range(20):
        assert [step for step in order(seed) if step[0] == "a"] == [f"a{number}" for number in range(5)]


def test_spinning_without_time_is_an_error() -> None:
    loop = made(most_steps=1_000)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    loop.spawn(loop.outside, spin())
    with pytest.raises(Overrun):
        loop.run_schedule(loop.time() + 1)
    loop.bury()
