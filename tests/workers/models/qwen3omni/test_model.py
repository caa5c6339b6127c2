"""The plug-in over a real engine process without a model in it: contract, card, answers, interruptions, a crash."""

from __future__ import annotations

import array
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from duplex_es.model import (
    CloseModel,
    Generate,
    HistoryItem,
    Interrupt,
    Model,
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelProducedAudio,
    ModelProducedText,
    ModelRefused,
    ModelSpoke,
    ReconfigureModel,
    ToolOutput,
)
from duplex_es.testing.model_suite import Caller, ModelSuite, sound_of, words_of
from tests.support.calls import until
from workers.engine.process import EngineProcess
from workers.models.cards import QWEN3_OMNI
from workers.models.qwen3omni import PLUGIN, QwenModel
from workers.plugins import make_model

pytestmark = pytest.mark.unit

TOY = "tests.support.toy_chat:ToyChat"
NAME = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
LETTER_BYTES = 2 * 1920


def a_model(folder: Path, **options: str) -> QwenModel:
    model = PLUGIN({"weights": "x", **options}, TOY)
    # The toy keeps there whether it has crashed already.
    model._keeper.engine = EngineProcess(TOY, {"weights": str(folder / "crashed")})
    return model


class TestQwen(ModelSuite, promises=("takes_text_turns",)):
    @pytest.fixture
    def model(self, tmp_path: Path) -> Model:
        return a_model(tmp_path)


@pytest.fixture
async def model(tmp_path: Path) -> AsyncIterator[QwenModel]:
    model = a_model(tmp_path, lead_ms="none")
    await model.load()
    yield model
    await model.unload()


opened = TestQwen().opened


async def answered(caller: Caller, response_id: str) -> list[Any]:
    spoke = await caller.ear.first(ModelSpoke, lambda spoke: spoke.response_id == response_id)
    return await caller.ear.answered(spoke.turn)


def test_it_is_found_by_its_published_name() -> None:
    assert make_model(NAME, {"weights": "/models/qwen"}).info.name == NAME


