"""Sums by voice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.cascade.dialogue.arithmetic import answer_sum

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("What is seven plus five?", "7 plus 5 is 12."),
        ("What is 7 + 5?", "7 plus 5 is 12."),
        ("Can you tell me what seven times six is, please?", "7 times 6 is 42."),
        ("What's 10 divided by 4?", "10 divided by 4 is 2.5."),
        ("ten minus twelve", "10 minus 12 is minus 2."),
        ("What is two plus three times four?", "2 plus 3 times 4 is 14."),
        ("20% of 50", "20 percent of 50 is 10."),
        ("half of 50", "Half of 50 is 25."),
        ("the square root of 16", "The square root of 16 is 4."),
        ("What is the square root of 2?", "The square root of 2 is about 1.4142."),
        ("12 squared", "12 squared is 144."),
        ("2 to the power of 10", "2 to the power of 10 is 1024."),
        ("add 5 and 3", "5 plus 3 is 8."),
        ("ten divided by zero", "I cannot divide by zero."),
        ("9 to the power of 60", "That number is too big for me to say."),
        ("the square root of minus 4", "A negative number has no real square root."),
        ("0 to the power of minus 1", "That power is too much for me."),
    ],
)
def test_a_sum_is_answered(asked: str, answer: str) -> None:
    assert answer_sum(asked) == answer


@pytest.mark.parametrize(
    "said",
    ["What is my name?", "What time is it?", "one", "I have 2 plus points.", "5 and 3", "two plus", "plus plus", ""],
)
def test_other_words_are_no_sum(said: str) -> None:
    assert answer_sum(said) is None


@given(st.integers(0, 999), st.integers(0, 999))
def test_sums_are_right(left: int, right: int) -> None:
    assert answer_sum(f"what is {left} plus {right}") == f"{left} plus {right} is {left + right}."
