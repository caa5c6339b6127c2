"""The model suite over a model that is loaded once for a whole module: loading it takes longer than any test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from duplex_es.model import CloseModel, Model
from duplex_es.testing.model_suite import Caller, ModelSuite, check_order


class LoadedSuite(ModelSuite):
    """Wants a fixture ``loaded`` of the module, and tests that share the module's loop."""

    @pytest.fixture
    def model(self, loaded: Model) -> Model:
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
