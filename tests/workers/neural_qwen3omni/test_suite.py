"""The plug-in with the tiny engine in its process: the promises of the contract, and the death of the engine."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from duplex_es.model import CloseModel, ModelFinished, ModelProducedAudio, ModelSpoke
from duplex_es.testing.model_suite import sound_of, words_of
from tests.support.loaded_suite import LoadedSuite
from tests.support.tiny_qwen3omni import OPTIONS
from workers.models.qwen3omni import PLUGIN, QwenModel

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def loaded() -> AsyncIterator[QwenModel]:
    """One loaded model for all: loading it takes longer than any test."""
    model = PLUGIN({**OPTIONS, "shape": "tiny"})
    await model.load()
    yield model
    await model.unload()


class TestTinyQwen(LoadedSuite, promises=("takes_text_turns",)):
    """The promises of a model that takes text turns."""


opened = TestTinyQwen().opened


async def test_an_answer_goes_on_behind_what_was_said_when_its_engine_is_killed(loaded: QwenModel) -> None:
    """The same session's first answer, undisturbed and with the engine killed in the middle of it."""
    model, answers = loaded, []
    for killed in (False, True):
        caller = await opened(model)
        await caller.ask("Say hello to Martin, please.", response_id="resp_1")
        await caller.ear.first(ModelProducedAudio)
        if killed:
            pid = model.engine.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        spoke = await caller.ear.first(ModelSpoke)
        answers.append(await caller.ear.answered(spoke.turn))
        await caller.perform(CloseModel())
    whole, resumed = answers
    assert model.engine.starts == 2
    assert isinstance(resumed[-1], ModelFinished)
    assert words_of(resumed) == words_of(whole)
    assert len(sound_of(resumed)) == len(sound_of(whole))
