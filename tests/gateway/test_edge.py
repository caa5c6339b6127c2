"""Frames the gateway makes itself name the session, the socket and the reason."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from duplex_es.log.api import Attachment, SessionRef
from duplex_es.protocol import (
    SessionCreated,
    SessionExpired,
    SessionGoingAway,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
)
from gateway import edge

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
    assert edge.going_away(SEAT, 500) == SessionGoingAway(session_id="mine", reason="gateway_stopping", grace_ms=500)
