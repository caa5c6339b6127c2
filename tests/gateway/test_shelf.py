"""Reading in a process that has better things to do."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import time

import pytest

from duplex_es.log.api import Head
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.errors import ReadingError
from duplex_es.reading.source import LiveSource
from gateway import shelf
from gateway.shelf import Busy, Shelf, Unhurried
from tests.support.recorded_call import record_call

pytestmark = pytest.mark.unit


async def recorded(*names: str) -> tuple[MemoryLog, LiveSource]:
    log = MemoryLog()
    for name in names or ("call-1",):
        await record_call(log, name)
    return log, LiveSource(log, "memory://")


async def test_others_run_while_a_call_is_read() -> None:
    _, source = await recorded()
    turns = itertools.count()

    async def others() -> None:
        while True:
            next(turns)
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    seen = 0
    async for _ in Unhurried(source).output(await source.find("call-1")):
        time.sleep(0.0011)  # A record that takes its reader longer than it may take at a time.
        seen += 1
    task.cancel()
    assert seen == 174 and next(turns) > 150


async def test_a_call_is_read_once_and_its_document_is_at_hand() -> None:
    _, source = await recorded()
    kept = Shelf(source)
    head = await source.find("call-1")
    assert await kept.document(head) is None
    async with kept.opened(head) as call:
        document = call.document
    assert await kept.document(head) == document
    async with kept.opened(head) as again:
        assert again is call and again.document is document
    assert json.loads(gzip.decompress(document))["session"] == "call-1"


async def test_only_the_last_few_calls_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "KEPT", 2)
    _, source = await recorded("a", "b", "c")
    kept = Shelf(source)
    for name in ("a", "b", "a", "c"):
        async with kept.opened(await source.find(name)):
            pass
    held = [name for name in ("a", "b", "c") if await kept.document(await source.find(name)) is not None]
    assert held == ["a", "c"]


async def test_what_was_erased_since_or_is_not_asked_for_any_more_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    _, source = await recorded()
    head = await source.find("call-1")
    kept = Shelf(source)
    async with kept.opened(head) as before:
        pass

    async def one_note(session_id: str) -> list[object]:
        return [object()]

    monkeypatch.setattr(source, "notes_on", one_note)
    assert await kept.document(head) is None
    async with kept.opened(head) as after:
        assert after is not before
    monkeypatch.setattr(shelf, "KEPT_S", -1.0)
    assert await kept.document(head) is None


async def test_a_call_that_could_not_be_read_whole_is_read_anew() -> None:
    _, source = await recorded()
    head = await source.find("call-1")
    fails = [True]

    class Failing(LiveSource):
        """Fails in the middle, once."""

        async def input(self, head: Head, *where: object, **how: object):  # type: ignore[no-untyped-def]
            """See ``Source``."""
            async for entry in super().input(head, *where, **how):  # type: ignore[arg-type]
                if fails.pop() if fails else False:
                    raise ReadingError("trimmed")
                yield entry

    kept = Shelf(Failing(source.log, "memory://"))
    with pytest.raises(ReadingError):
        async with kept.opened(head):
            pass
    async with kept.opened(head) as call:
        assert json.loads(gzip.decompress(call.document))["last_seq"] == 174


async def test_peaks_and_sound_come_from_the_shelf_and_too_many_readers_are_told() -> None:
    _, source = await recorded()
    kept = Shelf(source)
    head = await source.find("call-1")
    async with kept.opened(head) as call:
        tile = await call.tile("caller", 0, 0)
        assert tile is await call.tile("caller", 0, 0) and max(tile) > 80
        assert len(await call.wav("heard", 0, 1_000)) == 44 + 48_000
        with pytest.raises(ValueError):
            call.lane("both")
    kept._waiting = shelf.WAITING
    with pytest.raises(Busy):
        async with kept.reading():
            pass
