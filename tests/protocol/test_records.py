"""Records: what goes into the log comes back, and any MessagePack reader can read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import msgspec
import pytest
from msgspec import UNSET

from duplex_es.protocol import (
    AppendAudio,
    OpeningAnswer,
    OpenSession,
    ProtocolError,
    Reported,
    ResponseOutputAudioDelta,
    ResumeSession,
    SocketAttached,
    SocketDetached,
    decode_frame,
    pack_input,
    pack_opening,
    pack_output,
    unpack_input,
    unpack_opening,
    unpack_output,
)
from duplex_es.protocol.records import RecordUnreadable, RefuseCommand

pytestmark = pytest.mark.unit

EXAMPLES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "fixtures" / "seed_examples.json").read_text())
FRAMES = [row["event"] for row in EXAMPLES if row["direction"] == "server" and row["section"] != "Errors"]
APPEND = AppendAudio(audio=b"\x00\x01", duration_ms=20, event_id="evt_1")
DELTA = ResponseOutputAudioDelta(response_id="resp_1", item_id="item_resp_1", delta=b"\x00\x01")

REPORTED = [
    OpenSession(session={"model": "echo", "tools": [{"name": "clock"}]}, model="echo", event_id="evt_1"),
    OpenSession(session={}, updated=False, dialect="ga"),
    RefuseCommand(code="invalid_json", message="not JSON"),
    RefuseCommand(code="bad_audio", message="not base64", param="audio", event_id="evt_1"),
    SocketAttached(generation=2, gateway="gateway-1", dialect="ga"),
    SocketDetached(generation=2, reason="transport_lost"),
]


@pytest.mark.parametrize("said", REPORTED, ids=lambda said: type(said).__name__)
def test_what_a_gateway_reports_comes_back(said: Reported) -> None:
    packed = pack_input(said, 1_700_000_000_000)  # type: ignore[arg-type]
    assert packed.audio is None
    record = unpack_input(packed.body)
    assert (record.v, record.at_ms, record.said) == (1, 1_700_000_000_000, said)


def test_the_audio_of_an_append_goes_beside_its_body() -> None:
    body, audio = pack_input(APPEND, 5)
    assert audio == b"\x00\x01"
    assert msgpack.unpackb(body) == {
        "v": 1,
        "at_ms": 5,
        "said": {"type": "input_audio_buffer.append", "event_id": "evt_1", "audio": b"", "duration_ms": 20},
    }
    assert unpack_input(body, audio).said == APPEND


def test_audio_that_has_expired_reads_as_empty() -> None:
    assert unpack_input(pack_input(APPEND, 5).body, None).said == msgspec.structs.replace(APPEND, audio=b"")
    assert unpack_output(pack_output(5, frame=DELTA).body).frame == msgspec.structs.replace(DELTA, delta=b"")


def test_a_resume_token_never_gets_into_a_record() -> None:
    said = ResumeSession(session_id="s", incarnation=0, resume_token="rt_secret")
    body = pack_input(said, 5).body
    assert b"rt_secret" not in body
    assert unpack_input(body).said == msgspec.structs.replace(said, resume_token="redacted")


@pytest.mark.parametrize("event", FRAMES, ids=[event["type"] for event in FRAMES])
def test_every_published_frame_survives_the_log(event: dict[str, Any]) -> None:
    frame = decode_frame(json.dumps(event))
    body, audio = pack_output(5, frame=frame)  # type: ignore[arg-type]
    assert unpack_output(body, audio).frame == frame
    assert msgpack.unpackb(body)["frame"]["type"] == event["type"]


def test_the_audio_of_a_delta_goes_beside_its_body() -> None:
    body, audio = pack_output(5, frame=DELTA)
    assert audio == b"\x00\x01"
    assert msgpack.unpackb(body)["frame"]["delta"] == b""


def test_one_decision_keeps_its_facts_its_frame_and_how_many_records_follow() -> None:
    facts = [msgspec.Raw(msgpack.packb({"fact": "EpochAdvanced", "epoch": 1})) for _ in range(2)]
    body, _ = pack_output(5, frame=DELTA, facts=facts, consumed="2-17", more=3)
    plain = msgpack.unpackb(body)
    assert plain["facts"] == [{"fact": "EpochAdvanced", "epoch": 1}] * 2
    assert (plain["consumed"], plain["more"], plain["v"], plain["at_ms"]) == ("2-17", 3, 1, 5)
    record = unpack_output(body)
    assert isinstance(record.facts, list)
    assert [bytes(fact) for fact in record.facts] == [bytes(fact) for fact in facts]
    assert (record.consumed, record.more) == ("2-17", 3)


def test_a_record_without_frame_facts_or_position_says_nothing_of_them() -> None:
    body, audio = pack_output(5)
    assert msgpack.unpackb(body) == {"v": 1, "at_ms": 5, "more": 0}
    record = unpack_output(body, audio)
    assert (record.frame, record.facts, record.consumed) == (UNSET, UNSET, UNSET)


def test_fields_of_a_later_build_of_this_version_are_ignored() -> None:
    body = msgpack.packb({"v": 1, "at_ms": 5, "said": {"type": "barge_in", "why": "loud"}, "trace": "t"})
    assert unpack_input(body).said == unpack_input(pack_input(unpack_input(body).said, 5).body).said


@pytest.mark.parametrize("unpack", [unpack_input, unpack_output])
@pytest.mark.parametrize(
    "plain", [{"v": 2, "at_ms": 5}, {"v": 2, "at_ms": 5, "said": {"type": "barge_in"}}, {"v": 0, "anything": {}}]
)
def test_another_schema_version_is_refused_by_its_number(unpack: Any, plain: dict[str, Any]) -> None:
    with pytest.raises(RecordUnreadable, match=f"schema version {plain['v']}; this build reads 1"):
        unpack(msgpack.packb(plain))


@pytest.mark.parametrize("unpack", [unpack_input, unpack_output, unpack_opening])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgpack.packb([]),
        msgpack.packb({"v": 1, "at_ms": "x", "session": 5}),
        msgpack.packb({"v": 1, "at_ms": 5, "said": {"type": "?"}, "frame": {"type": "?"}, "error": {}}),
        b"\x91" * 100_000,
    ],
    ids=["empty", "no MessagePack", "no map", "wrong types", "unknown types", "nested"],
)
def test_what_is_no_record_is_unreadable_and_never_guessed(unpack: Any, body: bytes) -> None:
    with pytest.raises(RecordUnreadable):
        unpack(body)


def test_the_answer_to_an_opening_is_the_session() -> None:
    packed = pack_opening(OpeningAnswer(session={"id": "s", "epoch": 0}))
    assert msgpack.unpackb(packed) == {"session": {"id": "s", "epoch": 0}}
    assert unpack_opening(packed).session == {"id": "s", "epoch": 0}


def test_the_answer_to_an_opening_is_else_a_refusal() -> None:
    error = RefuseCommand.of(ProtocolError("ref_audio_required", "needs a voice", "ref_audio", "evt_1"))
    packed = pack_opening(OpeningAnswer(error=error))
    assert msgpack.unpackb(packed)["error"] == {
        "type": "duplex_es.refused",
        "code": "ref_audio_required",
        "message": "needs a voice",
        "param": "ref_audio",
        "event_id": "evt_1",
    }
    assert unpack_opening(packed).error == error
