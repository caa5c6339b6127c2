"""Rules anybody would follow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from workers.models.cascade.dialogue import smalltalk
from workers.models.cascade.dialogue.scene import Line, Manner, Scene, Tool

pytestmark = pytest.mark.unit

MORNING, EVENING = datetime(2026, 3, 4, 0, 5), datetime(2026, 11, 30, 15, 30)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Hello, my name is Martin.", "Martin"),
        ("my name is martin", "Martin"),
        ("My name is Mary Ann and I like tea.", "Mary Ann"),
        ("Hi, I'm Anna.", "Anna"),
        ("I'm Anna and I like tea.", "Anna"),
        ("Call me Bob, please.", "Bob"),
        ("I'm sorry.", None),
        ("I'm Happy to hear that.", None),
        ("My name is not important.", None),
        ("What is my name?", None),
    ],
)
def test_a_name_is_heard(line: str, name: str | None) -> None:
    assert smalltalk.known_name([line]) == name


def test_the_last_name_given_holds() -> None:
    lines = ["My name is Martin.", "What is my name?", "No, call me Bob.", "Thanks."]
    assert smalltalk.known_name(lines) == "Bob"


@pytest.mark.parametrize(
    ("rule", "said", "answer"),
    [
        (smalltalk.name_given, "My name is Martin.", "Hello Martin, nice to meet you."),
        (smalltalk.name_asked, "What is my name?", "Your name is Laura."),
        (smalltalk.greeting, "Hello!", "Hello Laura. How can I help you?"),
        (smalltalk.greeting, "Hello, what is seven plus five?", None),
        (smalltalk.who_are_you, "Who are you?", "I am Ada."),
        (smalltalk.how_are_you, "How are you today?", "I am doing well, thank you. How can I help you?"),
        (smalltalk.time_asked, "What time is it?", "It is 3:30 PM."),
        (smalltalk.date_asked, "What day is it today?", "Today is Monday, November 30, 2026."),
        (smalltalk.date_asked, "What year is it?", "It is the year 2026."),
        (smalltalk.date_asked, "What month is it?", "It is November."),
        (smalltalk.repeat, "Can you say that again?", "Nice to meet you."),
        (smalltalk.repeat, "Repeat after me: good morning.", "good morning."),
        (smalltalk.repeat, "Please try again.", None),
        (smalltalk.pace, "Slower, please.", "Okay, I will speak more slowly."),
        (smalltalk.pace, "I can't hear you.", "Okay, I will speak louder."),
        (smalltalk.counting, "Count to five.", "1, 2, 3, 4, 5."),
        (smalltalk.counting, "Count from 3 to 1.", "3, 2, 1."),
        (smalltalk.story, "Tell me a joke.", smalltalk.JOKE),
        (smalltalk.story, "Tell me a story.", smalltalk.STORY),
        (smalltalk.thanks, "Thank you.", "You are welcome."),
        (smalltalk.goodbye, "Goodbye!", "Goodbye, Laura."),
        (smalltalk.stop, "Stop.", "Okay."),
        (smalltalk.stop, "The bus stops here.", None),
        (smalltalk.yes_or_no, "Yes, please.", "Good. What would you like to know?"),
        (smalltalk.yes_or_no, "No.", "All right. Just tell me when you need something."),
        (smalltalk.yes_or_no, "Yes, what time is it?", None),
    ],
)
def test_a_rule_answers(rule: Callable[[Scene, str], str | None], said: str, answer: str | None) -> None:
    past = [Line("user", "My name is Laura."), Line("assistant", "Nice to meet you.")]
    assert rule(Scene(said, past, EVENING, "You are Ada, a guide."), said) == answer


def test_what_is_not_known_is_said_so() -> None:
    scene = Scene("", [], MORNING)
    assert smalltalk.name_asked(scene, "Who am I?") == "You have not told me your name yet."
    assert smalltalk.repeat(scene, "Pardon?") == "I have not said anything yet."
    assert smalltalk.who_are_you(scene, "What are you?") is not None
    assert smalltalk.time_asked(scene, "Tell me the time.") == "It is 12:05 AM."


def test_counting_has_an_end() -> None:
    answer = smalltalk.counting(Scene(""), "Count to one million.") or ""
    assert answer.endswith(", 30.")


def test_help_names_the_sessions_tools() -> None:
    answer = smalltalk.help_asked(Scene("", tools=[Tool("get_weather")]), "What can you do?") or ""
    assert answer.endswith("I can also use get weather.")


def test_every_request_changes_the_manner_by_a_step_within_bounds() -> None:
    assert smalltalk.manner_of([]) == Manner(1.0, 1.0)
    assert smalltalk.manner_of(["Slower.", "Slower, please.", "Faster."]) == Manner(0.85, 1.0)
    assert smalltalk.manner_of(["Speak up."]).gain == pytest.approx(1.4)
    extreme = smalltalk.manner_of(["Slow down. "] * 20 + ["Louder!"] * 20)
    assert extreme == Manner(0.6, 2.5)
