"""Which tool, with what arguments."""

from __future__ import annotations

import json

import pytest

from workers.models.cascade.dialogue.scene import Line, Scene, Tool
from workers.models.cascade.dialogue.tools import wanted_tool

pytestmark = pytest.mark.unit


def tool(name: str, description: str, *required: str, **properties: object) -> Tool:
    return Tool(name, description, {"type": "object", "properties": properties, "required": list(required)})


STRING = {"type": "string"}
TOOLS = [
    tool(
        "get_weather",
        "Get the current weather for a city",
        "city",
        city=STRING,
        unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
        date=STRING,
    ),
    tool("set_timer", "Start a countdown", "minutes", minutes={"type": "integer"}, label=STRING),
    tool("sendMessage", "Sends a text to a contact", "recipient", "message", recipient=STRING, message=STRING),
    tool("roll_dice", "Roll a die"),
]


@pytest.mark.parametrize(
    ("said", "name", "arguments"),
    [
        ("What's the weather in Paris tomorrow?", "get_weather", {"city": "Paris", "date": "tomorrow"}),
        ("Weather in New York in Celsius, please.", "get_weather", {"city": "New York", "unit": "celsius"}),
        ("Set a timer for twenty five minutes.", "set_timer", {"minutes": 25}),
        ("Set a timer called pasta for 5 minutes.", "set_timer", {"minutes": 5, "label": "pasta"}),
        (
            "Send a message to Anna saying I will be late.",
            "sendMessage",
            {"recipient": "Anna", "message": "I will be late"},
        ),
        ("Please roll the dice.", "roll_dice", {}),
    ],
)
def test_a_tool_is_called_with_what_was_said(said: str, name: str, arguments: dict[str, object]) -> None:
    wanted = wanted_tool(Scene(said, tools=TOOLS))
    assert wanted is not None and wanted.call is not None
    assert (wanted.call.name, json.loads(wanted.call.arguments)) == (name, arguments)


@pytest.mark.parametrize("said", ["What is seven plus five?", "What time is it?", "My name is Martin.", "", "Set it."])
def test_other_words_call_nothing(said: str) -> None:
    assert wanted_tool(Scene(said, tools=TOOLS)) is None


def test_a_missing_argument_is_asked_for_and_its_answer_completes_the_call() -> None:
    asked = wanted_tool(Scene("How is the weather?", tools=TOOLS))
    assert asked is not None and asked.call is None
    assert asked.question == "For the weather, which city?"
    past = [Line("user", "How is the weather?"), Line("assistant", asked.question)]
    wanted = wanted_tool(Scene("Paris.", past, tools=TOOLS))
    assert wanted is not None and wanted.call is not None
    assert wanted.call.arguments == '{"city": "Paris"}'


def test_without_tools_nothing_is_wanted() -> None:
    assert wanted_tool(Scene("What's the weather in Paris?")) is None
