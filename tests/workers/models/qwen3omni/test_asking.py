"""Conversations as the engine is asked them."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.model import Generate, HistoryItem, ModelRefused, OpenModel, ReconfigureModel
from workers.models.qwen3omni.asking import Wish, rewished, turn_of, wish_of

pytestmark = pytest.mark.unit

HISTORY = (
    HistoryItem(item_id="a", role="user", text="", spoken=True),
    HistoryItem(item_id="b", role="assistant", text='{"on": true}', call_id="c1", name="light"),
    HistoryItem(item_id="c", role="tool", text="done", call_id="c1"),
    HistoryItem(item_id="d", role="assistant", text="It is on."),
    HistoryItem(item_id="e", role="user", text="", spoken=True),
    HistoryItem(item_id="f", role="user", text="thanks"),
)


def asked(wish: Wish = Wish()) -> tuple[dict[str, Any], list[bytes]]:  # noqa: B008
    return turn_of(HISTORY, {"a": b"sound"}, wish, session_id="s", seed="s:0", voice="Ethan")


def opening(**fields: Any) -> OpenModel:
    return OpenModel(session_id="s", incarnation=0, epoch=0, **fields)


def test_a_conversation_keeps_its_order_and_its_sounds() -> None:
    turn, sounds = asked()
    assert sounds == [b"sound"]
    assert turn["messages"] == [
        {"role": "user", "text": "", "sound": 0},
        {"role": "assistant", "text": '{"on": true}', "call": "light"},
        {"role": "tool", "text": "done"},
        {"role": "assistant", "text": "It is on."},
        {"role": "user", "text": "thanks"},
    ], "what was spoken and is not known any more is left out"
    assert (turn["session_id"], turn["seed"], turn["voice"], turn["aloud"]) == ("s", "s:0", "Ethan", True)


def test_a_clients_own_seed_and_voice_win() -> None:
    turn, _ = asked(wish_of(opening(voice="chelsie", extra_body={"seed": 7})))
    assert (turn["seed"], turn["voice"]) == ("7", "chelsie")


def test_tools_are_shown_nested() -> None:
    nested = {"type": "function", "function": {"name": "g"}}
    turn, _ = asked(Wish(tools=({"type": "function", "name": "f", "parameters": {}}, nested)))
    assert turn["tools"] == [{"type": "function", "function": {"name": "f", "parameters": {}}}, nested]


def test_settings_are_taken_from_where_clients_put_them() -> None:
    wish = wish_of(opening(temperature=0.5, extra_body={"top_p": 0.9, "top_k": 3, "other": "ignored"}))
    assert wish.settings == {"temperature": 0.5, "top_p": 0.9, "top_k": 3}


@pytest.mark.parametrize("value", [True, "x", -1, None])
def test_settings_out_of_range_are_refused_by_name(value: object) -> None:
    with pytest.raises(ModelRefused, match=r"session\.extra_body\.top_p must be a number from 0 to 1"):
        wish_of(opening(extra_body={"top_p": value}))


def test_one_answer_may_want_it_otherwise() -> None:
    before = wish_of(opening(instructions="be kind", voice="Aiden", tools=({"name": "f"},), temperature=0.5))
    generate = Generate(epoch=0, response_id="r", history=(), modalities=("text",), max_output_tokens=9)
    wish = rewished(before, generate)
    assert (wish.instructions, wish.voice, wish.tools, wish.aloud) == ("be kind", "Aiden", ({"name": "f"},), False)
    assert wish.settings == {"temperature": 0.5, "max_tokens": 9}
    no_tools = Generate(epoch=0, response_id="r", history=(), tool_choice="none")
    assert rewished(before, no_tools).tools == ()
    assert rewished(before, ReconfigureModel(voice="Ethan")).voice == "Ethan"
