"""Every built-in model keeps the contract's promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from duplex_es.model import Model
from duplex_es.testing.model_suite import Caller, ModelSuite
from tests.support.cascade import shared_cascade
from tests.support.realtime_backend import realtime_backend
from tests.support.voices import spoken
from workers.models.bridge import PLUGIN as vllm_omni
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


class ProfileSuite(ModelSuite):
    """A shape that ``scripted`` takes on, opened as its clients open it. PersonaPlex never falls silent, which most of

    the suite waits for; tests/workers/models/scripted has tests of its own for it.
    """

    profile = ""
    extra_body: ClassVar[dict[str, object]] = {}

    @pytest.fixture
    def model(self) -> Model:
        return scripted({"profile": self.profile, "lead_ms": "300"})

    async def opened(self, model: Model, **fields: object) -> Caller:
        fields = {"extra_body": self.extra_body, "ref_audio": "data:audio/wav;base64,AAAA", **fields}
        return await super().opened(model, **fields)


class TestMiniCpm(ProfileSuite):
    profile = "minicpmo_4_5"
    extra_body: ClassVar[dict[str, object]] = {"native_duplex": True, "auto_response": True}


class TestMiniCpmInTheChatLane(ProfileSuite):
    profile = "minicpmo_4_5"


class TestNemotron(ProfileSuite):
    profile = "nemotron_voicechat"
    extra_body: ClassVar[dict[str, object]] = {"auto_response": True}


class TestQwen3Omni(ProfileSuite):
    profile = "qwen3_omni"


class TestCascade(ModelSuite):
    question = "Tell me a story."

    @pytest.fixture
    def model(self) -> Model:
        return shared_cascade()

    @pytest.fixture
    def utterance(self) -> bytes:
        return spoken("What is seven plus five?").tobytes()


class TestBridge(ModelSuite):
    """A session of this service behind the bridge: what the suite asks goes over a real socket and comes back."""

    question = "one two three four five six seven eight nine ten"

    @pytest.fixture
    async def model(self) -> AsyncIterator[Model]:
        async with realtime_backend(echo({})) as there:
            yield vllm_omni({"url": there.url(), "model": "echo"})
