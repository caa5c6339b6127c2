"""Background work: in order, droppable, and never silently lost."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.model import ModelFailed, ModelFinished, ModelSpoke, Signal
from workers.models.agenda import Agenda
from workers.models.floor import AnswerCut, Floor

pytestmark = pytest.mark.unit


class Desk:
    """An agenda with everything it needs, and work that leaves traces."""

    def __init__(self) -> None:
        self.told: list[Signal] = []
        self.floor = Floor(self.told.append, output_rate_hz=1000, lead_ms=None)
        self.agenda = Agenda(self.floor, "test")
        self.done: list[str] = []
        self.gate = asyncio.Event()
        self.began = asyncio.Event()

    async def wait(self, name: str) -> None:
        self.began.set()
        await self.gate.wait()
        self.done.append(name)

    async def quick(self, name: str) -> None:
        self.done.append(name)

    async def settle(self) -> None:
        while not self.agenda.is_idle:
            await asyncio.sleep(0)


@pytest.fixture
async def desk() -> Desk:
    return Desk()


async def test_work_is_done_in_order(desk: Desk) -> None:
    desk.agenda.add(0, lambda: desk.wait("first"))
    desk.agenda.add(0, lambda: desk.quick("second"))
    await desk.began.wait()
    assert desk.done == []
    desk.gate.set()
    await desk.settle()
    assert desk.done == ["first", "second"]


async def test_dropping_stops_what_runs_and_forgets_what_is_older(desk: Desk) -> None:
    desk.agenda.add(0, lambda: desk.wait("running"))
    desk.agenda.add(0, lambda: desk.quick("waiting"))
    desk.agenda.add(1, lambda: desk.quick("newer"))
    await desk.began.wait()
    desk.agenda.drop(1)
    desk.gate.set()
    await desk.settle()
    assert desk.done == ["newer"]


async def test_work_of_the_same_epoch_is_not_dropped(desk: Desk) -> None:
    desk.agenda.add(1, lambda: desk.wait("running"))
    await desk.began.wait()
    desk.agenda.drop(1)
    desk.gate.set()
    await desk.settle()
    assert desk.done == ["running"]


async def test_work_that_drops_goes_on_itself(desk: Desk) -> None:
    async def turn_over() -> None:
        desk.agenda.drop(1)
        await asyncio.sleep(0)
        desk.done.append("went on")

    desk.agenda.add(0, turn_over)
    desk.agenda.add(0, lambda: desk.quick("dropped"))
    await desk.settle()
    assert desk.done == ["went on"]


async def test_work_that_raises_fails_its_answer_and_the_next_is_done(desk: Desk) -> None:
    async def break_down() -> None:
        desk.floor.begin()
        raise ValueError("no words")

    desk.agenda.add(0, break_down)
    desk.agenda.add(0, lambda: desk.quick("next"))
    await desk.settle()
    assert desk.told[-1] == ModelFailed(epoch=0, code="response_error", message="ValueError: no words")
    assert [type(signal) for signal in desk.told] == [ModelSpoke, ModelFailed]
    assert desk.done == ["next"]


async def test_an_answer_that_was_cut_is_no_failure(desk: Desk) -> None:
    async def be_cut() -> None:
        raise AnswerCut

    desk.agenda.add(0, be_cut)
    await desk.settle()
    assert desk.told == []


async def test_closing_waits_until_all_has_stopped(desk: Desk) -> None:
    async def speak() -> None:
        answer = desk.floor.begin()
        try:
            await desk.wait("spoken")
        finally:
            desk.done.append("stopped")
        answer.finish()

    desk.agenda.add(0, speak)
    desk.agenda.add(0, lambda: desk.quick("waiting"))
    await desk.began.wait()
    await desk.agenda.close()
    desk.agenda.add(0, lambda: desk.quick("late"))
    assert desk.done == ["stopped"]
    assert not any(isinstance(signal, ModelFinished) for signal in desk.told)
