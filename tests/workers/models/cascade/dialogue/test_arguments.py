"""One argument out of one utterance."""

from __future__ import annotations

import pytest

from workers.models.cascade.dialogue.arguments import read_argument

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("name", "schema", "said", "value"),
    [
        ("city", {"type": "string"}, "weather in the city of light", "city of light"),
        ("city", {"type": "string"}, "What's the weather like in New York today?", "New York"),
        ("location", {"type": "string"}, "Is Paris sunny, like London?", "Paris"),
        ("location", {"type": "string"}, "Paris or London?", "London"),
        ("origin", {"type": "string"}, "a flight from Rome to Oslo", "Rome"),
        ("destination", {"type": "string"}, "a flight from Rome to Oslo", "Oslo"),
        ("date", {"type": "string"}, "a table for next Friday", "next Friday"),
        ("time", {"type": "string"}, "wake me at 7:30 am", "7:30 am"),
        ("topic", {"type": "string"}, "tell me about blue whales", "blue whales"),
        ("count", {"type": "integer"}, "give me three of them", 3),
        ("price", {"type": "number"}, "under 2.5 euros", 2.5),
        ("count", {"type": "integer"}, "give me 2.5", None),
        ("on", {"type": "boolean"}, "turn the lights off", False),
        ("on", {"type": "boolean"}, "turn the lights on", True),
        ("on", {"type": "boolean"}, "the lights", None),
        ("color", {"type": "string", "enum": ["red", "light_blue"]}, "make it light blue", "light_blue"),
        ("color", {"type": "string", "enum": ["red"], "default": "red"}, "make it green", "red"),
        ("size", {"type": ["integer", "null"]}, "size 42", 42),
        ("filters", {"type": "object"}, "anything", None),
        ("city", {"type": "string"}, "how is it?", None),
    ],
)
def test_an_argument_is_read(name: str, schema: dict[str, object], said: str, value: object) -> None:
    assert read_argument(name, schema, said) == value


def test_what_another_argument_took_is_not_taken_again() -> None:
    assert read_argument("second", {"type": "integer"}, "from 3 to 5", ["3"]) == 5
    assert read_argument("where", {"type": "string"}, "in Rome or in Oslo", ["Rome or"]) == "Oslo"


def test_free_text_takes_the_whole_utterance_only_when_it_must() -> None:
    said = "Cheap flights, please."
    assert read_argument("query", {"type": "string"}, said) is None
    assert read_argument("query", {"type": "string"}, said, whole=said) == "Cheap flights"
