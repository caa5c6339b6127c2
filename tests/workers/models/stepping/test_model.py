"""A model that steps, over a real engine process: opened, refused, lost and found again, and continued elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import numpy as np
import pytest

from duplex_es.model import (
    CloseModel,
    FeedAudio,
    Interrupt,
    ModelDroppedInput,
    ModelFailed,
    ModelInfo,
    ModelProducedAudio,
    ModelRefused,
    ModelRemembered,
    ModelSpoke,
    OpenModel,
    Signal,
)
from duplex_es.protocol.objects import Capabilities
from tests.support import ears
from tests.support.toy_engine import CRASHING, SICK, frame
from workers.engine.process import EngineLost
from workers.models.stepping.model import EnginePlan, SteppingModel
from workers.models.stepping.voice import Manner

pytestmark = pytest.mark.unit

PATIENCE_S = 60.0
INFO = ModelInfo(name="toy", capabilities=Capabilities(), output_rate_hz=16_000, memory_bytes=200)
TOY = EnginePlan("tests.support.toy_engine:ToyEngine", {"slots": "2"})


class Ear(ears.Ear[Signal]):
    """Collects one session's signals."""

    def __init__(self) -> None:
        super().__init__(PATIENCE_S)

    async def sounds(self, count: int) -> list[int]:
        """The first sample of each of the first ``count`` pieces of sound."""
        await self.until(lambda heard: sum(isinstance(one, ModelProducedAudio) for one in heard) >= count)
        pieces = [one.pcm for one in self.heard if isinstance(one, ModelProducedAudio)]
        return [int(np.frombuffer(pcm, np.int16)[0]) for pcm in pieces[:count]]

    def memory(self) -> bytes:
        kept = b""
        for one in self.heard:
            if isinstance(one, ModelRemembered):
                kept = one.data if one.anew else kept + one.data
        return kept


@pytest.fixture
async def toy() -> AsyncIterator[SteppingModel]:
    model = SteppingModel(INFO, TOY, Manner())
    await model.load()
    yield model
    await model.unload()


def opening(name: str = "s", **more: object) -> OpenModel:
    return msgspec.structs.replace(OpenModel(session_id=name, incarnation=0, epoch=0), **more)


def fed(*values: float) -> FeedAudio:
    return FeedAudio(epoch=0, pcm=b"".join(frame(value) for value in values), end_ms=0)


async def test_sound_in_is_sound_out_and_memory_beside_it(toy: SteppingModel) -> None:
    ear = Ear()
    session = await toy.open(opening(), ear)
    await session.perform(fed(1, 2))
    assert await ear.sounds(2) == [1, 3]
    assert ear.heard[:2] == [ModelRemembered(epoch=0, data=b"\x01\x00"), ModelSpoke(epoch=0, turn=0)]
    assert toy.capacity == 2
    await session.perform(CloseModel())


async def test_another_process_goes_on_exactly_where_this_one_stood(toy: SteppingModel) -> None:
    ear, successor = Ear(), Ear()
    session = await toy.open(opening(), ear)
    await session.perform(fed(5, 6))
    await ear.sounds(2)
    other = SteppingModel(INFO, TOY, Manner())
    await other.load()
    try:
        rebuilt = await other.open(opening(memory=ear.memory(), open_turn=0), successor)
        await rebuilt.perform(fed(1))
        assert await successor.sounds(1) == [12]
        assert not any(isinstance(one, ModelSpoke) for one in successor.heard)
    finally:
        await other.unload()


async def test_an_interruption_starts_the_context_over(toy: SteppingModel) -> None:
    ear = Ear()
    session = await toy.open(opening(), ear)
    await session.perform(fed(7))
    await ear.sounds(1)
    await session.perform(Interrupt(epoch=1))
    assert ear.memory() == b""
    await session.perform(fed(2))
    assert await ear.sounds(2) == [7, 2]
    assert ear.heard[-2:] == [ModelSpoke(epoch=1, turn=1), ear.heard[-1]]


async def test_a_model_that_can_takes_back_what_was_not_heard() -> None:
    """The toy remembers two bytes a frame, and says the sum of all it remembers and hears."""
    manner = Manner(silenced=lambda memory, frames: memory[: -2 * frames or None] + b"\0\0" * frames)
    model = SteppingModel(INFO, TOY, manner)
    await model.load()
    try:
        ear = Ear()
        session = await model.open(opening(), ear)
        await session.perform(Interrupt(epoch=1))
        assert ear.memory() == b"", "there was nothing to take back"
        await session.perform(fed(3, 4, 5))
        await ear.sounds(3)
        # Two frames of 20 ms, and a part of a third: what was heard in part is kept.
        await session.perform(Interrupt(epoch=2, unheard_ms=2 * 20 + 1))
        assert ear.memory() == b"\x03\x00" + b"\0\0" * 2
        await session.perform(fed(1))
        assert (await ear.sounds(4))[-1] == 4
        assert ear.heard[-2:] == [ModelSpoke(epoch=2, turn=1), ear.heard[-1]]
    finally:
        await model.unload()


async def test_refusals_name_their_reason(toy: SteppingModel) -> None:
    with pytest.raises(ModelRefused) as refused:
        await toy.open(opening(voice="unknown"), Ear())
    assert (refused.value.code, refused.value.param) == ("invalid_duplex_runtime_config", "session.voice")
    for name in "ab":
        await toy.open(opening(name), Ear())
    with pytest.raises(ModelRefused) as refused:
        await toy.open(opening("c"), Ear())
    assert refused.value.code == "resource_exhausted"


async def test_a_sick_session_fails_alone(toy: SteppingModel) -> None:  # V47
    sick, well = Ear(), Ear()
    first, second = await toy.open(opening("a"), sick), await toy.open(opening("b"), well)
    await first.perform(fed(SICK * 1000))
    await second.perform(fed(1))
    await sick.until(lambda heard: any(isinstance(one, ModelFailed) and one.fatal for one in heard))
    assert await well.sounds(1) == [1]


async def test_sessions_go_on_when_the_engine_died_and_hear_what_was_dropped(toy: SteppingModel) -> None:
    ear, other = Ear(), Ear()
    session, killer = await toy.open(opening("a"), ear), await toy.open(opening("b"), other)
    await session.perform(fed(3))
    await ear.sounds(1)
    await killer.perform(fed(CRASHING * 1000))
    async with asyncio.timeout(PATIENCE_S):
        await toy.engine.ended()
    await session.perform(fed(100))  # nobody is there to hear it
    await ear.until(lambda heard: bool(heard) and isinstance(heard[-1], ModelDroppedInput))
    assert ear.heard[-1] == ModelDroppedInput(epoch=0, duration_ms=20)
    await session.perform(fed(4))
    assert await ear.sounds(2) == [3, 7]
    assert sum(isinstance(one, ModelSpoke) for one in ear.heard) == 1


async def test_an_engine_that_is_not_what_was_announced_is_not_used() -> None:
    model = SteppingModel(msgspec.structs.replace(INFO, output_rate_hz=24_000), TOY, Manner())
    with pytest.raises(EngineLost, match="not as announced"):
        await model.load()
