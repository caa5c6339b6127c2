"""Tool outputs aloud."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.cascade.dialogue.outputs import LONGEST, say_output

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("it is sunny", "It is sunny."),
        ('"it is sunny!"', "It is sunny!"),
        ('{"temperature": 21.5, "condition": "sunny"}', "The temperature is 21.5 and the condition is sunny."),
        ('{"result": "It is sunny", "source": "x"}', "It is sunny."),
        ('{"isOpen": true, "nextBus": null}', "The is open is yes."),
        ('{"ok": true}', "Done."),
        ('{"success": false}', "That did not work."),
        ('{"error": "no such city"}', "That did not work: no such city."),
        ("[1, 2, 3]", "I found 1, 2 and 3."),
        ("[1, 2, 3, 4, 5, 6, 7]", "I found 1, 2, 3, 4, 5, and 2 more."),
        ("[]", "I found nothing."),
        ('{"forecast": {"high": 20, "low": -3}}', "The forecast is high 20 and low minus 3."),
        ("12.5", "The answer is 12.5."),
        ("null", "Done."),
        ("false", "That did not work."),
        ("", "Done."),
        ("{", "{."),
    ],
)
def test_an_output_is_said_in_words(output: str, said: str) -> None:
    assert say_output(output) == said


def test_a_long_output_is_cut() -> None:
    assert len(say_output("word " * 1000)) <= LONGEST + 3


PLAIN = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_anything_can_be_said(value: object) -> None:
    assert say_output(json.dumps(value)).strip()
