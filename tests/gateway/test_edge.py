"""Frames the gateway makes itself are complete, in no sequence, and each its own."""

from __future__ import annotations

import json

import pytest

from duplex_es.log.api import Attachment, SessionRef
from duplex_es.protocol import ProtocolError
from gateway import edge

pytestmark = pytest.mark.unit

SEAT = Attachment(SessionRef("mine", 2), 3, "g")
RESUMABLE = {"id": "mine", "capabilities": {"supports_session_resume": True}}
TEXTS = {
    "session.created": edge.created_text(RESUMABLE, SEAT, "rt_x"),
    "session.resumed": edge.resumed_text(SEAT, "rt_x"),
    "session.replaced": edge.replaced_text(SEAT),
    "session.expired": edge.expired_text(SEAT, "gone"),
    "session.resync_required": edge.resync_text("mine"),
    "session.going_away": edge.going_away_text(SEAT, 500),
    "error": edge.error_text(ProtocolError("bad_event", "no", "type", "e1")),
}


@pytest.mark.parametrize("name", TEXTS)
def test_it_has_a_random_event_id_and_no_seq(name: str) -> None:
    frame = json.loads(TEXTS[name])
    assert frame["type"] == name
    assert frame["event_id"].startswith("event_")
    assert "server_event_seq" not in frame


def test_no_two_event_ids_are_alike() -> None:
    assert len({json.loads(text)["event_id"] for text in TEXTS.values()}) == len(TEXTS)


def test_created_carries_what_a_resume_needs() -> None:
    created = json.loads(TEXTS["session.created"])
    named = (created["incarnation"], created["attachment_generation"], created["resume_token"])
    assert named == (2, 3, "rt_x")


@pytest.mark.parametrize("session", [{}, {"capabilities": None}, {"capabilities": {"supports_session_resume": False}}])
def test_created_of_a_session_that_cannot_be_resumed_carries_no_secret(session: dict[str, object]) -> None:
    assert "rt_x" not in edge.created_text(session, SEAT, "rt_x")
    assert not edge.supports_resume(session)


def test_an_error_echoes_the_event_and_names_the_field() -> None:
    assert json.loads(TEXTS["error"])["error"] == {
        "type": "invalid_request_error",
        "code": "bad_event",
        "message": "no",
        "event_id": "e1",
        "param": "type",
    }


def test_the_flat_shape_is_flat() -> None:
    flat = json.loads(edge.flat_error_text(ProtocolError("config_timeout", "too late")))
    assert flat == {"type": "error", "error": "too late", "code": "config_timeout"}
