"""What a session that is answered turn by turn remembers, and for how long."""

from __future__ import annotations

import numpy as np
import pytest

from duplex_es.model import HistoryItem
from workers.models.memory import LONGEST_TURN_MS, MOST_SPEECH_MS, Memory

pytestmark = pytest.mark.unit


def sound(ms: int, level: float = 0.5) -> bytes:
    return np.full(ms * 16, level, "<f4").tobytes()


def item(item_id: str, role: str = "user", text: str = "hi") -> HistoryItem:
    return HistoryItem(item_id=item_id, role=role, text=text)


def test_a_turn_is_what_was_heard_since_the_last_one() -> None:
    memory = Memory()
    memory.hear(sound(100), 100)
    memory.hear(sound(50), 150)
    memory.end_turn("a", None)
    memory.hear(sound(20), 170)
    memory.end_turn("b", None)
    assert {name: len(pcm) // 32 for name, pcm in memory.speech.items()} == {"a": 150, "b": 20}


def test_a_turn_begins_where_the_detector_says() -> None:
    memory = Memory()
    memory.hear(sound(5_000, 0.1) + sound(1_000, 0.5), 6_000)
    memory.end_turn("a", 5_000)
    pcm = np.frombuffer(memory.speech["a"], "<i2")
    assert pcm.size == 16_000
    assert pcm.min() == 16_384


def test_cleared_or_silent_sound_is_no_speech() -> None:
    memory = Memory()
    memory.hear(sound(100), 100)
    memory.clear()
    memory.end_turn("a", None)
    memory.hear(sound(100, 0.0), 200)
    memory.end_turn("b", None)
    assert memory.speech == {}
    assert [one.item_id for one in memory.told()] == ["a", "b"]


def test_the_sessions_history_goes_first_and_turns_it_does_not_know_come_after_it() -> None:
    memory = Memory([item("old")])
    memory.end_turn("a", None)
    assert [one.item_id for one in memory.told([item("x"), item("y")])] == ["x", "y", "a"]
    assert [one.item_id for one in memory.told([item("x"), item("y")])] == ["x", "y"], "told once"
    memory.end_turn("b", None)
    assert [one.item_id for one in memory.told([item("x"), item("b")])] == ["x", "b"]


def test_without_a_history_the_session_remembers_by_itself() -> None:
    memory = Memory([item("old")])
    memory.end_turn("a", None)
    memory.add(item("b", "assistant", "A long answer."))
    memory.add(item("c", "assistant", ""))
    memory.heard_only("A long")
    assert [(one.item_id, one.text) for one in memory.told()] == [("old", "hi"), ("a", ""), ("b", "A long")]


def test_a_caller_that_never_stops_costs_a_bounded_amount() -> None:
    memory = Memory()
    for second in range(LONGEST_TURN_MS // 1000 + 20):
        memory.hear(sound(1_000), second * 1_000)
    memory.end_turn("a", None)
    assert len(memory.speech["a"]) == LONGEST_TURN_MS * 32


def test_the_oldest_speech_is_forgotten_first() -> None:
    memory = Memory()
    for name in ("a", "b", "c"):
        for _ in range(LONGEST_TURN_MS // 1000):
            memory.hear(sound(1_000), 0)
        memory.end_turn(name, None)
    assert list(memory.speech) == ["b", "c"]
    assert sum(len(pcm) // 32 for pcm in memory.speech.values()) <= MOST_SPEECH_MS