def test_its_card_is_that_of_the_chat_lane_but_for_what_a_log_adds() -> None:
    info, published = PLUGIN({"weights": "/models/qwen"}).info, QWEN3_OMNI.info
    ours, theirs = asdict(info.capabilities), asdict(published.capabilities)
    more = {"supports_session_resume", "supports_session_lease", "supports_multi_session"}
    assert {flag for flag in ours if ours[flag] != theirs[flag]} == more | {"supports_multi_session_same_replica"}
    assert info.is_chat_lane and not info.transcribes and not info.takes_frames
    assert (info.input_rate_hz, info.output_rate_hz) == (16_000, 24_000)
    assert (info.takes_text_turns, info.takes_response_options, info.keeps_audio) == (True, True, True)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, "option weights is missing"),
        ({"weights": "random"}, "option shape is 'published'; it is published with the published files, tiny with"),
        ({"weights": "/models/qwen", "shape": "tiny"}, "option shape is 'tiny'"),
        ({"weights": "/m", "slots": "many"}, "option slots is 'many'; it is auto or a number from 1"),
        ({"weights": "/m", "context": "12"}, "option context is 12; it is from 256"),
        ({"weights": "/m", "max_tokens": "5000"}, "option max_tokens is 5000; it is from 1 to half of context"),
        ({"weights": "/m", "voice": "alloy"}, "option voice is 'alloy'; it is one of Ethan, Chelsie, Aiden"),
        ({"weights": "/m", "size": "1"}, "unknown option 'size'"),
    ],
)
def test_options_are_refused_before_a_process_is_started(options: dict[str, str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        PLUGIN(options)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"voice": "alloy"}, "session.voice"),
        ({"extra_body": {"top_p": 2}}, "session.extra_body.top_p"),
        ({"extra_body": {"top_k": 1.5}}, "session.extra_body.top_k"),
        ({"extra_body": {"seed": "one"}}, "session.extra_body.seed"),
    ],
)
async def test_what_cannot_be_served_is_refused_when_a_session_opens(
    model: QwenModel, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(ModelRefused) as refused:
        await opened(model, **fields)
    assert refused.value.param == param


async def test_an_answer_is_spoken_with_its_words_and_counted(model: QwenModel) -> None:
    caller = await opened(model)
    await caller.ask("hello", response_id="resp_1")
    answer = await answered(caller, "resp_1")
    assert words_of(answer) == "so: hello"
    assert len(sound_of(answer)) == len("so: hello") * LETTER_BYTES
    finished = answer[-1]
    assert isinstance(finished, ModelFinished)
    assert finished.output_tokens == len("so: hello")
    assert all(signal.rate_hz == 24_000 for signal in answer if isinstance(signal, ModelProducedAudio))
    await caller.perform(CloseModel())


async def test_speech_goes_to_the_model_as_it_was_said(model: QwenModel) -> None:
    caller = await opened(model)
    await caller.say(array.array("f", [0.5] * 8000).tobytes())
    await caller.commit()
    spoke = await caller.ear.first(ModelSpoke)
    assert words_of(await caller.ear.answered(spoke.turn)) == "so: 8000 samples"
    await caller.perform(CloseModel())


async def test_an_interruption_cancels_the_turn_in_the_engine(tmp_path: Path) -> None:
    model = a_model(tmp_path)
    await model.load()
    caller = await opened(model)
    await caller.ask("a very long answer that nobody wants to hear to its end", response_id="resp_1")
    await caller.ear.first(ModelProducedAudio)
    await caller.interrupt()
    await until(lambda: model.engine._sessions == {})
    await caller.ask("next", "text", response_id="resp_2")
    assert words_of(await answered(caller, "resp_2")) == "so: next"
    await caller.perform(CloseModel())
    await model.unload()


async def test_what_was_heard_of_an_interrupted_answer_is_what_is_remembered(tmp_path: Path) -> None:
    model = a_model(tmp_path)
    await model.load()
    caller = await opened(model)
    await caller.ask("a very long answer that nobody wants to hear to its end")
    await caller.ear.first(ModelProducedAudio)
    caller.epoch += 1
    await caller.perform(Interrupt(epoch=caller.epoch, heard_text="so: a"))
    assert [(item.role, item.text) for item in caller.session._memory.told()][-1] == ("assistant", "so: a")  # type: ignore[attr-defined]
    await caller.perform(CloseModel())
    await model.unload()


async def test_an_answer_goes_on_in_the_next_engine_without_a_seam(model: QwenModel) -> None:
    caller = await opened(model)
    await caller.ask("crash in the middle of it", response_id="resp_1")
    answer = await answered(caller, "resp_1")
    said = "so: crash in the middle of it"
    assert isinstance(answer[-1], ModelFinished)
    assert words_of(answer) == said
    expected = b"".join(bytes([ord(letter), 0]) * 1920 for letter in said)
    assert sound_of(answer) == expected
    assert model.engine.starts == 2
    await caller.ask("more", "text", response_id="resp_2")
    assert words_of(await answered(caller, "resp_2")) == "so: more"
    await caller.perform(CloseModel())


async def test_a_tool_call_comes_with_the_end_and_its_output_is_remembered(model: QwenModel) -> None:
    caller = await opened(model, tools=({"type": "function", "name": "light", "parameters": {}},))
    await caller.ask("light on", "text", response_id="resp_1")
    answer = await answered(caller, "resp_1")
    (call,) = [signal for signal in answer if isinstance(signal, ModelCalledFunction)]
    assert (call.name, call.arguments) == ("light", "{}")
    assert call.call_id
    await caller.perform(ToolOutput(epoch=caller.epoch, call_id=call.call_id, output="it is on"))
    told = caller.session._memory.told()  # type: ignore[attr-defined]
    assert [(item.role, item.call_id) for item in told][-2:] == [("assistant", call.call_id), ("tool", call.call_id)]
    await caller.perform(CloseModel())


async def test_sound_that_is_not_what_it_says_fails_its_answer(model: QwenModel) -> None:
    caller = await opened(model)
    await caller.ask("wrong", response_id="resp_1")
    failed = await caller.ear.first(ModelFailed)
    assert (failed.code, failed.fatal) == ("response_error", False)
    assert "audio_metadata.frame_count is 1" in failed.message
    await caller.perform(CloseModel())


async def test_settings_hold_from_the_next_answer_on(model: QwenModel) -> None:
    caller = await opened(model)
    await caller.perform(ReconfigureModel(modalities=("text",)))
    history = (HistoryItem(item_id="a", role="user", text="hi"),)
    await caller.perform(Generate(epoch=0, response_id="resp_1", history=history, modalities=("text",)))
    answer = await answered(caller, "resp_1")
    assert any(isinstance(signal, ModelProducedText) for signal in answer)
    assert not any(isinstance(signal, ModelProducedAudio) for signal in answer)
    await caller.perform(CloseModel())


async def test_more_sessions_than_slots_are_answered_one_after_another(model: QwenModel) -> None:
    callers = [await opened(model) for _ in range(6)]
    for number, caller in enumerate(callers):
        await caller.ask(f"number {number}", "text", response_id="resp")
    answers = await asyncio.gather(*(answered(caller, "resp") for caller in callers))
    assert [words_of(answer) for answer in answers] == [f"so: number {number}" for number in range(6)]
    for caller in callers:
        await caller.perform(CloseModel())
