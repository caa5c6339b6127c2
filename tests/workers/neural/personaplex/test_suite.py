"""The plug-in with the tiny engine in its process: the promises of the contract."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from duplex_es.model import CloseModel, Model
from duplex_es.testing.model_suite import Caller, ModelSuite, check_order
from workers.models.personaplex import PLUGIN
from workers.models.stepping.model import SteppingModel

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

OPTIONS = {
    **{"python": sys.executable, "weights": "random", "shape": "tiny", "slots": "3", "threads": "1"},
    # Otherwise a window is made again in other pieces while somebody steps beside it, and with noise for weights nearly
    # everything is a near tie.
    "rebuild": "exact",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def loaded() -> AsyncIterator[SteppingModel]:
    """One loaded model for all: loading it takes longer than any test."""
    model = PLUGIN(OPTIONS)
    await model.load()
    yield model
    await model.unload()


class TestTinyPersonaPlex(ModelSuite, promises=("steps",)):
    @pytest.fixture
    def model(self, loaded: SteppingModel) -> Model:
        return loaded

    @pytest_asyncio.fixture(loop_scope="module")
    async def ready(self, model: Model) -> Model:
        return model

    @pytest_asyncio.fixture(loop_scope="module")
    async def caller(self, ready: Model) -> AsyncIterator[Caller]:
        caller = await self.opened(ready)
        yield caller
        await caller.perform(CloseModel())
        check_order(caller.ear.signals)
        assert caller.ear.strangers == []
