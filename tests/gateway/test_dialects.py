"""Whose words a socket is told things in, and when that is decided."""

from __future__ import annotations

import json

import pytest
from starlette.websockets import WebSocket

from duplex_es.protocol import (
    AppendAudio,
    Error,
    Heartbeat,
    ProtocolError,
    ResponseSpeak,
    SessionReplaced,
    UpdateSession,
)
from duplex_es.protocol.dialects import BETA, DIALECTS, DUPLEX, GA, NATIVE
from gateway.dialects import Voice, asked_dialect
from tests.gateway.stage import audio_delta, text_delta

pytestmark = pytest.mark.unit

SPEAK = ResponseSpeak(response_id="resp_1", item_id="item_resp_1")
REFUSAL = ProtocolError("bad_event", "no", "type", "e1")


def upgrade(path: str, query: str = "", header: str = "", *offered: str) -> WebSocket:
    """A socket whose upgrade request says this."""
    headers = [(b"openai-beta", header.encode())] if header else []
    scope = {"type": "websocket", "path": path, "query_string": query.encode(), "headers": headers}
    return WebSocket({**scope, "subprotocols": list(offered)}, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("websocket", "dialect"),
    [
        (upgrade("/v1/realtime"), None),
        (upgrade("/v1/realtime", "model=cascade"), None),
        (upgrade("/v1/realtime", "duplex=1&model=cascade"), DUPLEX),
        (upgrade("/v1/realtime", "autostart=0"), DUPLEX),
        (upgrade("/v1/realtime", "duplex=0"), GA),
        (upgrade("/v1/realtime", "model=m", "realtime=v1"), BETA),
        (upgrade("/v1/realtime", "model=m", "", "realtime", "openai-beta.realtime-v1"), BETA),
        (upgrade("/v1/duplex"), NATIVE),
        (upgrade("/v1/duplex", "dialect=ga"), GA),
    ],
)
def test_route_query_header_and_subprotocol_choose_the_dialect(websocket: WebSocket, dialect: str | None) -> None:
    assert asked_dialect(websocket) == dialect


def test_a_dialect_nobody_speaks_is_refused_not_guessed() -> None:
    with pytest.raises(ProtocolError) as refused:
        asked_dialect(upgrade("/v1/realtime", "dialect=esperanto"))
    assert (refused.value.code, refused.value.param) == ("unsupported", "dialect")


def test_what_the_upgrade_asks_for_is_final() -> None:
    voice = Voice(GA)
    voice.speak(DUPLEX)
    voice.settle(Heartbeat())
    assert (voice.dialect, voice.settled) == (GA, True)


@pytest.mark.parametrize(
    ("event", "dialect"),
    [
        (Heartbeat(), DUPLEX),
        (UpdateSession(session={"overlap_policy": "listen_only"}), DUPLEX),
        (UpdateSession(session={"extensions": ["duplex"]}), DUPLEX),
        (UpdateSession(session={"type": "realtime", "instructions": "be brief"}), GA),
        (AppendAudio(audio=b""), GA),
    ],
)
def test_else_the_first_event_decides_and_no_later_one(event: UpdateSession | Heartbeat, dialect: str) -> None:
    for provisional in (DUPLEX, GA):
        voice = Voice(None, provisional)
        assert (voice.dialect, voice.settled) == (provisional, False)
        voice.settle(event)
        voice.settle(Heartbeat() if dialect == GA else AppendAudio(audio=b""))
        assert (voice.dialect, voice.settled) == (dialect, True)


def test_until_then_it_may_be_changed() -> None:
    voice = Voice(None, DUPLEX)
    voice.speak(GA)
    assert (voice.dialect, voice.settled) == (GA, False)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_nobody_numbered_gets_an_id_of_its_own_and_no_seq(dialect: str) -> None:
    voice, shown = Voice(dialect), text_delta("hi")
    first, second = (json.loads(voice.texts(shown)[0]) for _ in range(2))
    assert first["event_id"].startswith("event_")
    assert first["event_id"] != second["event_id"]
    assert "server_event_seq" not in first


@pytest.mark.parametrize(("dialect", "numbered"), [(DUPLEX, True), (NATIVE, True), (GA, False), (BETA, False)])
def test_only_seed_clients_hear_the_seq(dialect: str, numbered: bool) -> None:
    frame = json.loads(Voice(dialect).texts(text_delta("hi"), event_id="event_1", seq=7)[0])
    assert (frame["event_id"], frame.get("server_event_seq")) == ("event_1", 7 if numbered else None)


def test_stock_clients_hear_nothing_of_what_they_do_not_know() -> None:
    assert [len(Voice(dialect).texts(SPEAK)) for dialect in (DUPLEX, GA, BETA)] == [1, 0, 0]
    assert Voice(GA).texts(SessionReplaced(session_id="mine", attachment_generation=1)) == []


def test_an_error_at_the_door_is_flat_for_seed_clients_and_whole_for_stock_ones() -> None:
    assert json.loads(Voice(DUPLEX).texts(REFUSAL)[0]) == {"type": "error", "error": "no", "code": "bad_event"}
    said = json.loads(Voice(GA).texts(REFUSAL)[0])
    assert said["event_id"].startswith("event_")
    assert said["error"] == {
        "type": "invalid_request_error",
        "code": "invalid_event",
        "message": "no",
        "param": "type",
        "event_id": "e1",
    }


@pytest.mark.parametrize("dialect", [DUPLEX, GA, BETA])
def test_an_error_that_answers_no_event_names_none(dialect: str) -> None:
    said = json.loads(Voice(dialect).texts(Error.of(ProtocolError("internal_error", "oh")))[0])
    assert said["error"] == {"type": "server_error", "code": "internal_error", "message": "oh"}


def test_more_sound_than_a_stock_client_takes_comes_in_pieces_with_ids_of_their_own() -> None:
    texts = Voice(GA).texts(audio_delta(bytes(1_000_000)), event_id="event_1", seq=1)
    assert max(len(text) for text in texts) < 512 * 1024
    assert [json.loads(text)["event_id"] for text in texts] == ["event_1", "event_1_2", "event_1_3"]
