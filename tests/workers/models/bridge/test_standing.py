"""What a successor is left survives the log, and an event's name says what had been told with it."""

from __future__ import annotations

import pytest

from workers.models.bridge.standing import KEPT, Answer, Sent, Standing, Utterance, read_event_id

pytestmark = pytest.mark.unit


def test_a_standing_is_packed_and_unpacked() -> None:
    standing = Standing(
        url="ws://a",
        session_id="s",
        incarnation=2,
        token=b"sealed",
        seq=17,
        answers={"resp_1": Answer(epoch=1, turn=3, untold="x")},
        utterances={"item_1": Utterance(item_id="mine", committed=True)},
        held_outputs=[("call_1", "7")],
    )
    assert Standing.unpacked(standing.packed()) == standing


@pytest.mark.parametrize("memory", [b"", b"x", b"\x80", Standing(v=99, session_id="s").packed()])
def test_anything_else_is_nothing(memory: bytes) -> None:
    assert Standing.unpacked(memory) is None


def test_two_standings_share_nothing() -> None:
    one, other = Standing(), Standing()
    one.answers["resp_1"] = Answer(epoch=0)
    one.sent.note_turn("item_1")
    assert (other.answers, other.sent.turns) == ({}, [])


def test_a_name_says_all_that_was_told_before_it() -> None:
    sent = Sent(audio_ms=1_200, epoch=3)
    sent.note_turn("item_1")
    sent.note_asked("resp_1")
    assert read_event_id(sent.event_id("ask")) == ("ask", 1_200, 3, "item_1", "resp_1")


@pytest.mark.parametrize("text", ["", "event_1", '["ask"]', '{"a": 1}'])
def test_a_name_of_somebody_else_says_nothing(text: str) -> None:
    assert read_event_id(text) is None


def test_what_was_told_after_the_last_that_arrived_is_forgotten() -> None:
    sent = Sent()
    names = []
    for number in range(3):
        sent.audio_ms = number * 100
        sent.note_turn(f"item_{number}")
        names.append(sent.event_id("commit"))
    sent.note_asked("resp_1")
    sent.arrived(names[1])
    assert sent == Sent(audio_ms=100, turns=["item_0", "item_1"])


def test_a_name_that_is_not_remembered_is_known_from_then_on() -> None:
    sent = Sent()
    sent.arrived(Sent(audio_ms=40, turns=["item_9"], asked=["resp_9"]).event_id("ask"))
    assert sent == Sent(audio_ms=40, turns=["item_9"], asked=["resp_9"])


def test_only_the_newest_names_are_kept() -> None:
    sent = Sent()
    for number in range(KEPT + 3):
        sent.note_turn(f"item_{number}")
    assert len(sent.turns) == KEPT
    assert sent.turns[-1] == f"item_{KEPT + 2}"
