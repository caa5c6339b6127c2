"""The client's state without I/O."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.client.config import SessionConfig
from duplex_es.client.events import DuplexEvent
from duplex_es.client.machine import FINAL_RESUME_CODES, ClientMachine, Phase, ResumeVerdict, acknowledgement
from tests.support.realtime_server import error, numbered, session_created, session_resumed

pytestmark = pytest.mark.unit


def machine(session_id: str | None = None) -> ClientMachine:
    return ClientMachine(model="cascade", config=SessionConfig(), session_id=session_id)


def hear(subject: ClientMachine, event: dict[str, Any]) -> DuplexEvent | None:
    return subject.receive(json.dumps(event))


def opened() -> ClientMachine:
    subject = machine()
    hear(subject, session_created())
    return subject


def settle(subject: ClientMachine, event: dict[str, Any]) -> ResumeVerdict:
    heard = hear(subject, event)
    assert heard is not None
    return subject.settle_resume(heard)


def test_the_opening_names_the_model_and_the_wanted_id() -> None:
    command = machine("sess_9").opening_command()
    assert command["type"] == "session.update"
    assert command["session"]["model"] == "cascade"
    assert command["session"]["session_id"] == "sess_9"


def test_a_created_session_is_open_and_known_by_the_servers_id() -> None:
    subject = opened()
    assert subject.phase is Phase.OPEN
    assert (subject.session_id, subject.resume_token, subject.incarnation) == ("sess_1", "rt_1", 0)
    assert subject.session_info["object"] == "realtime.session"


def test_a_resume_shows_the_newest_token_and_the_last_number_handed_on() -> None:
    subject = opened()
    hear(subject, numbered(1))
    hear(subject, numbered(2))
    assert subject.connection_lost()
    assert subject.resume_command() == {
        "type": "session.resume",
        "session_id": "sess_1",
        "incarnation": 0,
        "resume_token": "rt_1",
        "last_received_server_event_seq": 2,
    }
    assert settle(subject, session_resumed(token="rt_2")) is ResumeVerdict.RESUMED
    assert subject.phase is Phase.OPEN
    assert subject.resume_command()["resume_token"] == "rt_2"
    assert subject.session_info["object"] == "realtime.session"


@given(st.lists(st.integers(1, 12), max_size=60))
def test_no_replay_hands_an_event_on_twice_or_out_of_order(seqs: list[int]) -> None:
    subject = opened()
    heard = [event for seq in seqs if (event := hear(subject, numbered(seq)))]
    handed_on = [event.server_event_seq for event in heard]
    assert handed_on == sorted(set(handed_on))  # type: ignore[type-var]
    assert subject.last_seq == max(seqs, default=0)


def test_events_without_a_number_always_pass_and_are_not_acknowledged() -> None:
    subject = opened()
    hear(subject, numbered(5))
    for _ in range(2):
        event = hear(subject, {"type": "session.replaced_soon"})
        assert event is not None
        assert acknowledgement(event) is None


def test_a_numbered_event_is_acknowledged_by_its_number() -> None:
    event = hear(opened(), numbered(5))
    assert event is not None
    assert acknowledgement(event) == {"type": "session.event_ack", "server_event_seq": 5}


def test_an_updated_session_object_replaces_the_known_one() -> None:
    subject = opened()
    hear(subject, numbered(1, "session.updated", session={"id": "sess_1", "voice": "b"}))
    assert subject.session_info["voice"] == "b"


@pytest.mark.parametrize("code", sorted(FINAL_RESUME_CODES))
def test_a_final_refusal_ends_the_session_with_its_code(code: str) -> None:
    subject = opened()
    subject.connection_lost()
    assert settle(subject, error(code)) is ResumeVerdict.GIVE_UP
    assert (subject.phase, subject.end_reason, subject.ended_as_asked) == (Phase.ENDED, code, False)


def test_any_other_refusal_is_tried_again_and_any_other_event_waited_through() -> None:
    subject = opened()
    subject.connection_lost()
    assert settle(subject, error("internal_error")) is ResumeVerdict.TRY_AGAIN
    assert settle(subject, {"type": "x"}) is ResumeVerdict.PENDING
    assert subject.phase is Phase.RESUMING


def test_a_lost_journal_ends_a_resume() -> None:
    subject = opened()
    subject.connection_lost()
    assert settle(subject, {"type": "session.resync_required", "reason": "journal_gap"}) is ResumeVerdict.GIVE_UP
    assert subject.end_reason == "session.resync_required"


def test_a_session_that_needs_a_resync_goes_on_but_cannot_be_resumed() -> None:
    subject = opened()
    hear(subject, {"type": "session.resync_required", "reason": "journal_overflow"})
    assert subject.phase is Phase.OPEN
    assert not subject.connection_lost()
    assert subject.end_reason == "connection lost"


def test_a_session_without_a_token_ends_with_its_connection() -> None:
    subject = machine()
    hear(subject, session_created(token=None))
    assert not subject.connection_lost()
    assert not subject.ended_as_asked


def test_a_connection_lost_while_closing_is_an_ordinary_end() -> None:
    subject = opened()
    assert subject.close_command() == {"type": "session.close"}
    assert not subject.connection_lost()
    assert subject.ended_as_asked


@pytest.mark.parametrize(
    ("event", "reason", "as_asked"),
    [
        ({"type": "session.closed", "reason": "session_close", "server_event_seq": 9}, "session_close", True),
        ({"type": "session.expired", "reason": "idle_ttl_expired"}, "idle_ttl_expired", False),
        ({"type": "session.replaced", "attachment_generation": 1}, "session.replaced", False),
    ],
)
def test_an_ending_is_for_good_and_only_a_close_is_expected(event: dict[str, Any], reason: str, as_asked: bool) -> None:
    subject = opened()
    hear(subject, event)
    assert (subject.phase, subject.end_reason, subject.ended_as_asked) == (Phase.ENDED, reason, as_asked)
    assert not subject.connection_lost()
    subject.close_command()
    subject.give_up()
    assert (subject.phase, subject.end_reason) == (Phase.ENDED, reason)
