"""A file that is made while it is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.source import LiveSource
from gateway import exporting
from gateway.exporting import exported
from tests.support.recorded_call import record_call

pytestmark = pytest.mark.unit


async def test_it_comes_in_parts_that_make_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "BATCH_BYTES", 20_000)
    log = MemoryLog()
    await record_call(log)
    source = LiveSource(log, "memory://")
    head = await source.find("call-1")
    parts = [part async for part in exported(source, head)]
    path = tmp_path / "call.dxlog"
    path.write_bytes(b"".join(parts))
    assert len(parts) > 5
    with FileSource(path) as found:
        assert found.broken_chain() is None
        assert found.head == head
        assert [entry.id for entry in found.entries("input")] == [entry.id async for entry in source.input(head)]
