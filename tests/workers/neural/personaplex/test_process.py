"""A real engine process on tiny weights: stepped at its pace, killed, and continued in the next one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.support.held import holder
from workers.engine.contract import Stepped
from workers.engine.process import EngineEvent, EngineProcess, Failed, Ready, Refused
from workers.engine.starting import Ways
from workers.neural.personaplex.engine import PersonaPlexEngine, make
from workers.neural.personaplex.memory import unpack_frames

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

FACTORY = "workers.neural.personaplex.engine:make"
OPTIONS = {"weights": "random", "shape": "tiny", "slots": "2", "threads": "1"}
OPENING = {"session_id": "sess_1", "incarnation": 0, "instructions": "be kind"}
PATIENCE_S = 120.0
SOUND = np.random.default_rng(2).normal(0, 0.1, (24, 1920)).astype(np.float32)


class Ear:
    """Collects what one session hears."""

    def __init__(self) -> None:
        self.heard: list[EngineEvent] = []
        self._news = asyncio.Event()

    def __call__(self, event: EngineEvent) -> None:
        self.heard.append(event)
        self._news.set()

    async def until(self, holds: Callable[[list[EngineEvent]], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds(self.heard):
                self._news.clear()
                await self._news.wait()

    @property
    def stepped(self) -> list[Stepped]:
        return [event for event in self.heard if isinstance(event, Stepped)]


async def talk(engine: EngineProcess, ear: Ear, sound: np.ndarray) -> list[Stepped]:
    """Feed ``sound`` no faster than it is stepped; what came back."""
    before = len(ear.stepped)
    for number, frame in enumerate(sound, 1):
        engine.feed("a", frame.tobytes())
        await ear.until(lambda heard, wanted=before + number: len(ear.stepped) >= wanted)  # type: ignore[misc]
    return ear.stepped[before:]


def check(found: list[Stepped], never_killed: PersonaPlexEngine) -> None:
    """Hold these frames against those of an engine that was never killed, of the same codes of the caller."""
    _, ids = unpack_frames(b"".join(one.memory for one in found))
    never_killed.load()
    for _ in never_killed.open(0, OPENING, b""):
        pass
    beat, parts = never_killed.parts.beat, never_killed.parts.beat.parts
    for number, one in enumerate(found):
        heard = torch.from_numpy(ids[number, 9:])
        beat.parts = (lambda heard=heard: beat.stepper.user.copy_(heard.expand(2, -1)), *parts[1:])  # type: ignore[misc]
        (true,) = never_killed.step([0], SOUND[:1])
        assert (one.memory, one.text) == (true.memory, true.text), number
        sound, true_sound = (np.frombuffer(each.pcm, np.int16).astype(int) for each in (one, true))
        assert abs(sound - true_sound).max() <= 1, number


async def test_a_session_whose_process_was_killed_goes_on_in_the_next_one() -> None:
    """All its ids are those that one engine makes, which was never killed, of the same codes of the caller."""
    engine = EngineProcess(FACTORY, OPTIONS, python=sys.executable)
    facts = await engine.start(timeout_s=PATIENCE_S)
    assert (facts.name, facts.slots, facts.samples_in) == ("nvidia/personaplex-7b-v1", 2, 1920)
    ear = Ear()
    engine.open("a", OPENING, ear)
    await ear.until(lambda heard: heard == [Ready()])
    found = await talk(engine, ear, SOUND[:14])
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await engine.ended()
    assert isinstance(ear.heard[-1], Failed)
    await engine.start(timeout_s=PATIENCE_S)
    second = Ear()
    engine.open("a", OPENING, second, b"".join(one.memory for one in found))
    found += await talk(engine, second, SOUND[14:])
    await engine.stop()
    assert len(found) == len(SOUND)
    check(found, make(OPTIONS))


async def test_one_that_waited_goes_on_in_the_window_that_was_left() -> None:
    """Killed again and again, each time with frames on their way that nobody will hear of."""
    options = {**OPTIONS, "keep": "windows", "standby": "yes"}
    ways = Ways(holds=True, standby=True, steady_s=0.0, standby_after_s=0.0)
    engine = EngineProcess(FACTORY, options, python=sys.executable, ways=ways)
    await engine.start(timeout_s=PATIENCE_S)
    found: list[Stepped] = []
    for _ in range(3):
        ear = Ear()
        engine.open("a", OPENING, ear, b"".join(one.memory for one in found))
        await talk(engine, ear, SOUND[:9])
        async with asyncio.timeout(PATIENCE_S):
            await engine.starter.standby.prepared.wait()
        waiting, pid = engine.starter.standby.pid, engine.pid
        assert pid is not None
        engine.feed("a", SOUND[9:12].tobytes())
        os.kill(pid, signal.SIGKILL)
        await engine.ended()
        found += ear.stepped
        await engine.start(timeout_s=PATIENCE_S)
        assert engine.pid == waiting
    await engine.stop()
    with holder() as lines:
        never_killed = make(options)
        never_killed.hold(lines())
        check(found, never_killed)


async def test_refusals_come_through_with_code_and_field() -> None:
    engine = EngineProcess(FACTORY, OPTIONS, python=sys.executable)
    await engine.start(timeout_s=PATIENCE_S)
    ear, broken = Ear(), Ear()
    engine.open("a", {**OPENING, "instructions": "word " * 50}, ear)
    engine.open("b", OPENING, broken, b"no memory")
    for each in (ear, broken):
        await each.until(bool)
    await engine.stop()
    refusals = [each.heard[0] for each in (ear, broken)]
    assert [(one.code, one.param) for one in refusals if isinstance(one, Refused)] == [
        ("invalid_duplex_runtime_config", "session.instructions"),
        ("runtime_open_failed", None),
    ]
