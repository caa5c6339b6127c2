"""The archive's process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duplex_es.archive.following import Following
from duplex_es.log.errors import LogUnavailable, SessionUnknown
from duplex_es.log.keeping import keeping_of
from duplex_es.log.memory import MemoryLog
from duplex_es.log.restoring import restore
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.source import LiveSource
from tests.support.archives import Shelf, planted_call
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


async def test_a_pass_archives_what_is_closed_and_lets_the_store_forget_it_earlier(shelf: Shelf) -> None:
    clock = Clock()
    log = MemoryLog(clock=clock)
    await planted_call(log, "call-1")
    await planted_call(log, "call-2", closes=False)
    following = Following(log, shelf.archiver, keep_s=30.0)
    figures = await following.sweep()
    assert (figures.archived, figures.open, figures.failed) == (1, 0, 0)
    assert [head.ref.session_id for head in await shelf.source.sessions()] == ["call-1"]
    assert (await following.sweep()).known == 1
    clock.now_s = 31.0
    with pytest.raises(SessionUnknown):
        await log.head("call-1")
    assert (await log.head("call-2")).state == "claimed"
    assert (await following.sweep()).known == 0


async def test_the_stores_own_retention_is_left_alone_where_that_is_wanted(shelf: Shelf) -> None:
    clock = Clock()
    log = MemoryLog(clock=clock)
    await planted_call(log)
    await Following(log, shelf.archiver, keep_s=None).sweep()
    clock.now_s = log.settings.retention_s - 1
    assert (await log.head("call-1")).state == "closed"


async def test_sessions_that_go_on_are_followed_if_asked(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log, closes=False)
    following = Following(log, shelf.archiver, follows_open=True)
    assert (await following.sweep()).open == 1
    await keeping_of(log).terminate((await log.head("call-1")).ref, "done")
    assert (await following.sweep()).archived == 1


async def test_a_past_life_is_archived_beside_the_next_one(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    await planted_call(log)
    assert (await Following(log, shelf.archiver).sweep()).archived == 2
    assert [head.ref.incarnation for head in await shelf.source.sessions()] == [0, 1]
    assert (await shelf.source.find("call-1")).ref.incarnation == 1
    assert (await shelf.source.find("call-1#0")).ref.incarnation == 0


async def test_what_was_put_back_to_be_read_is_not_archived(shelf: Shelf) -> None:
    log = MemoryLog()
    with FileSource(RECORDING) as source:
        entries = source.input(source.head), source.output(source.head)
        await restore(log, source.head, *entries, await source.snapshots(source.head))
    assert (await Following(log, shelf.archiver).sweep()).archived == 0


async def test_one_session_that_cannot_be_archived_keeps_no_other_from_it(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = MemoryLog()
    for number in range(3):
        await planted_call(log, f"call-{number}")
    real = LiveSource.output

    def output(self: LiveSource, head, after_seq=0, *, audio=False):  # type: ignore[no-untyped-def]
        if head.ref.session_id == "call-1":
            raise LogUnavailable("gone for a moment")
        return real(self, head, after_seq, audio=audio)

    monkeypatch.setattr(LiveSource, "output", output)
    following = Following(log, shelf.archiver)
    figures = await following.sweep()
    assert (figures.archived, figures.failed) == (2, 1)
    assert "session=call-1 is not archived yet: gone for a moment" in caplog.text
    monkeypatch.undo()
    assert (await following.sweep()).archived == 1


async def test_it_goes_on_until_it_is_told_to_stop(shelf: Shelf) -> None:
    log = MemoryLog()
    running = asyncio.create_task(Following(log, shelf.archiver).run(0.01))
    await planted_call(log)
    async with asyncio.timeout(30):
        while not await shelf.source.sessions():
            await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
