"""Conversations as ids."""

from __future__ import annotations

from typing import Any

import pytest

from workers.engine.contract import EngineRefused
from workers.neural_qwen3omni import shapes
from workers.neural_qwen3omni.prompt import Markers, Prompter, vectors_of
from workers.neural_qwen3omni.vocabulary import ToyVocabulary

pytestmark = pytest.mark.unit

WORDS = ToyVocabulary()
MARKERS = Markers(
    im_start=shapes.IM_START,
    im_end=shapes.IM_END,
    system=shapes.SYSTEM,
    user=shapes.USER,
    assistant=shapes.ASSISTANT,
    audio=shapes.AUDIO,
    audio_start=shapes.AUDIO_START,
    audio_end=shapes.AUDIO_END,
)
NAMES = {
    shapes.IM_START: "<start>",
    shapes.IM_END: "<end>",
    shapes.SYSTEM: "system",
    shapes.USER: "user",
    shapes.ASSISTANT: "assistant",
    shapes.AUDIO: ".",
    shapes.AUDIO_START: "<sound>",
    shapes.AUDIO_END: "</sound>",
    shapes.TOOL_OPEN: "<call>",
    shapes.TOOL_CLOSE: "</call>",
    shapes.NEWLINE: "|",
}


def shown(*messages: dict[str, Any], samples: tuple[int, ...] = (), room: int = 10_000, **asked: Any) -> str:
    prompt = Prompter(WORDS, MARKERS).prompt({"messages": list(messages), **asked}, samples, room=room)
    assert len(prompt.ids) == len(prompt.is_user)
    return "".join(NAMES.get(number) or WORDS.decode([number]) for number in prompt.ids)


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "text": text, **more}


END = "<start>assistant|"


def test_a_conversation_is_framed_as_the_model_knows_it() -> None:
    assert shown(said("hi"), said("hello", "assistant"), said("bye"), instructions="be kind") == (
        "<start>system|be kind<end>|<start>user|hi<end>|<start>assistant|hello<end>|<start>user|bye<end>|" + END
    )


def test_what_was_spoken_has_a_place_for_each_vector() -> None:
    assert shown(said("hi", sound=0), samples=(16_000,)) == (f"<start>user|<sound>{'.' * 13}</sound>hi<end>|{END}")


@pytest.mark.parametrize(
    ("samples", "vectors"), [(0, 2), (1600, 2), (16_000, 13), (32_000, 26), (40_000, 33), (16_160, 14), (480_000, 390)]
)
def test_vectors_are_counted_as_the_encoder_makes_them(samples: int, vectors: int) -> None:
    assert vectors_of(samples) == vectors


def test_tools_calls_and_their_outputs_are_in_the_models_own_form() -> None:
    text = shown(
        said('{"on": true}', "assistant", call="light"),
        said("done", "tool"),
        tools=[{"type": "function", "function": {"name": "light"}}],
    )
    assert '<tools>|{"type": "function", "function": {"name": "light"}}|</tools>' in text
    assert '<call>|{"name": "light", "arguments": {"on": true}}|</call>' in text
    assert "<start>user|<tool_response>|done|</tool_response><end>|" in text


def test_the_talker_listens_to_what_callers_said_only() -> None:
    asked = {"messages": [said("ab"), said("cd", "assistant"), said("ef")], "instructions": "xy"}
    prompt = Prompter(WORDS, MARKERS).prompt(asked, [], room=1000)
    heard = [number for number, is_user in zip(prompt.ids, prompt.is_user, strict=True) if is_user]
    assert WORDS.decode(heard) == "abef"


def test_the_oldest_is_left_out_where_all_would_be_too_long_with_its_sound() -> None:  # V47
    old, new = said("old" * 10, sound=0), said("new", sound=1)
    asked = {"messages": [old, new], "instructions": "sys"}
    prompter = Prompter(WORDS, MARKERS)
    assert prompter.prompt(asked, [16_000, 16_000], room=200).sounds == (0, 1)
    prompt = prompter.prompt(asked, [16_000, 16_000], room=60)
    assert prompt.sounds == (1,) and len(prompt.ids) <= 60
    with pytest.raises(EngineRefused, match="longer than the 20 tokens"):
        prompter.prompt(asked, [16_000, 16_000], room=20)
