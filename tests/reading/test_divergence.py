"""Where two sessions part."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.log.api import Entry
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.calls import read_call
from duplex_es.reading.divergence import first_divergence, turns_of
from duplex_es.reading.dxlog import FileSource, Writer
from duplex_es.reading.source import LiveSource
from tests.support.call_files import RECORDING
from tests.support.recorded_call import record_call

pytestmark = pytest.mark.unit


async def test_a_call_recorded_twice_is_alike_although_every_id_is_another() -> None:
    log = MemoryLog()
    await record_call(log, "first")
    await record_call(log, "second")
    source = LiveSource(log, "memory://")
    assert await first_divergence(source, await source.find("first"), source, await source.find("second")) is None


async def test_the_first_decision_that_differs_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other.dxlog"
    with FileSource(RECORDING) as source, other.open("wb") as file:
        writer = Writer(file, source.manifest)
        for stream in ("input", "output"):
            for entry in source.entries(stream):
                writer.add(stream, Entry(entry.id, entry.body.replace(b"Sunny", b"Rainy"), entry.audio))
        writer.finish()
    with FileSource(RECORDING) as a, FileSource(other) as b:
        parted = await first_divergence(a, a.head, b, b.head)
        assert parted is not None and "Sunny" in parted["a"] and "Rainy" in parted["b"]
        turns = turns_of(await read_call(a, a.head), await read_call(b, b.head))
    assert [turn["differs"] for turn in turns] == ["text", "", "text"]
