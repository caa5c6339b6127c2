"""Numbers, spelled and written."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.cascade.dialogue.numerals import numbers_in, say_number, tokens_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("seven plus five", [7, 5]),
        ("twenty-one and thirty two", [21, 32]),
        ("one hundred and five", [105]),
        ("a hundred", [100]),
        ("two thousand three hundred", [2300]),
        ("one hundred twenty three thousand", [123_000]),
        ("3 million", [3_000_000]),
        ("1,250 and 3.5", [1250, Fraction(7, 2)]),
        ("three point one four", [Fraction(157, 50)]),
        ("-5 is not 5-3", [-5, 5, 3]),
        ("two three", [2, 3]),
        ("nothing here", []),
    ],
)
def test_numbers_are_found(text: str, numbers: list[int]) -> None:
    assert numbers_in(text) == numbers


def test_words_and_operators_stay() -> None:
    assert tokens_of("What's 2 + two?") == ["what's", Fraction(2), "+", Fraction(2)]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Fraction(12), "12"),
        (Fraction(-2), "minus 2"),
        (Fraction(12_345), "12,345"),
        (Fraction(5, 2), "2.5"),
        (Fraction(10, 3), "3.3333"),
        (Fraction(1, 1000), "0.001"),
    ],
)
def test_a_number_is_written_as_it_is_read(value: Fraction, said: str) -> None:
    assert say_number(value) == said


@given(st.integers(0, 10**9))
def test_digits_are_read_back(number: int) -> None:
    assert numbers_in(f"about {number:,} things") == [number]
