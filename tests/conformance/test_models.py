"""Every built-in model keeps the contract's promises."""

from __future__ import annotations

import pytest

from duplex_es.model import Model
from duplex_es.testing.model_suite import ModelSuite
from tests.support.cascade import shared_cascade
from tests.support.voices import spoken
from workers.models.echo import PLUGIN as echo
from workers.models.scripted import PLUGIN as scripted

pytestmark = pytest.mark.unit


class TestEcho(ModelSuite):
    @pytest.fixture
    def model(self) -> Model:
        return echo({})


class TestScripted(ModelSuite):
    @pytest.fixture
    def model(self) -> Model:
        return scripted({"lead_ms": "300"})


class TestCascade(ModelSuite):
    question = "Tell me a story."

    @pytest.fixture
    def model(self) -> Model:
        return shared_cascade()

    @pytest.fixture
    def utterance(self) -> bytes:
        return spoken("What is seven plus five?").tobytes()
