"""The memory and the mouth, with a mind that says what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from duplex_es.model import (
    ContinueAnswer,
    Generate,
    HistoryItem,
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelMeasured,
    ModelProducedAudio,
    ModelSpoke,
    OpenModel,
    Recipe,
    ReconfigureModel,
    StageMetrics,
    ToolOutput,
)
from duplex_es.testing.model_suite import Ear, words_of
from tests.support.cascade import NOON
from workers.models.cascade.dialogue.scene import Call, Counted, Part, Say, Scene
from workers.models.cascade.speaking import Speaking
from workers.models.floor import Floor

pytestmark = pytest.mark.unit


@dataclass
class FakeMind:
    """Says its parts, whatever is asked, and keeps the scenes it was shown."""

    parts: list[Part] = field(default_factory=lambda: [Say("One thing. "), Say("Another.")])
    scenes: list[Scene] = field(default_factory=list)
    plans_ahead: bool = True

    async def reply(self, scene: Scene) -> AsyncGenerator[Part, None]:
        self.scenes.append(scene)
        for part in self.parts:
            yield part

    async def tell_output(self, scene: Scene, output: str) -> AsyncGenerator[Part, None]:
        self.scenes.append(scene)
        yield Say(output)


class FakeParts:
    """A voice of one sample a millisecond for each character."""

    def __init__(self) -> None:
        self.mind = FakeMind()
        self.said: list[tuple[str, float, float]] = []

    def clock(self) -> object:
        return NOON

    async def pronounce(self, text: str, *, speed: float, gain: float) -> np.ndarray:
        await asyncio.sleep(0)
        self.said.append((text, speed, gain))
        return np.full(len(text) * 24, 0.5, np.float32) if text != "…" else np.zeros(0, np.float32)


class Desk:
    def __init__(self, **fields: object) -> None:
        self.ear = Ear()
        self.parts = FakeParts()
        self.floor = Floor(self.ear, output_rate_hz=24_000, lead_ms=None)
        request = OpenModel(session_id="s", incarnation=0, epoch=0, **fields)  # type: ignore[arg-type]
        self.speaking = Speaking(self.floor, self.parts, "test", request)  # type: ignore[arg-type]

    async def answered(self, turn: int) -> str:
        return words_of(await self.ear.answered(turn))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk(instructions="Be kind.")
    yield desk
    await desk.speaking.close()


async def test_an_answer_sees_what_came_before_it(desk: Desk) -> None:
    for turn, text in enumerate(("first", "second")):
        desk.speaking.remember_heard(text, None)
        desk.speaking.answer(0)
        assert await desk.answered(turn) == "One thing. Another."
    last = desk.parts.mind.scenes[-1]
    assert last.utterance == "second"
    assert [(line.role, line.text) for line in last.past] == [("user", "first"), ("assistant", "One thing. Another.")]
    assert (last.now, last.instructions) == (NOON, "Be kind.")


async def test_answers_wait_for_each_other_and_see_each_other(desk: Desk) -> None:
    desk.speaking.remember_heard("first", None)
    desk.speaking.answer(0)
    desk.speaking.remember_heard("second", None)
    desk.speaking.answer(0)
    await desk.answered(1)
    assert [scene.utterance for scene in desk.parts.mind.scenes] == ["first", "second"]
    assert "One thing. Another." in [line.text for line in desk.parts.mind.scenes[1].past]


async def test_the_pace_the_caller_asked_for_holds(desk: Desk) -> None:
    desk.speaking.remember_heard("Slower, please.", None)
    desk.speaking.answer(0)
    await desk.answered(0)
    assert desk.parts.said[0] == ("One thing.", 0.85, 1.0)


async def test_text_nobody_can_pronounce_is_still_in_the_transcript(desk: Desk) -> None:
    desk.parts.mind.parts = [Say("…")]
    desk.speaking.remember_heard("hm", None)
    desk.speaking.answer(0)
    assert await desk.answered(0) == "…"
    assert len(desk.ear.of(ModelProducedAudio)[0].pcm) == 20 * 24 * 2


async def test_a_calls_output_is_remembered_and_said(desk: Desk) -> None:
    desk.parts.mind.parts = [Say("Let me check."), Call("get_weather", "{}")]
    desk.speaking.remember_heard("weather", None)
    desk.speaking.answer(0)
    await desk.answered(0)
    call = desk.ear.of(ModelCalledFunction)[0]
    assert call.call_id is not None and call.turn == 0
    desk.speaking.tool_output(ToolOutput(epoch=0, call_id=call.call_id, output="Sunny."), aloud=True)
    assert await desk.answered(1) == "Sunny."
    past = desk.parts.mind.scenes[-1].past
    assert [(line.role, line.call_id) for line in past[-2:]] == [("assistant", call.call_id), ("tool", call.call_id)]


async def test_a_request_brings_its_own_history(desk: Desk) -> None:
    desk.speaking.remember_heard("forgotten", None)
    desk.speaking.remember_heard("spoken", "item_2")
    history = (
        HistoryItem(item_id="item_1", role="user", text="typed"),
        HistoryItem(item_id="item_2", role="user", text=""),
    )
    desk.speaking.generate(
        Generate(epoch=0, response_id="r", history=history, temperature=0.5, max_output_tokens=9, instructions="Hm.")
    )
    await desk.answered(0)
    scene = desk.parts.mind.scenes[0]
    assert (scene.utterance, [line.text for line in scene.past]) == ("spoken", ["typed"])
    assert (scene.temperature, scene.max_tokens, scene.instructions) == (0.5, 9, "Hm.")
    assert desk.ear.of(ModelSpoke)[0].response_id == "r"


async def test_an_interrupted_request_is_forgotten(desk: Desk) -> None:
    desk.floor.adopt(1)
    desk.speaking.generate(Generate(epoch=0, response_id="r", history=()))
    assert await desk.ear.quiet() == 0


async def test_what_was_heard_replaces_what_was_said(desk: Desk) -> None:
    desk.speaking.remember_heard("first", None)
    desk.speaking.answer(0)
    await desk.answered(0)
    desk.floor.stop(1)
    desk.speaking.interrupted(1, "One")
    desk.speaking.remember_heard("second", None)
    desk.speaking.answer(1)
    await desk.ear.first(ModelFinished, lambda signal: signal.epoch == 1)
    assert [line.text for line in desk.parts.mind.scenes[1].past] == ["first", "One"]


async def test_new_settings_hold_from_the_next_answer_on(desk: Desk) -> None:
    tool = {"type": "function", "name": "f"}
    desk.speaking.configure(ReconfigureModel(instructions="Be brief.", tools=(tool,), modalities=("text",)))
    desk.speaking.remember_heard("hello", None)
    desk.speaking.answer(0)
    await desk.answered(0)
    scene = desk.parts.mind.scenes[0]
    assert (scene.instructions, [t.name for t in scene.tools]) == ("Be brief.", ["f"])
    assert desk.ear.of(ModelProducedAudio) == []


async def test_closing_ends_an_answer_in_the_middle(desk: Desk) -> None:
    desk.parts.mind.parts = [Say("word ")] * 1000
    desk.speaking.remember_heard("go", None)
    desk.speaking.answer(0)
    await desk.ear.first(ModelProducedAudio)
    desk.floor.close()
    await asyncio.wait_for(desk.speaking.close(), 30)
    assert desk.ear.of(ModelFinished) == []


# -- answers that another worker had begun ---------------------------------------------------------------------------


async def recipe_of(desk: Desk, turn: int = 0) -> Recipe:
    """What the answer of that turn left in the log."""
    await desk.answered(turn)
    recipe = desk.ear.of(ModelSpoke)[turn].recipe
    assert recipe is not None
    return recipe


async def test_an_answer_goes_on_from_its_plan_whatever_was_said_since(desk: Desk) -> None:
    desk.parts.mind.parts = [Say("Let me check. "), Call("get_weather", "{}"), Say("One moment.")]
    desk.speaking.remember_heard("Slower, please.", None)
    desk.speaking.answer(0)
    recipe, call = await recipe_of(desk), desk.ear.of(ModelCalledFunction)[0]
    known = HistoryItem(item_id="c", role="assistant", text="{}", call_id=call.call_id, name="get_weather")
    other = Desk(history=(known,))
    other.parts.mind.parts = [Say("Something else.")]
    other.speaking.again(ContinueAnswer(epoch=0, turn=0, recipe=recipe, said_samples=240, said_chars=5))
    assert await other.answered(0) == "Let me check. One moment."
    assert other.ear.of(ModelCalledFunction) == [call]
    assert other.ear.of(ModelProducedAudio) == desk.ear.of(ModelProducedAudio)
    assert other.parts.mind.scenes == []
    assert other.parts.said == desk.parts.said
    other.speaking.remember_heard("and?", None)
    other.speaking.answer(0)
    await other.answered(1)
    past = [(line.role, line.call_id) for line in other.parts.mind.scenes[0].past]
    assert past == [("assistant", call.call_id), ("assistant", None)], "the call is remembered once"
    await other.speaking.close()


async def test_an_output_that_is_being_told_is_not_told_again_when_asked_for(desk: Desk) -> None:
    desk.speaking.tool_output(ToolOutput(epoch=0, call_id="call_1", output="Sunny."), aloud=True)
    recipe = await recipe_of(desk)
    other = Desk()
    other.speaking.again(ContinueAnswer(epoch=0, turn=0, recipe=recipe))
    other.speaking.tool_output(ToolOutput(epoch=0, call_id="call_1", output="Sunny."), aloud=True)
    assert await other.answered(0) == "Sunny."
    await other.ear.quiet()
    assert len(other.ear.of(ModelSpoke)) == 1
    await other.speaking.close()


async def test_an_answer_that_becomes_known_bit_by_bit_leaves_no_recipe(desk: Desk) -> None:
    desk.parts.mind.plans_ahead = False
    desk.speaking.remember_heard("first", None)
    desk.speaking.answer(0)
    assert await desk.answered(0) == "One thing. Another."
    assert desk.ear.of(ModelSpoke)[0].recipe is None


async def test_a_recipe_that_is_no_plan_fails_the_answer(desk: Desk) -> None:
    desk.speaking.again(ContinueAnswer(epoch=0, turn=0, recipe=Recipe()))
    assert [failed.code for failed in desk.ear.of(ModelFailed)] == ["worker_lost"]


def measured_in(desk: Desk) -> list[tuple[str, StageMetrics]]:
    """Everything that was told of stages, in order."""
    return [pair for signal in desk.ear.of(ModelMeasured) for pair in signal.stages.items()]


async def test_of_a_planned_answer_the_words_are_told_of_first_and_then_each_sentence() -> None:
    desk = Desk()
    desk.parts.mind.parts = [Say("One thing. "), Counted(40, 9), Say("Another.")]
    desk.speaking.remember_heard("Tell me.", None)
    desk.speaking.answer(0, heard_s=0.5)
    await desk.answered(0)
    (_, words), *sentences = measured_in(desk)
    assert words.vllm_ttft_ms > 500
    assert (words.num_tokens_in, words.num_tokens_out, words.output_unit_count) == (40, 9, 2)
    assert 0 < words.vllm_ttft_ms <= words.stage_gen_time_ms
    assert [(stage, told.audio_generated_frames) for stage, told in sentences] == [("1", 240), ("1", 192)]


async def test_of_an_answer_that_becomes_known_bit_by_bit_every_bit_is_told() -> None:
    desk = Desk()
    desk.parts.mind.plans_ahead = False
    desk.parts.mind.parts = [Say("One thing. "), Say("Another."), Counted(40, 9)]
    desk.speaking.remember_heard("Tell me.", None)
    desk.speaking.answer(0)
    await desk.answered(0)
    assert [stage for stage, _ in measured_in(desk)] == ["0", "1", "0", "1", "0"]
    assert [told.num_tokens_out for stage, told in measured_in(desk) if stage == "0"] == [0, 0, 9]


async def test_what_is_given_again_was_not_thought_again() -> None:
    desk = Desk()
    recipe = Recipe(notes={"steps": [["One."]], "speed": 1.0, "gain": 1.0, "aloud": True, "told": None})
    desk.speaking.again(ContinueAnswer(epoch=0, turn=3, recipe=recipe))
    await desk.answered(3)
    assert [stage for stage, _ in measured_in(desk)] == ["1"]
