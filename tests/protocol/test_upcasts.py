"""Old records read as new ones; records of tomorrow are an error in words."""

from __future__ import annotations

import msgpack
import pytest

from duplex_es.protocol import upcasts
from duplex_es.protocol.records import RecordUnreadable, pack_input, unpack_input, unpack_output
from duplex_es.protocol.upcasts import INPUT_STEPS, OUTPUT_STEPS, SCHEMA_VERSION, SchemaUnknown, readable, upcast
from duplex_es.session.events import Listened
from duplex_es.session.facts import unpack_facts

pytestmark = pytest.mark.unit

INPUT_0 = {"v": 0, "at_s": 12.345, "said": {"type": "input_audio_buffer.commit"}}
OUTPUT_0 = {
    "v": 0,
    "at_s": 12.5,
    "frame": {"type": "input_audio_buffer.cleared"},
    "events": [{"kind": "Listened", "reason": "model_listen"}],
    "consumed": "1-3",
    "more": 0,
}


def test_a_record_of_version_0_is_read_with_its_time_and_its_facts() -> None:
    record = unpack_input(msgpack.packb(INPUT_0))
    assert (record.v, record.at_ms) == (1, 12_345)
    shown = unpack_output(msgpack.packb(OUTPUT_0))
    assert (shown.at_ms, shown.consumed, shown.more) == (12_500, "1-3", 0)
    assert isinstance(shown.facts, list)
    assert list(unpack_facts(shown.facts)) == [Listened(reason="model_listen")]


def test_a_silent_record_of_version_0_has_neither_frame_nor_facts() -> None:
    plain = {key: value for key, value in OUTPUT_0.items() if key not in ("frame", "events", "consumed")}
    assert msgpack.unpackb(upcast(msgpack.packb(plain), OUTPUT_STEPS)) == {"v": 1, "at_ms": 12_500, "more": 0}


def test_a_record_of_this_version_is_not_touched() -> None:
    body = pack_input(unpack_input(msgpack.packb(INPUT_0)).said, 5).body
    assert upcast(body, INPUT_STEPS) is body
    assert upcast(b"no record", INPUT_STEPS) == b"no record"


@pytest.mark.parametrize("read", [unpack_input, unpack_output])
def test_a_newer_record_says_what_to_do(read: object) -> None:
    body = msgpack.packb({"v": SCHEMA_VERSION + 1, "at_ms": 0})
    with pytest.raises(RecordUnreadable, match="schema version 2; this build reads 1 and older: read it with a newer"):
        read(body)  # type: ignore[operator]
    assert readable("input", body) is body


def test_a_damaged_old_record_and_a_version_without_a_step_are_named() -> None:
    with pytest.raises(SchemaUnknown, match="none of its own version"):
        upcast(msgpack.packb({"v": 0, "at_ms": 3}), INPUT_STEPS)
    with pytest.raises(SchemaUnknown, match="no step from 0"):
        upcast(msgpack.packb(INPUT_0), {})


def test_steps_are_applied_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it will be with the next version: 0 becomes 1, and 1 becomes 2."""

    def second(body: bytes) -> bytes:
        plain = msgpack.unpackb(body)
        return bytes(msgpack.packb({"v": 2, "time": plain["at_ms"]}))

    monkeypatch.setattr(upcasts, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(upcasts, "_CURRENT", b"\xa1v\x02")
    made = upcast(msgpack.packb(INPUT_0), {**INPUT_STEPS, 1: second})
    assert msgpack.unpackb(made) == {"v": 2, "time": 12_345}
