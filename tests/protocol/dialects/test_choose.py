"""Which dialect a socket speaks, and what its upgrade is answered."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.protocol import (
    COMMANDS,
    AcknowledgeEvents,
    AcknowledgePlayback,
    AppendAudio,
    Command,
    CommitInput,
    CreateResponse,
    Heartbeat,
    ProtocolError,
    ResumeSession,
    UpdateSession,
)
from duplex_es.protocol.dialects import (
    BETA,
    DIALECTS,
    DUPLEX,
    GA,
    NATIVE,
    SEED_FIELDS,
    agreed_subprotocol,
    choose_dialect,
    dialect_of,
    key_of_subprotocols,
)

pytestmark = pytest.mark.unit

REALTIME = "/v1/realtime"
BETA_HEADER = {"openai-beta": "realtime=v1"}
BETA_OFFER = ("realtime", "openai-beta.realtime-v1")


@pytest.mark.parametrize(
    ("path", "query", "headers", "offered", "dialect"),
    [
        (REALTIME, {}, {}, (), None),
        (REALTIME, {"model": "m"}, {}, ("realtime",), None),
        (REALTIME, {"duplex": "1"}, {}, (), DUPLEX),
        (REALTIME, {"duplex": " ON "}, {}, (), DUPLEX),
        (REALTIME, {"duplex": "0", "autostart": "0"}, {}, (), GA),
        (REALTIME, {"duplex": "yes"}, {}, (), GA),
        (REALTIME, {"duplex": "0"}, BETA_HEADER, (), BETA),
        (REALTIME, {"model": "m", "autostart": "0"}, {}, (), DUPLEX),
        (REALTIME, {"resume": "1"}, {}, (), DUPLEX),
        (REALTIME, {"native_duplex": "0"}, {}, (), DUPLEX),
        (REALTIME, {"minicpmo45_native_duplex": "1"}, {}, (), DUPLEX),
        (REALTIME, {"model": "m"}, BETA_HEADER, (), BETA),
        (REALTIME, {}, {"openai-beta": "assistants=v2, realtime=v1"}, (), BETA),
        (REALTIME, {}, {"openai-beta": "assistants=v2"}, (), None),
        (REALTIME, {"model": "m"}, {}, BETA_OFFER, BETA),
        (REALTIME, {"autostart": "0"}, BETA_HEADER, (), DUPLEX),
        ("/v1/duplex", {"model": "m"}, {}, (), NATIVE),
        ("/v1/duplex/", {"duplex": "1"}, BETA_HEADER, (), NATIVE),
        ("/v1/duplex", {"dialect": "duplex"}, {}, (), DUPLEX),
        (REALTIME, {"dialect": "GA", "duplex": "1"}, BETA_HEADER, (), GA),
        (REALTIME, {"dialect": ""}, {}, (), None),
    ],
)
def test_an_upgrade_request_says_which_dialect_it_wants(
    path: str, query: dict[str, str], headers: dict[str, str], offered: tuple[str, ...], dialect: str | None
) -> None:
    assert choose_dialect(path, query, headers, offered) == dialect


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_dialect_can_be_asked_for_by_name(dialect: str) -> None:
    assert choose_dialect(REALTIME, {"dialect": dialect}, {}) == dialect


def test_a_dialect_nobody_speaks_is_refused_by_name() -> None:
    with pytest.raises(ProtocolError) as caught:
        choose_dialect(REALTIME, {"dialect": "klingon" * 20}, {})
    assert (caught.value.code, caught.value.param) == ("unsupported", "dialect")
    assert "klingon" in caught.value.message
    assert len(caught.value.message) < 120


@pytest.mark.parametrize("field", sorted(SEED_FIELDS))
def test_a_setting_of_the_published_contract_tells_a_seed_client(field: str) -> None:
    assert dialect_of(UpdateSession(session={"model": "m", field: None})) == DUPLEX


@pytest.mark.parametrize(
    "session",
    [
        {},
        {"type": "realtime", "instructions": "Be kind.", "tools": []},
        {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}, "output_modalities": ["audio"]},
        {"extensions": "duplex"},
        {"model": "m", "voice": "alloy", "temperature": 0.8},
    ],
)
def test_any_other_settings_are_those_of_a_stock_client(session: dict[str, Any]) -> None:
    assert dialect_of(UpdateSession(session=session)) == GA


def test_a_client_may_ask_for_the_extensions_in_its_settings() -> None:
    assert dialect_of(UpdateSession(session={"type": "realtime", "extensions": ["duplex"]})) == DUPLEX


@pytest.mark.parametrize(
    ("first", "dialect"),
    [
        (ResumeSession(session_id="s", incarnation=0, resume_token="rt"), DUPLEX),
        (Heartbeat(), DUPLEX),
        (AcknowledgeEvents(server_event_seq=1), DUPLEX),
        (AcknowledgePlayback(), DUPLEX),
        (AppendAudio(audio=b"\0\0"), GA),
        (CommitInput(), GA),
        (CreateResponse(), GA),
    ],
)
def test_the_first_event_tells_by_its_name(first: Command, dialect: str) -> None:
    assert dialect_of(first) == dialect


def test_every_command_stock_clients_do_not_have_tells_a_seed_client() -> None:
    stock = {
        "session.update",
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
        "input_audio_buffer.clear",
        "conversation.item.create",
        "conversation.item.retrieve",
        "conversation.item.delete",
        "conversation.item.truncate",
        "response.create",
        "response.cancel",
        "output_audio_buffer.clear",
    }
    required = {
        "session.event_ack": {"server_event_seq": 1},
        "session.resume": {"session_id": "s", "incarnation": 0, "resume_token": "rt"},
        "input.text.append": {"text": "hi"},
        "turn.signal": {"event": "x"},
    }
    for name, struct in COMMANDS.items():
        if name not in stock:
            assert dialect_of(struct(**required.get(name, {}))) == DUPLEX, name


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [
        ((), None),
        (("realtime",), "realtime"),
        (("openai-insecure-api-key.sk-1", "realtime", "openai-agents-sdk.0.20"), "realtime"),
        (("openai-insecure-api-key.sk-1",), None),
        (("mqtt",), None),
    ],
)
def test_only_realtime_is_agreed_to(offered: tuple[str, ...], agreed: str | None) -> None:
    assert agreed_subprotocol(offered) == agreed


def test_a_browsers_key_is_found_among_its_subprotocols() -> None:
    assert key_of_subprotocols(["realtime", "openai-insecure-api-key.ek_1.2", "x"]) == "ek_1.2"
    assert key_of_subprotocols(["realtime", "openai-insecure-api-key."]) is None
    assert key_of_subprotocols([]) is None
