"""Views over received events."""

from __future__ import annotations

import json

import pytest

from duplex_es.client import (
    AudioDelta,
    DuplexEvent,
    ErrorEvent,
    ResponseDone,
    SessionCreated,
    SessionReplaced,
    SessionResumed,
    SessionUpdated,
    UploadProgress,
)
from duplex_es.client.events import CLASSES, SessionClosed, parse_event, view

pytestmark = pytest.mark.unit


def test_a_known_type_arrives_as_its_class_and_an_unknown_one_as_a_plain_event() -> None:
    assert type(view({"type": "response.output_audio.delta"})) is AudioDelta
    assert type(view({"type": "of.tomorrow"})) is DuplexEvent


@pytest.mark.parametrize("message", [b'{"type": "error"}', "{", "[]", '"text"', '{"type": 5}', "{}"])
def test_what_is_not_an_event_is_none(message: str | bytes) -> None:
    assert parse_event(message) is None


def test_audio_is_decoded_from_its_delta() -> None:
    event = view({"type": "response.output_audio.delta", "delta": "AAEC", "sample_rate_hz": 24_000})
    assert event.audio == b"\0\1\2"
    assert event.sample_rate_hz == 24_000


def test_the_response_id_is_found_inside_the_response_too() -> None:
    assert view({"type": "response.created", "response": {"id": "resp_1"}}).response_id == "resp_1"
    assert view({"type": "response.done", "response_id": "resp_2", "response": {}}).response_id == "resp_2"
    assert view({"type": "response.listen"}).response_id is None


def test_text_is_the_first_of_its_three_spellings() -> None:
    assert view({"type": "x", "delta": "b", "transcript": "c"}).text == "b"
    assert view({"type": "x", "transcript": "c"}).text == "c"
    assert view({"type": "x"}).text == ""


def test_a_sequence_number_is_an_integer_or_nothing() -> None:
    assert view({"type": "x", "server_event_seq": 7}).server_event_seq == 7
    assert view({"type": "x", "server_event_seq": True}).server_event_seq is None
    assert view({"type": "x"}).server_event_seq is None


def test_a_created_session_shows_its_credentials() -> None:
    event = view({"type": "session.created", "session": {"id": "s"}, "resume_token": "rt", "incarnation": 3})
    assert isinstance(event, SessionCreated)
    assert (event.session_id, event.resume_token, event.incarnation) == ("s", "rt", 3)


def test_a_resumed_session_tells_what_arrived_or_that_it_cannot() -> None:
    told = view({"type": "session.resumed", "last_client_event_id": "evt_3"})
    nothing = view({"type": "session.resumed", "last_client_event_id": None})
    silent = view({"type": "session.resumed"})
    assert isinstance(told, SessionResumed)
    assert isinstance(nothing, SessionResumed)
    assert isinstance(silent, SessionResumed)
    assert (told.tells_what_arrived, told.last_client_event_id) == (True, "evt_3")
    assert (nothing.tells_what_arrived, nothing.last_client_event_id) == (True, None)
    assert (silent.tells_what_arrived, silent.last_client_event_id) == (False, None)


def test_the_progress_of_an_upload_has_both_ends() -> None:
    event = view({"type": "upload.progress", "sent_ms": 200, "total_ms": 1_000.0})
    assert isinstance(event, UploadProgress)
    assert (event.sent_ms, event.total_ms) == (200, 1_000)


def test_an_updated_session_shows_its_object() -> None:
    updated = view({"type": "session.updated", "session": {"voice": "b"}})
    assert isinstance(updated, SessionUpdated)
    assert updated.session == {"voice": "b"}


def test_an_error_reads_alike_in_both_envelopes() -> None:
    nested = view({"type": "error", "error": {"code": "bad_event", "message": "no type", "event_id": "evt_1"}})
    flat = view({"type": "error", "error": "no type", "code": "bad_event"})
    for event in (nested, flat):
        assert isinstance(event, ErrorEvent)
        assert (event.code, event.message) == ("bad_event", "no type")
    assert isinstance(nested, ErrorEvent)
    assert nested.to_exception().event_id == "evt_1"


def test_when_to_try_again_reads_alike_in_both_envelopes() -> None:
    for raw in ({"error": {"code": "x", "retry_after_ms": 250}}, {"error": "full", "code": "x", "retry_after_ms": 250}):
        event = view({"type": "error", **raw})
        assert isinstance(event, ErrorEvent)
        assert event.retry_after_ms == 250
        assert event.to_exception().retry_after_ms == 250
    silent = view({"type": "error", "error": "no", "retry_after_ms": True})
    assert isinstance(silent, ErrorEvent)
    assert silent.retry_after_ms is None


def test_an_ending_has_a_reason_even_when_the_server_names_none() -> None:
    closed = view({"type": "session.closed", "reason": "timeout"})
    replaced = view({"type": "session.replaced"})
    assert isinstance(closed, SessionClosed)
    assert isinstance(replaced, SessionReplaced)
    assert (closed.reason, replaced.reason) == ("timeout", "session.replaced")


def test_a_done_response_shows_its_status() -> None:
    done = view({"type": "response.done", "response": {"status": "cancelled"}})
    assert isinstance(done, ResponseDone)
    assert done.status == "cancelled"


@pytest.mark.parametrize("type_name", CLASSES)
def test_every_known_event_survives_a_json_round_trip_untouched(type_name: str) -> None:
    raw = {"type": type_name, "later": {"field": [1, None]}}
    event = parse_event(json.dumps(raw))
    assert event is not None
    assert event.raw == raw
