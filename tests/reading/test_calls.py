"""A call out of its records."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.log.api import Entry, EntryId
from duplex_es.reading.calls import CallReader, read_call
from duplex_es.reading.dxlog import FileSource, Writer
from duplex_es.reading.records import InputLine, output_line
from duplex_es.tools.log import stats
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


async def test_expired_sound_of_the_caller_keeps_its_time(tmp_path: Path) -> None:
    mute = tmp_path / "mute.dxlog"
    with FileSource(RECORDING) as source, mute.open("wb") as file:
        whole = await read_call(source, source.head)
        writer = Writer(file, source.manifest)
        for stream in ("input", "output"):
            for entry in source.entries(stream):
                writer.add(stream, Entry(entry.id, entry.body))
        writer.finish()
    with FileSource(mute) as source:
        call = await read_call(source, source.head)
    assert sum(piece.duration_ms for piece in call.heard) == sum(piece.duration_ms for piece in whole.heard) == 4_000
    assert stats.stats_of(call)["assistant_ms"] == 3_900


async def test_a_record_without_a_time_does_not_make_the_call_decades_long() -> None:
    with FileSource(RECORDING) as source:
        reader = CallReader()
        for entry in source.entries("output"):
            reader.take_output(output_line(entry), None)
        known = reader.call(source.head)
        reader.take_input(InputLine(EntryId(1, 0), 0, {"type": "duplex_es.open_session"}, None), None)
        call = reader.call(source.head)
    assert (call.start_ms, call.length_ms) == (known.start_ms, known.length_ms)
