"""The client's state without I/O."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.client.config import SessionConfig
from duplex_es.client.events import DuplexEvent, SessionResumed, view
from duplex_es.client.machine import FINAL_RESUME_CODES, ClientMachine, Phase, ResumeVerdict, acknowledgement
from duplex_es.client.ticket import ResumeTicket
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


TICKET = ResumeTicket(
    session_id="sess_7",
    resume_token="rt_7",
    after_seq=12,
    model="cascade",
    incarnation=3,
    session_info={"id": "sess_7"},
)


def resumed(**fields: Any) -> SessionResumed:
    event = view(session_resumed(**fields))
    assert isinstance(event, SessionResumed)
    return event


def say(subject: ClientMachine, *ids: str, type: str = "response.create") -> None:
    for event_id in ids:
        subject.said(event_id, event_id, type=type)


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


def test_events_without_a_number_always_pass() -> None:
    subject = opened()
    hear(subject, numbered(5))
    for _ in range(2):
        assert hear(subject, {"type": "session.replaced_soon"}) is not None
    assert subject.last_seq == 5


def test_an_acknowledgement_names_the_last_event_the_server_may_forget() -> None:
    assert acknowledgement(5) == {"type": "session.event_ack", "server_event_seq": 5}


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


def test_what_the_server_does_not_have_is_said_again() -> None:
    subject = opened()
    say(subject, "a", "b", "c")
    assert subject.undelivered(resumed(last_client_event_id="b")) == ["c"]
    assert subject.undelivered(resumed(last_client_event_id="c")) == []


def test_a_server_that_has_nothing_is_told_all_of_it() -> None:
    subject = opened()
    say(subject, "a", "b")
    assert subject.undelivered(resumed(last_client_event_id=None)) == ["a", "b"]


def test_what_nobody_can_tell_is_never_said_again() -> None:
    subject = opened()
    say(subject, "a")
    assert subject.undelivered(resumed()) is None
    assert subject.undelivered(resumed(last_client_event_id=None)) == []


def test_an_answered_heartbeat_proves_what_was_said_before_it() -> None:
    subject = opened()
    say(subject, "a")
    say(subject, "beat", type="session.heartbeat")
    say(subject, "b")
    hear(subject, numbered(1, "session.heartbeat_ack"))
    assert subject.undelivered(resumed(last_client_event_id=None)) == ["b"]
    assert subject.unproven_count == 0


def test_a_session_of_a_ticket_begins_with_its_resume() -> None:
    subject = ClientMachine(model="cascade", config=SessionConfig(), ticket=TICKET)
    assert subject.opening_command() == {
        "type": "session.resume",
        "session_id": "sess_7",
        "incarnation": 3,
        "resume_token": "rt_7",
        "last_received_server_event_seq": 12,
    }
    assert hear(subject, numbered(12)) is None
    assert settle(subject, session_resumed("sess_7")) is ResumeVerdict.RESUMED
    assert (subject.phase, subject.resume_token, subject.session_info) == (Phase.OPEN, "rt_2", {"id": "sess_7"})


def test_a_resume_that_brings_the_session_object_renews_it() -> None:
    subject = opened()
    hear(subject, session_resumed(session={"id": "sess_1", "voice": "b"}))
    assert subject.session_info["voice"] == "b"


def test_an_incarnation_that_is_not_known_is_not_named() -> None:
    subject = machine()
    hear(subject, {"type": "session.created", "session": {"id": "s"}, "resume_token": "rt"})
    assert "incarnation" not in subject.resume_command()


def test_a_server_that_goes_away_may_hand_out_the_token_to_go_on_with() -> None:
    subject = opened()
    hear(subject, {"type": "session.going_away", "grace_ms": 5_000})
    assert subject.resume_token == "rt_1"
    hear(subject, {"type": "session.going_away", "grace_ms": 5_000, "resume_token": "rt_9"})
    assert (subject.phase, subject.resume_token) == (Phase.OPEN, "rt_9")


def test_hanging_up_is_an_expected_end() -> None:
    subject = opened()
    subject.hang_up()
    assert (subject.phase, subject.end_reason, subject.ended_as_asked) == (Phase.ENDED, "left", True)
    assert not subject.connection_lost()


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
