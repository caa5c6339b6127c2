"""The words of a conversation, and how a new session is told them."""

from __future__ import annotations

import pytest

from duplex_es.model import HistoryItem
from workers.models.bridge.past import MOST_ITEMS, Past, as_items

pytestmark = pytest.mark.unit


def said(role: str, text: str, item_id: str = "i", **fields: str) -> HistoryItem:
    return HistoryItem(item_id=item_id, role=role, text=text, **fields)


def test_an_answer_is_remembered_when_it_is_over() -> None:
    past = Past([said("user", "hi")])
    past.speak("Well, ")
    past.speak("hello.")
    past.end_answer("resp_1")
    assert [item.text for item in past.items] == ["hi", "Well, hello."]


def test_of_an_interrupted_answer_only_what_was_heard() -> None:
    past = Past()
    past.speak("Well, hello.")
    past.heard_only("resp_1", "Well,")
    past.speak("Next.")
    past.end_answer("resp_2")
    past.heard_only("resp_2", "Ne")
    assert [item.text for item in past.items] == ["Well,", "Ne"]


def test_silence_is_not_remembered_and_the_past_is_bounded() -> None:
    past = Past()
    past.add(said("user", ""))
    assert past.items == []
    for number in range(MOST_ITEMS + 5):
        past.add(said("user", str(number)))
    assert (len(past.items), past.items[0].text) == (MOST_ITEMS, "5")


def test_a_new_session_is_told_everything_that_can_be_told() -> None:
    told = as_items(
        [
            said("system", "Be brief.", "a"),
            said("user", "What time is it?", "b"),
            said("assistant", "{}", "c", call_id="call_1", name="clock"),
            said("tool", "noon", "d", call_id="call_1"),
            said("assistant", "It is noon.", "e"),
            said("assistant", "{}", "f", call_id="call_2", name="clock"),
            said("user", "", "g"),
        ]
    )
    kinds = [(item.item.type, item.item.role) for item in told]
    assert [kind for kind, _ in kinds] == ["message", "message", "function_call", "function_call_output", "message"]
    assert [told[0].item.id, told[1].item.id] == ["a", "b"]
    assert told[3].item.output == "noon"
    assert told[4].item.content[0].type == "output_text"
