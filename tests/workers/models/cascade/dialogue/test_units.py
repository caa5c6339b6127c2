"""Conversions by voice."""

from __future__ import annotations

import pytest

from workers.models.cascade.dialogue.units import answer_conversion

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("How many kilometers are five miles?", "5 miles are 8.05 kilometers."),
        ("Convert 70 Fahrenheit to Celsius.", "70 degrees Fahrenheit are 21.11 degrees Celsius."),
        ("What is 20 degrees Celsius in Fahrenheit?", "20 degrees Celsius are 68 degrees Fahrenheit."),
        ("How many feet are in a mile?", "1 mile is 5280 feet."),
        ("How many minutes are in a day?", "1 day is 1440 minutes."),
        ("Convert 5 pounds to meters.", "Pounds cannot be turned into meters."),
        ("How many metres is 1 km?", "1 kilometer is 1000 meters."),
    ],
)
def test_a_conversion_is_answered(asked: str, answer: str) -> None:
    assert answer_conversion(asked) == answer


@pytest.mark.parametrize("said", ["What is 3 feet?", "I walked two miles.", "What time is it?", "How many miles?"])
def test_other_words_are_no_conversion(said: str) -> None:
    assert answer_conversion(said) is None
