"""What an answer is made from."""

from __future__ import annotations

import pytest

from workers.models.cascade.dialogue.scene import Line, Scene, Tool, read_tools

pytestmark = pytest.mark.unit

PAST = [
    Line("user", "first"),
    Line("assistant", "hello"),
    Line("assistant", "{}", call_id="c", name="f"),
    Line("tool", "x", call_id="c"),
]


def test_the_callers_lines_end_with_the_utterance() -> None:
    assert Scene("now", PAST).user_lines() == ["first", "now"]


def test_what_was_said_last_is_no_call() -> None:
    assert Scene("now", PAST).last_said() == "hello"
    assert Scene("now").last_said() == ""


def test_tools_are_read_flat_and_wrapped() -> None:
    schema = {"type": "object"}
    tools = read_tools(
        [
            {"type": "function", "name": "a", "description": "A", "parameters": schema},
            {"type": "function", "function": {"name": "b", "parameters": None}},
            {"type": "function"},
            {"name": 7},
        ]
    )
    assert tools == (Tool("a", "A", schema), Tool("b"))
