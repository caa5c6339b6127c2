"""The plug-in as a worker sees it: its card, its two processes, and what it refuses."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.model import CloseModel, Model, ModelCalledFunction, ModelFinished, ModelProducedAudio, ModelRefused
from duplex_es.testing.model_suite import Caller, ModelSuite
from tests.support.nemotron_stage import ENGINE, OPTIONS, TOOLS, called, loaded
from tests.support.toy_nemotron import SAID, SAY
from workers.engine.process import EngineLost
from workers.models import cards
from workers.models.nemotron import PLUGIN, NemotronModel
from workers.models.nemotron.model import card
from workers.models.nemotron.options import read_nemotron_options
from workers.models.nemotron.record import unpack
from workers.models.speech.missing import CascadePartMissing
from workers.neural_nemotron.options import RECORD_BYTES

pytestmark = pytest.mark.unit

FRAME_BYTES = 1_280 * 4
BODY: dict[str, object] = {"auto_response": True}


class TestNemotronOverToys(ModelSuite, promises=("steps",)):
    @pytest.fixture
    def model(self) -> Model:
        return NemotronModel(OPTIONS, factory="tests.support.toy_nemotron:make_published")

    def comparable(self, memory: bytes) -> bytes:
        return unpack(memory)[0]

    async def hear(self, caller: Caller, utterance: bytes) -> None:
        """It answers speech that a silence follows."""
        await caller.say(utterance[: 10 * FRAME_BYTES] + bytes(2 * FRAME_BYTES))
        await caller.ear.first(ModelProducedAudio)
        await caller.ear.quiet()

    async def opened(self, model: Model, **fields: object) -> Caller:
        return await super().opened(model, **{"extra_body": BODY, **fields})


def test_the_card_is_the_published_one_but_for_how_many_are_served() -> None:
    published, several = cards.NEMOTRON.info, card(read_nemotron_options({"weights": "random"}))
    differ = {
        name
        for name in several.capabilities.__struct_fields__
        if getattr(several.capabilities, name) != getattr(published.capabilities, name)
    }
    assert differ == {"supports_multi_session", "supports_multi_session_same_replica"}
    assert several.capabilities.supports_session_resume and not several.capabilities.supports_barge_in
    assert (several.fixed_settings, several.longest_append_samples) == (("instructions", "tools"), 1_280)


def test_the_log_keeps_as_many_frames_as_the_engine_wants_back() -> None:
    info = card(read_nemotron_options({"weights": "random", "memory_frames": "500"}))
    assert info.memory_bytes > 500 * RECORD_BYTES


def test_the_plug_in_is_found_by_its_name_and_names_a_bad_option() -> None:
    with pytest.raises(ValueError, match="option speech is"):
        PLUGIN({"weights": "random", "speech": "loud"})


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"extra_body": {}}, "unsupported_nemotron_duplex_mode", "session.extra_body.auto_response"),
        ({"tools": (*TOOLS, TOOLS[0])}, "invalid_duplex_runtime_config", "session.tools"),
        ({"tools": ({"type": "function"},)}, "invalid_duplex_runtime_config", "session.tools[0].name"),
        ({"tools": ({"name": 5},)}, "invalid_duplex_runtime_config", "session.tools[0].name"),
        ({"tools": ({"name": " "},)}, "invalid_duplex_runtime_config", "session.tools[0].name"),
        (
            {"extra_body": {"auto_response": True, "nvc_x": 1}},
            "invalid_duplex_runtime_config",
            "session.extra_body.nvc_x",
        ),
        ({"voice": "unknown"}, "invalid_duplex_runtime_config", "session.voice"),
    ],
)
async def test_what_cannot_be_served_is_refused_by_name(fields: dict[str, object], code: str, param: str) -> None:
    async with loaded() as model:
        with pytest.raises(ModelRefused) as refused:
            await called(model, **fields)
        assert (refused.value.code, refused.value.param) == (code, param)


async def test_a_session_too_many_is_refused_and_one_that_ends_makes_room() -> None:
    async with loaded(slots="2") as model:
        assert model.capacity == 2 and model.info.capabilities.supports_multi_session
        first, _ = await called(model, session_id="a"), await called(model, session_id="b")
        with pytest.raises(ModelRefused) as refused:
            await called(model, session_id="c")
        assert refused.value.code == "resource_exhausted"
        await first.perform(CloseModel())
        await called(model, session_id="d")


async def test_a_worker_with_room_for_one_does_not_claim_several() -> None:
    async with loaded(slots="1") as model:
        assert model.info.capabilities == cards.NEMOTRON.info.capabilities


async def test_two_sessions_do_not_hear_each_other() -> None:
    async with loaded() as model:
        one, other = await called(model, session_id="a"), await called(model, session_id="b")
        await one.frames(SAY)
        await other.frames(0)
        await one.ends_with(SAID)
        assert other.ear.of(ModelFinished) == [] and other.ear.of(ModelCalledFunction) == []


async def test_without_a_voice_there_are_words_only() -> None:
    async with loaded(speech="off") as model:
        assert model.speech is None
        call = await called(model)
        await call.frames(SAY)
        await call.ends_with(SAID)
        assert call.ear.of(ModelProducedAudio) == []


async def test_the_voice_that_comes_with_the_package_speaks_at_the_models_rate() -> None:
    async with loaded(speech="voice") as model:
        call = await called(model)
        await call.frames(SAY)
        await call.ends_with(SAID)
        assert 1.5 < len(call.ear.sound) / 2 / model.info.output_rate_hz < 6.0


async def test_a_voice_at_another_rate_is_not_used() -> None:
    model = NemotronModel({**OPTIONS, "speech_rate_hz": "24000"}, factory=ENGINE)
    with pytest.raises(EngineLost, match=r"option speech: .* speaks at 24000 Hz"):
        await model.load()


async def test_a_voice_that_is_missing_is_said_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = NemotronModel({**OPTIONS, "speech": "voice"}, factory=ENGINE)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CascadePartMissing, match=r"duplex-es\[cascade\]"):
        await model.load()


async def test_an_engine_that_cannot_be_loaded_leaves_no_process_behind() -> None:
    model = NemotronModel(OPTIONS, factory="tests.support.nobody:make")
    with pytest.raises(EngineLost):
        await model.load()
    assert model.speech is not None
    async with asyncio.timeout(60):
        await model.speech.ended()
    assert not model.speech.is_alive


async def test_a_session_that_is_refused_leaves_nothing_running() -> None:
    async with loaded() as model:
        with pytest.raises(ModelRefused):
            await called(model, voice="unknown")
        async with asyncio.timeout(60):
            while any("speaking" in task.get_name() for task in asyncio.all_tasks()):
                await asyncio.sleep(0)
