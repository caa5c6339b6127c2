"""The client's exceptions."""

from __future__ import annotations

import pytest

from duplex_es.client import DuplexClientError, DuplexConnectionError, DuplexProtocolError, DuplexSessionClosedError

pytestmark = pytest.mark.unit


def test_every_exception_is_a_client_error() -> None:
    for kind in (DuplexConnectionError, DuplexProtocolError, DuplexSessionClosedError):
        assert issubclass(kind, DuplexClientError)


def test_a_protocol_error_shows_its_code_and_keeps_it() -> None:
    error = DuplexProtocolError("buffer is empty", code="input_audio_buffer_empty", event_id="evt_1")
    assert str(error) == "input_audio_buffer_empty: buffer is empty"
    assert (error.code, error.event_id) == ("input_audio_buffer_empty", "evt_1")


def test_a_closed_session_says_why() -> None:
    assert DuplexSessionClosedError("timeout").reason == "timeout"
    assert "timeout" in str(DuplexSessionClosedError("timeout"))
