"""Frames the gateway makes itself name the session, the socket and the reason."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from duplex_es.log.api import Attachment, SessionRef
from duplex_es.protocol import (
    SessionCreated,
    SessionDurable,
    SessionExpired,
    SessionGoingAway,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
)
from gateway import edge
from gateway.heard import UNKNOWN, Heard

pytestmark = pytest.mark.unit

SEAT = Attachment(SessionRef("mine", 2), 3, "g")
RESUMABLE = {"id": "mine", "capabilities": {"supports_session_resume": True}}


def test_created_carries_what_a_resume_needs() -> None:
    assert edge.created(RESUMABLE, SEAT, "rt_x") == SessionCreated(
        session=RESUMABLE, incarnation=2, attachment_generation=3, resume_token="rt_x"
    )


@pytest.mark.parametrize("session", [{}, {"capabilities": None}, {"capabilities": {"supports_session_resume": False}}])
def test_created_of_a_session_that_cannot_be_resumed_carries_no_secret(session: dict[str, object]) -> None:
    assert edge.created(session, SEAT, "rt_x") == SessionCreated(session=session)
    assert not edge.supports_resume(session)


def test_created_without_a_token_promises_no_resume() -> None:
    created = edge.created(RESUMABLE, SEAT, None)
    assert (created.incarnation, created.attachment_generation, created.resume_token) == (UNSET, UNSET, UNSET)


def test_resumed_carries_what_the_next_resume_needs() -> None:
    assert edge.resumed(SEAT, "rt_y") == SessionResumed(
        session_id="mine", incarnation=2, attachment_generation=3, resume_token="rt_y"
    )


def test_a_superseded_socket_is_told_its_own_generation() -> None:
    assert edge.replaced(SEAT) == SessionReplaced(session_id="mine", attachment_generation=3)


def test_every_end_of_a_socket_has_its_reason() -> None:
    assert edge.expired(SEAT, "gone") == SessionExpired(session_id="mine", incarnation=2, reason="gone")
    assert edge.resync("mine") == SessionResyncRequired(session_id="mine", reason="journal_gap")
    assert edge.resync("mine", 7) == SessionResyncRequired(session_id="mine", reason="journal_gap", first_available=7)
    overflow = SessionResyncRequired(session_id="mine", reason="journal_overflow", first_available=7)
    assert edge.overflow("mine", 7) == overflow
    assert edge.going_away(SEAT, 500, "rt_z").resume_token == "rt_z"
    assert edge.going_away(SEAT, 500) == SessionGoingAway(session_id="mine", reason="gateway_stopping", grace_ms=500)


def test_what_is_known_of_the_last_event_is_said_also_when_it_is_that_there_was_none() -> None:
    assert edge.resumed(SEAT, "rt_y", Heard("evt_1")).last_client_event_id == "evt_1"
    assert edge.resumed(SEAT, "rt_y", Heard(None)).last_client_event_id is None
    assert edge.resumed(SEAT, "rt_y", UNKNOWN).last_client_event_id is UNSET


def test_the_durability_is_said_where_it_was_asked_for() -> None:
    assert edge.created(RESUMABLE, SEAT, "rt_x", "strict").durability == "strict"
    assert edge.created({}, SEAT, None, "strict").durability == "strict"
    assert edge.resumed(SEAT, "rt_y", UNKNOWN, "strict").durability == "strict"
    assert edge.durable(SEAT, 7) == SessionDurable(session_id="mine", durable_seq=7)
