"""The plug-in with the tiny engine in its process: the promises of the contract, and the death of the engine."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import pytest

from duplex_es.model import CloseModel, Model, ModelFinished, ModelProducedAudio, ModelSpoke
from duplex_es.testing.model_suite import ModelSuite, sound_of, words_of
from tests.support.tiny_qwen3omni import OPTIONS
from workers.models.qwen3omni import PLUGIN, QwenModel

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


def a_model(**options: str) -> QwenModel:
    return PLUGIN({**OPTIONS, "shape": "tiny", **options})


class TestTinyQwen(ModelSuite):
    @pytest.fixture
    def model(self) -> Model:
        return a_model()


@pytest.fixture
async def model() -> AsyncIterator[QwenModel]:
    model = a_model()
    await model.load()
    yield model
    await model.unload()


opened = TestTinyQwen().opened


async def test_an_answer_goes_on_behind_what_was_said_when_its_engine_is_killed(model: QwenModel) -> None:
    """The same session's first answer, undisturbed and with the engine killed in the middle of it."""
    answers = []
    for killed in (False, True):
        caller = await opened(model)
        await caller.ask("Say hello to Martin, please.", response_id="resp_1")
        await caller.ear.first(ModelProducedAudio)
        if killed:
            process = model.engine._process
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
        spoke = await caller.ear.first(ModelSpoke)
        answers.append(await caller.ear.answered(spoke.turn))
        await caller.perform(CloseModel())
    whole, resumed = answers
    assert model.engine.starts == 2
    assert isinstance(resumed[-1], ModelFinished)
    assert words_of(resumed) == words_of(whole)
    assert len(sound_of(resumed)) == len(sound_of(whole))
