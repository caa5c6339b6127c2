"""One utterance, one answer."""

from __future__ import annotations

import pytest

from workers.models.cascade.dialogue.rules import answer_by_rules
from workers.models.cascade.dialogue.scene import Scene

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Hello, my name is Martin. What is 7 plus 5?", "Hello Martin, nice to meet you. 7 plus 5 is 12."),
        ("Hello. What is 7 plus 5?", "7 plus 5 is 12."),
        ("Hello.", "Hello. How can I help you?"),
        ("Thank you, goodbye.", "You are welcome. Goodbye."),
        ("How many feet are in a mile?", "1 mile is 5280 feet."),
        ("Stop. Stop.", "Okay."),
    ],
)
def test_every_sentence_is_answered_once(said: str, answer: str) -> None:
    assert answer_by_rules(Scene(said)) == (answer, True)


def test_what_no_rule_knows_is_left_to_others() -> None:
    assert answer_by_rules(Scene("What is the capital of France?")) == (None, False)
    assert answer_by_rules(Scene("What is 1 plus 1? And who wrote Hamlet?")) == ("1 plus 1 is 2.", False)


def test_a_short_remark_beside_an_answer_is_no_reason_to_ask_others() -> None:
    assert answer_by_rules(Scene("Fine. What is 1 plus 1?")) == ("1 plus 1 is 2.", True)
