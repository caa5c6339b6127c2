"""Error frames say what the error says, in both shapes."""

from __future__ import annotations

import msgspec
import pytest

from duplex_es.protocol import Error, FlatError, ProtocolError

pytestmark = pytest.mark.unit


def test_an_error_frame_takes_its_class_from_the_table() -> None:
    frame = Error.of(ProtocolError("duplex_session_busy", "full (max_sessions=4)"))
    assert msgspec.to_builtins(frame) == {
        "type": "error",
        "error": {"type": "rate_limit_error", "code": "duplex_session_busy", "message": "full (max_sessions=4)"},
    }


def test_an_error_frame_names_the_field_and_the_event_when_they_are_known() -> None:
    frame = Error.of(ProtocolError("bad_event", "audio: missing", "audio", "evt_1"))
    assert (frame.error.param, frame.error.event_id) == ("audio", "evt_1")


def test_a_flat_error_has_its_message_and_code_at_the_top() -> None:
    frame = FlatError.of(ProtocolError("session_resume_expired", "unknown session"))
    assert msgspec.to_builtins(frame) == {
        "type": "error",
        "error": "unknown session",
        "code": "session_resume_expired",
    }
