"""The plug-in with the tiny engine in its process: the contract's promises, tools, and the death of the engine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import cast

import numpy as np
import pytest
import pytest_asyncio

from duplex_es.model import CloseModel, FeedAudio, Model, ModelCalledFunction, ModelRemembered, ToolOutput
from duplex_es.testing.model_suite import Caller, promised, words_of
from tests.support.loaded_suite import LoadedSuite
from workers.models.nemotron import PLUGIN, NemotronModel, session
from workers.models.nemotron.record import unpack
from workers.models.nemotron.session import NemotronSession
from workers.models.nemotron.tools import ToolCall
from workers.neural_nemotron.memory import Remembered, unpack_frames

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

OPTIONS = {
    "python": sys.executable,
    "weights": "random",
    "shape": "tiny",
    "device": "cpu",
    "slots": "3",
    "threads": "1",
    "memory_frames": "200",
    "context_frames": "800",
    "chunk_frames": "16",
    "speech": "tests.support.toy_talker:make",
}
FRAMES = np.random.default_rng(3).normal(scale=0.1, size=(60, 1_280)).astype(np.float32)
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def nobody_speaks_for_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise never falls silent by itself: it would be listened to for ever."""
    monkeypatch.setattr(session, "GAP_MS", 10**9)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def loaded() -> AsyncIterator[NemotronModel]:
    """One loaded model for all: loading it takes longer than any test."""
    model = PLUGIN(OPTIONS)
    await model.load()
    yield model
    await model.unload()


class TestTinyNemotron(LoadedSuite, promises=("steps",)):
    answers_unasked = True

    async def opened(self, model: Model, **fields: object) -> Caller:
        return await super().opened(model, **{"extra_body": {"auto_response": True}, **fields})

    @promised("steps")
    async def test_it_goes_on_alike_from_the_same_memory_whatever_runs_beside_it(
        self, ready: Model, utterance: bytes
    ) -> None:
        """As the suite has it; but a clause of noise is longer than what is heard here, so it is words that count."""
        first = await self.opened(ready)
        await self.hear(first, utterance)
        memory, turn = first.ear.memory(), first.ear.open_turn()
        await first.perform(CloseModel())
        alone = await self.gone_on(ready, utterance, memory, turn)
        in_company = await self.gone_on(ready, utterance, memory, turn, "sess_2")
        frames, others = unpack(alone.memory())[0], unpack(in_company.memory())[0]
        assert frames and frames == others


opened = TestTinyNemotron().opened


async def told(caller: Caller, frame: int) -> None:
    """Say one frame and wait until it was stepped; if the engine dies of something meanwhile, until it is back."""
    before = len(caller.ear.of(ModelRemembered))
    await caller.perform(FeedAudio(epoch=0, pcm=FRAMES[frame].tobytes(), end_ms=0))
    await caller.ear.first(ModelRemembered, after=0)
    async with asyncio.timeout(PATIENCE_S):
        while len(caller.ear.of(ModelRemembered)) == before:
            await asyncio.sleep(0.005)


async def a_call(model: NemotronModel, dies_at: int | None) -> tuple[Remembered, str]:
    """A call of 60 frames in which a tool is called and answered; the engine is killed before frame ``dies_at``."""
    caller = await opened(model, session_id="sess_call", modalities=("text",))
    mine = cast(NemotronSession, caller.session)
    for frame in range(len(FRAMES)):
        if frame == 10:
            mine._calls.made([ToolCall("weather", "{}")])
        if frame == 15:
            (made,) = caller.ear.of(ModelCalledFunction)
            await caller.perform(ToolOutput(epoch=0, call_id=made.call_id or "", output='{"c": 21}'))
        if frame == dies_at:
            assert model.engine.pid is not None
            os.kill(model.engine.pid, signal.SIGKILL)
            life = mine._seat.life
            async with asyncio.timeout(PATIENCE_S):
                while mine._seat.life == life:
                    await asyncio.sleep(0.005)
        await told(caller, frame)
    await caller.perform(CloseModel())
    return unpack_frames(unpack(caller.ear.memory())[0], 1_000), words_of(caller.ear.signals)


async def test_a_call_goes_on_with_the_same_words_and_outputs_wherever_its_engine_is_killed(
    loaded: NemotronModel,
) -> None:
    whole, words = await a_call(loaded, None)
    assert words
    for dies_at in (5, 20, 50):
        again, said = await a_call(loaded, dies_at)
        assert len(again) == len(whole) == len(FRAMES)
        assert (again.function == whole.function).all(), f"killed before frame {dies_at}"
        assert (again.text == whole.text).all() and said == words, f"killed before frame {dies_at}"
    assert loaded.engine.starts == 4
