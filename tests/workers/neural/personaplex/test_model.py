"""The whole plug-in on tiny weights: from the worker's requests to its signals, over a real engine process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator

import msgspec
import numpy as np
import pytest

from duplex_es.model import (
    CloseModel,
    FeedAudio,
    Interrupt,
    ModelProducedAudio,
    ModelRemembered,
    ModelSpoke,
    OpenModel,
    Signal,
)
from tests.support import ears
from workers.models.personaplex import PLUGIN
from workers.models.stepping.model import SteppingModel
from workers.neural.moshi.shape import TINY
from workers.neural.personaplex.memory import unpack_frames
from workers.neural.personaplex.silence import silenced

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

OPTIONS = {"python": sys.executable, "weights": "random", "shape": "tiny", "slots": "2", "threads": "1"}
PATIENCE_S = 120.0
SOUND = np.random.default_rng(3).normal(0, 0.1, (40, 1920)).astype(np.float32)


class Ear(ears.Ear[Signal]):
    """Collects one session's signals."""

    def __init__(self) -> None:
        super().__init__(PATIENCE_S)

    async def pieces(self, count: int) -> list[ModelProducedAudio]:
        def found() -> list[ModelProducedAudio]:
            return [one for one in self.heard if isinstance(one, ModelProducedAudio)]

        await self.until(lambda heard: len(found()) >= count)
        return found()

    def memory(self) -> bytes:
        kept = b""
        for one in self.heard:
            if isinstance(one, ModelRemembered):
                kept = one.data if one.anew else kept + one.data
        return kept


@pytest.fixture
async def model() -> AsyncIterator[SteppingModel]:
    found = PLUGIN(OPTIONS)
    await found.load()
    yield found
    await found.unload()


def opening(name: str, **more: object) -> OpenModel:
    return msgspec.structs.replace(OpenModel(session_id=name, incarnation=0, epoch=0, instructions="be kind"), **more)


def said(*frames: int) -> FeedAudio:
    return FeedAudio(epoch=0, pcm=SOUND[list(frames)].tobytes(), end_ms=0)


async def test_a_call_is_one_endless_answer_and_is_remembered(model: SteppingModel) -> None:
    ear = Ear()
    session = await model.open(opening("a"), ear)
    for number in range(5):
        await session.perform(said(number))
        await ear.pieces(number + 1)
    pieces = await ear.pieces(5)
    assert {len(one.pcm) for one in pieces} == {3840} and {one.turn for one in pieces} == {0}
    assert sum(isinstance(one, ModelSpoke) for one in ear.heard) == 1
    _, ids = unpack_frames(ear.memory())
    assert len(ids) == 5
    assert model.capacity == 2 and len(ear.memory()) <= model.info.memory_bytes
    await session.perform(Interrupt(epoch=1))
    await session.perform(said(9))
    await ear.pieces(6)
    assert len(unpack_frames(ear.memory())[1]) == 1
    await session.perform(CloseModel())


async def test_a_cancelled_call_is_rewound_to_what_was_heard() -> None:
    model = PLUGIN({**OPTIONS, "cancel": "rewind", "greedy": "yes"})
    await model.load()
    ear, twin = Ear(), Ear()
    session = await model.open(opening("a"), ear)
    for number in range(6):
        await session.perform(said(number))
        await ear.pieces(number + 1)
    spoken = ear.memory()
    await session.perform(Interrupt(epoch=1, unheard_ms=2 * 80))
    rewound = ear.memory()
    assert rewound == silenced(spoken, 2, TINY) != spoken
    # It goes on as a call does of which that is all that is known.
    other = await model.open(opening("b", memory=rewound), twin)
    for number in range(6, 12):
        await session.perform(said(number))
        await ear.pieces(number + 1)
        await other.perform(said(number))
        await twin.pieces(number - 5)
    assert ear.memory() == rewound + twin.memory()
    await model.unload()


async def goes_on_when_killed(model: SteppingModel) -> None:
    """A call goes on in the same answer when its engine is killed."""
    ear = Ear()
    session = await model.open(opening("a"), ear)
    for number in range(4):
        await session.perform(said(number))
        await ear.pieces(number + 1)
    pid = model.engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await model.engine.ended()
    number = 4
    async with asyncio.timeout(PATIENCE_S):
        # Sound that comes while no engine is there is told as dropped; the first that is heard goes on.
        while len([one for one in ear.heard if isinstance(one, ModelProducedAudio)]) < 6:
            await session.perform(said(number % 40))
            number += 1
            await asyncio.sleep(0.1)
    assert sum(isinstance(one, ModelSpoke) for one in ear.heard) == 1
    first, ids = unpack_frames(ear.memory())
    assert first == 6 + 4 + 6 and len(ids) >= 6


async def test_a_call_goes_on_in_the_same_answer_when_the_engine_is_killed(model: SteppingModel) -> None:
    await goes_on_when_killed(model)


async def test_so_it_does_where_another_process_has_kept_all_of_it() -> None:
    model = PLUGIN({**OPTIONS, "keep": "windows", "standby": "yes"})
    await model.load()
    assert model.engine.starter.holder is not None
    await goes_on_when_killed(model)
    await model.unload()
    assert model.engine.starter.holder is None


async def test_another_worker_takes_a_call_over_by_its_memory(model: SteppingModel) -> None:
    ear, successor = Ear(), Ear()
    session = await model.open(opening("a"), ear)
    for number in range(4):
        await session.perform(said(number))
        await ear.pieces(number + 1)
    await session.perform(CloseModel())
    taken = await model.open(opening("a", memory=ear.memory(), open_turn=0), successor)
    await taken.perform(said(4))
    assert (await successor.pieces(1))[0].turn == 0
    assert not any(isinstance(one, ModelSpoke) for one in successor.heard)
    assert unpack_frames(successor.memory())[0] == unpack_frames(ear.memory())[0] + 4
