"""Who gets to answer: tools, rules, a model, or nobody."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from workers.models.cascade.dialogue.chat import ChatFailed, ChatServer
from workers.models.cascade.dialogue.mind import LEAD_IN, NOTHING_ASKED, Mind, admission
from workers.models.cascade.dialogue.scene import Call, Counted, Line, Part, Say, Scene, Tool
from workers.models.cascade.dialogue.smollm import SmolLm

pytestmark = pytest.mark.unit

WEATHER = Tool("get_weather", "", {"properties": {"city": {"type": "string"}}, "required": ["city"]})


class FakeChat(ChatServer):
    """Answers with prepared parts, or fails."""

    def __init__(self, *parts: Part) -> None:
        self.parts = parts
        self.asked: list[Scene] = []
        self.closed = False

    async def reply(self, scene: Scene) -> AsyncGenerator[Part, None]:
        self.asked.append(scene)
        if not self.parts:
            raise ChatFailed("nobody there")
        for part in self.parts:
            yield part

    async def close(self) -> None:
        self.closed = True


class FakeSmall(SmolLm):
    """Answers one line, or breaks."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def reply(self, scene: Scene) -> tuple[str, Counted]:
        if self.text is None:
            raise RuntimeError("out of memory")
        return self.text, Counted(9, len(self.text.split()))


async def said(mind: Mind, utterance: str, **fields: object) -> list[Part]:
    return [part async for part in mind.reply(Scene(utterance, **fields))]  # type: ignore[arg-type]


async def test_rules_answer_before_any_model() -> None:
    chat = FakeChat(Say("No."))
    assert await said(Mind(chat=chat), "What is 7 plus 5?") == [Say("7 plus 5 is 12.")]
    assert chat.asked == []


async def test_a_tool_goes_before_the_rules() -> None:
    parts = await said(Mind(), "What is the weather in Paris?", tools=[WEATHER])
    assert parts == [Say(LEAD_IN), Call("get_weather", '{"city": "Paris"}')]


async def test_a_question_for_an_argument_can_be_ended() -> None:
    asked = await said(Mind(), "How is the weather?", tools=[WEATHER])
    assert asked == [Say("For the weather, which city?")]
    past = [Line("user", "How is the weather?"), Line("assistant", "For the weather, which city?")]
    assert await said(Mind(), "Never mind.", past=past, tools=[WEATHER]) == [Say("Okay.")]


async def test_what_no_rule_knows_is_asked_of_the_model() -> None:
    question = "Who wrote Hamlet?"
    assert await said(Mind(chat=FakeChat(Say("He did. "), Say("Then."))), question) == [Say("He did. "), Say("Then.")]
    small = await said(Mind(small=FakeSmall("Shakespeare. Surely.")), question)
    assert small == [Say("Shakespeare. "), Say("Surely."), Counted(9, 2)]


async def test_a_chat_that_only_calls_a_tool_is_led_in() -> None:
    parts = await said(Mind(chat=FakeChat(Call("f", "{}"))), "Who wrote Hamlet?")
    assert parts == [Say(LEAD_IN), Call("f", "{}")]
    counted = Counted(5, 1)
    assert await said(Mind(chat=FakeChat(counted, Call("f", "{}"))), "Who wrote Hamlet?") == [counted, *parts]


async def test_a_chat_that_only_counts_has_not_answered() -> None:
    parts = await said(Mind(chat=FakeChat(Counted(5, 0))), "Who wrote Hamlet?")
    assert [type(part) for part in parts] == [Counted, Say, Say]


async def test_with_rules_off_the_chat_answers_everything() -> None:
    chat = FakeChat(Say("Twelve."))
    assert await said(Mind(chat=chat, with_rules=False), "What is 7 plus 5?") == [Say("Twelve.")]


async def test_a_model_that_fails_leaves_an_honest_answer() -> None:
    honest = [Say("I heard you say: Who wrote Hamlet. "), Say("I do not know about that yet.")]
    for mind in (Mind(), Mind(chat=FakeChat()), Mind(small=FakeSmall(None)), Mind(small=FakeSmall(""))):
        assert await said(mind, "Who wrote Hamlet?") == honest


async def test_half_an_answer_is_better_than_none() -> None:
    assert await said(Mind(), "What is 1 plus 1? And who wrote Hamlet?") == [Say("1 plus 1 is 2.")]


async def test_nobody_asked_is_greeted() -> None:
    assert "".join(part.text for part in await said(Mind(), "") if isinstance(part, Say)) == NOTHING_ASKED


async def test_a_tools_output_is_said_by_the_chat_or_read_out() -> None:
    scene = Scene("", [Line("tool", "sunny", call_id="c")])
    chat = FakeChat(Say("The sun is out."))
    assert [part async for part in Mind(chat=chat).tell_output(scene, "sunny")] == [Say("The sun is out.")]
    assert [part async for part in Mind(chat=FakeChat()).tell_output(scene, "sunny")] == [Say("Sunny.")]
    assert [part async for part in Mind().tell_output(scene, "sunny")] == [Say("Sunny.")]


async def test_closing_closes_the_chat() -> None:
    chat = FakeChat()
    await Mind(chat=chat).close()
    await Mind().close()
    assert chat.closed


def test_an_admission_repeats_what_was_heard() -> None:
    assert admission("The sky, please. ") == "I heard you say: The sky, please. I do not know about that yet."
    assert admission("  ") == "I did not hear anything."
