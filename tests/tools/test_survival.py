"""What a lost gateway did to a call, counted from what the caller heard."""

from __future__ import annotations

import pytest

from duplex_es.client.events import view
from duplex_es.tools.conversation import Conversation, Heard
from duplex_es.tools.survival import Survival

pytestmark = pytest.mark.unit


def heard(*seqs: int, resumed_at_s: float | None = None) -> Conversation:
    """A call that heard frames of these seqs."""
    frames = [Heard(10.0, view({"type": "rate_limits.updated", "server_event_seq": seq})) for seq in seqs]
    if resumed_at_s is not None:
        frames.append(Heard(resumed_at_s, view({"type": "connection.resumed", "attempt": 1})))
    return Conversation(heard=frames)


def test_a_call_that_heard_every_frame_once_is_complete() -> None:
    survival = Survival.of(heard(1, 2, 3, resumed_at_s=20.25), "gw-1", 20.0)

    assert survival.is_complete and survival.went_on
    assert (survival.frames, survival.pause_ms) == (3, 250.0)
    assert ("frames lost, repeated", "0, 0") in survival.rows()


def test_a_hole_and_a_repeat_are_counted() -> None:
    survival = Survival.of(heard(1, 2, 2, 5, resumed_at_s=20.0), "gw-1", 20.0)

    assert (survival.missing, survival.repeated, survival.is_complete) == (2, 1, False)


def test_a_call_that_heard_nothing_is_not_complete() -> None:
    survival = Survival.of(heard())

    assert not survival.is_complete and not survival.went_on
    assert ("call resumed elsewhere after", "(not at all)") in survival.rows()
