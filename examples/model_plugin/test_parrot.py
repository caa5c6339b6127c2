"""The promises of any model, held against the parrot: ``pytest examples/model_plugin``."""

from __future__ import annotations

import pytest
from parrot import PLUGIN

from duplex_es.model import Model
from duplex_es.testing.model_suite import ModelSuite

pytestmark = pytest.mark.unit


class TestParrot(ModelSuite, promises=("transcribes", "takes_text_turns")):
    @pytest.fixture
    def model(self) -> Model:
        return PLUGIN({})
