"""Units: how audio is cut, when silence stands in for it, and that neither drifts."""

from __future__ import annotations

import asyncio

import pytest

from workers.models.units import Units, UnitShape

pytestmark = pytest.mark.unit

SECOND = UnitShape(period_ms=1000, first_ms=1030)
FRAME = UnitShape(period_ms=80)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_unit_is_longer_and_every_later_one_as_long_as_the_period() -> None:
    units = Units(SECOND, 16_000, real_time=False, now_s=Clock())
    closed = [units.hear(1_600) for _ in range(41)]
    assert [place for place, count in enumerate(closed, 1) if count] == [11, 21, 31, 41]


@pytest.mark.parametrize("chunk", [1, 159, 1_280, 1_281, 16_000])
def test_a_unit_does_not_depend_on_how_its_audio_came(chunk: int) -> None:
    units, heard = Units(FRAME, 16_000, real_time=False, now_s=Clock()), 16_000
    closed = sum(units.hear(min(chunk, heard - at)) for at in range(0, heard, chunk))
    assert closed == heard // 1_280


def test_a_turn_that_ends_inside_a_unit_is_filled_up_and_one_that_ends_at_its_border_is_not() -> None:
    units = Units(FRAME, 16_000, real_time=False, now_s=Clock())
    units.hear(1_281)
    assert units.pad() == 1
    assert units.pad() == 0
    units.hear(1_280)
    assert units.pad() == 0


def test_cleared_audio_is_no_part_of_a_unit() -> None:
    units = Units(FRAME, 16_000, real_time=False, now_s=Clock())
    units.hear(1_279)
    units.drop()
    assert units.hear(1_279) == 0
    assert units.hear(1) == 1


async def test_an_answer_gets_the_unit_that_led_to_it_and_then_the_callers() -> None:
    units = Units(FRAME, 16_000, real_time=True)
    units.hear(1_280 * 5)
    units.begin()
    assert await units.next()
    waiting = asyncio.ensure_future(units.next())
    await asyncio.sleep(0)
    assert not waiting.done(), "what was heard before the answer is no unit of it"
    units.hear(1_280)
    assert await asyncio.wait_for(waiting, 30)


async def test_silence_comes_after_a_period_counted_from_the_unit_before() -> None:
    clock = Clock()
    units = Units(UnitShape(period_ms=5_000), 16_000, real_time=True, now_s=clock)
    units.begin()
    assert await units.next()
    loop = asyncio.get_running_loop()
    began = loop.time()
    clock.now = 4.99
    assert await units.next()
    assert loop.time() - began < 4.0, "most of the period had passed"
    clock.now = 10.0
    began = loop.time()
    assert await units.next()
    assert loop.time() - began < 4.0, "the third unit is due at 10 s whatever the second one took"


async def test_without_a_clock_silence_comes_at_once_and_only_so_often() -> None:
    units = Units(FRAME, 16_000, real_time=False, most_silence=8)
    units.begin()
    assert [await units.next() for _ in range(11)] == [True] * 9 + [False] * 2
    units.hear(1_280)
    assert await units.next()
    assert not await units.next()
    units.begin()
    assert await units.next(), "every answer has its own silence"


async def test_an_endless_answer_takes_its_time_even_without_a_clock() -> None:
    units = Units(UnitShape(period_ms=30), 16_000, real_time=False)
    units.begin()
    assert await units.next(endless=True)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await units.next(endless=True)
    assert loop.time() - began > 0.02
