"""The two doors: texts out, commands in."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from duplex_es.protocol import (
    Frame,
    ProtocolError,
    ResponseMessage,
    UpdateSession,
    decode_frame,
    encode_frame,
    wire_name,
)
from duplex_es.protocol.dialects import (
    BETA,
    DIALECTS,
    DUPLEX,
    GA,
    NATIVE,
    STOCK,
    opening_settings,
    project,
    read_command,
    render,
    render_handshake_error,
)
from tests.protocol.dialects import samples

pytestmark = pytest.mark.unit

MAX_FRAME_BYTES = 512 * 1024


def rendered(frame: Frame, dialect: str) -> list[dict[str, Any]]:
    """What a socket is sent, read back."""
    return [json.loads(text) for text in render(frame, dialect, event_id="event_1", seq=7)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("frame", samples.EVERY, ids=wire_name)
def test_what_is_rendered_is_what_is_projected_with_its_stamps(frame: Frame, dialect: str) -> None:
    for number, (event, plain) in enumerate(zip(rendered(frame, dialect), project(frame, dialect), strict=True), 1):
        assert event.pop("event_id") == ("event_1" if number == 1 else f"event_1_{number}")
        assert event.pop("server_event_seq", None) == (None if dialect in STOCK else 7)
        assert event == plain


@pytest.mark.parametrize("frame", samples.EVERY, ids=wire_name)
def test_the_published_dialect_is_the_stream_itself(frame: Frame) -> None:
    assert render(frame, DUPLEX, event_id="event_1", seq=7) == [encode_frame(frame, event_id="event_1", seq=7)]
    assert decode_frame(json.dumps(project(frame, DUPLEX)[0])) == frame


@pytest.mark.parametrize("dialect", DIALECTS)
def test_sound_is_base64_and_comes_out_whole(dialect: str) -> None:
    assert base64.b64decode(rendered(samples.delta(), dialect)[0]["delta"]) == samples.PCM


def test_each_event_of_a_frame_has_an_id_of_its_own() -> None:
    heard = rendered(samples.delta(bytes(1_000_000)), GA)
    assert [event["event_id"] for event in heard] == ["event_1", "event_1_2", "event_1_3"]


@pytest.mark.parametrize("dialect", [GA, BETA])
def test_no_text_is_larger_than_clients_read(dialect: str) -> None:
    wordy = {**opening_settings(dialect), "instructions": "\x01" * 500_000}
    call = samples.Call(wordy).heard
    for frame in (samples.delta(bytes(3_000_000)), *call):
        for text in render(frame, dialect, event_id="event_1"):
            assert len(text.encode()) <= MAX_FRAME_BYTES


def test_an_event_that_is_not_sequenced_has_no_seq() -> None:
    (text,) = render(samples.EVERY[0], NATIVE, event_id="event_1")
    assert "server_event_seq" not in json.loads(text)


def test_a_delta_that_looks_like_the_place_of_sound_is_left_alone() -> None:
    message = ResponseMessage(message={"delta": "", "text": '"delta":""'})
    assert rendered(message, NATIVE)[0]["message"] == {"delta": "", "text": '"delta":""'}


def test_nobody_speaks_an_unknown_dialect() -> None:
    with pytest.raises(KeyError):
        render(samples.EVERY[0], "klingon", event_id="event_1")
    with pytest.raises(KeyError):
        project(samples.EVERY[0], "klingon")


@pytest.mark.parametrize(("dialect", "nested"), [(DUPLEX, False), (NATIVE, False), (GA, True), (BETA, True)])
def test_an_error_of_the_handshake_has_the_shape_its_client_reads(dialect: str, nested: bool) -> None:
    error = ProtocolError("session_resume_expired", "Gone.")
    event = json.loads(render_handshake_error(error, dialect, event_id="event_1"))
    if nested:
        assert (event["event_id"], event["error"]["code"]) == ("event_1", "session_expired")
    else:
        assert event == {"type": "error", "error": "Gone.", "code": "session_resume_expired"}


# -- commands in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["session.create", "open_session", "session.config"])
def test_a_native_client_opens_under_its_own_names(name: str) -> None:
    text = json.dumps({"type": name, "event_id": "e", "session": {"model": "m"}})
    assert read_command(text, NATIVE) == UpdateSession(event_id="e", session={"model": "m"})
    assert read_command(text.encode(), NATIVE) == UpdateSession(event_id="e", session={"model": "m"})


@pytest.mark.parametrize("dialect", [DUPLEX, GA, BETA])
def test_nobody_else_does(dialect: str) -> None:
    with pytest.raises(ProtocolError, match="unknown_event"):
        read_command('{"type":"open_session"}', dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_other_event_is_read_as_ever(dialect: str) -> None:
    text = '{"type":"session.update","session":{"instructions":"open_session"}}'
    assert read_command(text, dialect) == UpdateSession(session={"instructions": "open_session"})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"type":"session.create"', "invalid_json"),
        ('["session.create"]', "bad_event"),
        ('{"type":["session.create"]}', "bad_event"),
        ('{"type":"session.create","session":"\ud800"}', "invalid_json"),
        ("[" * 100_000 + '"session.create"', "bad_event"),
    ],
)
def test_what_cannot_be_read_is_refused_by_the_codec(text: str, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_command(text, NATIVE)
    assert caught.value.code == code
