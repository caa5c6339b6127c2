"""The plug-in with the tiny engine in its process: the promises of the contract."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.loaded_suite import LoadedSuite
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


class TestTinyPersonaPlex(LoadedSuite, promises=("steps",)):
    """The promises of a model that steps."""
