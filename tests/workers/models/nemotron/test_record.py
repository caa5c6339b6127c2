"""What a frame leaves behind, read from its end."""

from __future__ import annotations

import struct

import msgspec
import pytest

from workers.models.nemotron import calls, mouth, record
from workers.models.nemotron.record import Standing, pack, unpack

pytestmark = pytest.mark.unit

FULL = Standing(
    epoch=3,
    turn=7,
    silent=2,
    hushed=1,
    calling="<TOOLCALL>[",
    calls=calls.Standing(made=4, untold=[(3, "time", "{}")], groups=[calls.Group([2, 3], 1)], batch=[1], told=9),
    mouth=mouth.Standing(("Hello, ", "you. "), "And", 12, 3, 1, False),
)


def test_the_engines_part_comes_back_in_order_and_the_newest_standing_with_it() -> None:
    memory = pack(b"one", Standing()) + pack(b"", Standing(turn=1)) + pack(b"three", FULL)
    frames, standing = unpack(memory)
    assert frames == b"onethree"
    assert standing is not None and standing == FULL


def test_a_memory_whose_beginning_is_torn_gives_the_whole_records_after_it() -> None:
    records = [pack(bytes([number]) * 5, Standing(turn=number)) for number in range(4)]
    memory = b"".join(records)
    for cut in range(1, len(records[0]) + 1):
        frames, standing = unpack(memory[cut:])
        assert frames == b"\x01" * 5 + b"\x02" * 5 + b"\x03" * 5
        assert standing is not None and standing.turn == 3


def test_no_memory_is_no_standing() -> None:
    assert unpack(b"") == (b"", None)


def test_a_busy_record_is_within_what_it_is_given_room_for_and_an_idle_one_is_small() -> None:
    saying, asking = mouth.Mouth(), calls.Calls("s:0")
    for word in ("This is a sentence of moderate length, which was written just now. " * 5).split():
        saying.hear(word + " ")
    for _ in range(5):
        asking.made([calls.ToolCall("weather", "{}")])
        asking.next_untold()
    busy = Standing(epoch=9, turn=99, calls=asking.standing(), mouth=saying.standing())
    assert len(pack(b"", Standing())) < 100 < len(pack(b"", busy)) < record.ROOM_BYTES


def test_a_record_of_a_version_with_more_or_fewer_fields_is_read() -> None:
    for fields in ([3, 7], [3, 7, 0, 0, None, [], [], "of tomorrow"]):
        packed = msgspec.msgpack.encode(fields)
        _, standing = unpack(packed + struct.pack("<II", 0, len(packed)))
        assert standing is not None and (standing.epoch, standing.turn) == (3, 7)
