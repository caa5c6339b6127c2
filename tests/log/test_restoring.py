"""A session put back."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from duplex_es.log.errors import SessionExists
from duplex_es.log.memory import MemoryLog
from duplex_es.log.restoring import restore
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.source import LiveSource

pytestmark = pytest.mark.unit

RECORDING = Path(__file__).resolve().parents[2] / "docs" / "guides" / "call.dxlog"


def arguments(path: Path, **more: object) -> argparse.Namespace:
    return argparse.Namespace(session=None, file=path, redis_url="", json=False, **more)


async def test_a_session_put_back_reads_as_it_was_and_replaces_nothing() -> None:
    log = MemoryLog()
    with FileSource(RECORDING) as source:
        kept = await source.snapshots(source.head)
        await restore(log, source.head, source.input(source.head), source.output(source.head), kept)
        back = LiveSource(log, "memory://")
        head = await back.find("call-1")
        assert head.state == "closed"
        assert [entry async for entry in back.output(head, audio=True)] == [*source.entries("output")]
        assert [entry async for entry in back.input(head, audio=True)] == [*source.entries("input")]
        assert await back.snapshots(head) == kept
        with pytest.raises(SessionExists):
            await restore(log, source.head, source.input(source.head), source.output(source.head), kept)
