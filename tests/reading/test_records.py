"""Records as plain lines."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from duplex_es.log.api import EntryId, Record
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.records import Entry, InputLine, OutputLine, input_line, output_line, read_lines

pytestmark = pytest.mark.unit


def packed(**body: Any) -> bytes:
    return bytes(msgpack.packb({"v": 1, **body}))


def test_an_input_record_shows_what_was_said_and_how_much_sound_came_with_it() -> None:
    said = {"type": "input_audio_buffer.append", "audio_end_ms": 40}
    line = input_line(Entry(EntryId(1, 3), packed(at_ms=5, said=said), b"\0" * 64))
    assert (line.type, line.at_ms, line.audio_bytes, line.audio_end_ms) == ("input_audio_buffer.append", 5, 64, 40)


def test_an_output_record_shows_its_frame_its_facts_and_its_number() -> None:
    body = packed(at_ms=6, frame={"type": "x"}, facts=[{"fact": "A"}, {"fact": "B"}], consumed="1-3", more=0)
    line = output_line(Entry(EntryId(2, 41), body))
    assert (line.seq, line.frame, line.consumed) == (41, {"type": "x"}, "1-3")
    assert [fact["fact"] for fact in line.facts] == ["A", "B"]


@pytest.mark.parametrize("body", [b"", b"\xc1", msgpack.packb([1]), msgpack.packb({"at_ms": "x", "frame": 3})])
def test_a_body_nobody_can_read_is_still_a_line(body: bytes) -> None:
    assert input_line(Entry(EntryId(1, 1), body)).type == "unreadable"
    assert output_line(Entry(EntryId(1, 1), body)).frame is None


async def test_both_streams_are_merged_by_time_whatever_their_length() -> None:
    log = MemoryLog()
    ref = await log.next_incarnation("s")
    attachment = await log.create(ref, model="m", token_digest=b"d", gateway="gw", record=packed(at_ms=0, said={}))
    claimed = await log.claim("w", ["m"])
    assert claimed is not None
    said = [Record(packed(at_ms=10 * n, said={"type": "x", "n": n})) for n in range(1, 701)]
    await log.append_input(attachment, 1, said)
    await log.append_output(claimed[0], 1, [Record(packed(at_ms=n * 10, frame={"type": "y"})) for n in range(1, 603)])
    lines = await read_lines(log, ref)
    assert len(lines) == 701 + 602
    assert [line.at_ms for line in lines] == sorted(line.at_ms for line in lines)
    assert [line.id.number for line in lines if isinstance(line, InputLine)] == list(range(701))
    assert [line.seq for line in lines if isinstance(line, OutputLine)] == list(range(1, 603))
    tied = [type(line) for line in lines if line.at_ms == 100]
    assert tied == [InputLine, OutputLine]


async def test_what_is_left_of_a_trimmed_log_is_shown() -> None:
    log = MemoryLog()
    ref = await log.next_incarnation("s")
    attachment = await log.create(ref, model="m", token_digest=b"d", gateway="gw", record=packed(at_ms=0, said={}))
    claimed = await log.claim("w", ["m"])
    assert claimed is not None
    await log.append_input(attachment, 1, [Record(packed(at_ms=n, said={})) for n in range(1, 6)])
    await log.append_output(claimed[0], 1, [Record(packed(at_ms=n, frame={"type": "y"})) for n in range(1, 6)])
    await log.trim_history(claimed[0], input_before=EntryId(1, 4), output_before=3)
    lines = await read_lines(log, ref)
    assert [line.id.number for line in lines if isinstance(line, InputLine)] == [4, 5]
    assert [line.seq for line in lines if isinstance(line, OutputLine)] == [3, 4, 5]
