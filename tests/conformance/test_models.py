"""Every built-in model keeps the contract's promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from duplex_es.model import CloseModel, Model, ModelProducedAudio
from duplex_es.testing.model_stage import QUIET_S
from duplex_es.testing.model_suite import Caller, Ear, ModelSuite
from tests.support.cascade import shared_cascade
from tests.support.realtime_backend import realtime_backend
from tests.support.voices import spoken
from workers.models.bridge import PLUGIN as vllm_omni
from workers.models.echo import PLUGIN as echo
from workers.models.scripted import PLUGIN as scripted

pytestmark = pytest.mark.unit


ANSWERS = ("transcribes", "takes_text_turns", "can_rebuild")


class TestEcho(ModelSuite, promises=(*ANSWERS, "ends_turns")):
    @pytest.fixture
    def model(self) -> Model:
        return echo({})


class TestScripted(ModelSuite, promises=ANSWERS):
    @pytest.fixture
    def model(self) -> Model:
        return scripted({"lead_ms": "300"})


class ProfileSuite(ModelSuite):
    """A shape that ``scripted`` takes on, opened as its clients open it."""

    profile = ""
    extra_body: ClassVar[dict[str, object]] = {}

    @pytest.fixture
    def model(self) -> Model:
        return scripted({"profile": self.profile, "lead_ms": "300"})

    async def opened(self, model: Model, **fields: object) -> Caller:
        fields = {"extra_body": self.extra_body, "ref_audio": "data:audio/wav;base64,AAAA", **fields}
        return await super().opened(model, **fields)

    async def test_speech_is_answered_alike_whatever_runs_beside_it(self, ready: Model, utterance: bytes) -> None:
        said = []
        for beside in ((), ("sess_2",)):
            callers = [await self.opened(ready, session_id=name) for name in (*beside, "sess_1")]
            for caller in callers:
                await caller.say(utterance)
                await caller.commit()
            begun = await callers[-1].ear.first(ModelProducedAudio)
            said.append((begun.pcm, begun.text))
            for caller in callers:
                await caller.perform(CloseModel())
        assert said[0] == said[1]


class TestMiniCpm(ProfileSuite, promises=()):
    profile = "minicpmo_4_5"
    extra_body: ClassVar[dict[str, object]] = {"native_duplex": True, "auto_response": True}


class TestMiniCpmInTheChatLane(ProfileSuite, promises=()):
    profile = "minicpmo_4_5"


class TestNemotron(ProfileSuite, promises=()):
    profile = "nemotron_voicechat"
    extra_body: ClassVar[dict[str, object]] = {"auto_response": True}


class Murmur(Ear):
    """An ear for a model that never falls silent: sound goes on while nothing happens."""

    async def quiet(self) -> int:
        while True:
            before = len(self.signals) - len(self.of(ModelProducedAudio))
            await asyncio.sleep(QUIET_S)
            if len(self.signals) - len(self.of(ModelProducedAudio)) == before:
                return len(self.signals)


class TestPersonaPlex(ProfileSuite, promises=()):
    profile = "personaplex"
    ear = Murmur


class TestQwen3Omni(ProfileSuite, promises=("takes_text_turns",)):
    profile = "qwen3_omni"


class TestCascade(ModelSuite, promises=(*ANSWERS, "ends_turns")):
    question = "Tell me a story."

    @pytest.fixture
    def model(self) -> Model:
        return shared_cascade()

    @pytest.fixture
    def utterance(self) -> bytes:
        return spoken("What is seven plus five?").tobytes()


class TestBridge(ModelSuite, promises=("transcribes", "takes_text_turns", "ends_turns")):
    """A session of this service behind the bridge: what the suite asks goes over a real socket and comes back."""

    question = "one two three four five six seven eight nine ten"

    @pytest.fixture
    async def model(self) -> AsyncIterator[Model]:
        async with realtime_backend(echo({})) as there:
            yield vllm_omni({"url": there.url(), "model": "echo"})
