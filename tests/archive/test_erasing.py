"""Erasing from a store, an archive and the exports; a tombstone stays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from duplex_es.archive.erasing import Done, Eraser, Target, Wish, erase_export
from duplex_es.archive.following import Following
from duplex_es.archive.redaction import Scope
from duplex_es.archive.writing import Archiver
from duplex_es.log.api import Head
from duplex_es.log.keeping import keeping_of
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.errors import ReadingError
from duplex_es.reading.notes import Erased, Exported, Tombstone, tombstones_of, unpack_notes
from duplex_es.reading.source import LiveSource
from duplex_es.tools.log import carry
from duplex_es.tools.log.checks import check_session
from tests.support.archives import CALLER, Cut, CutFiles, Shelf, archived, planted_call, traces_in

pytestmark = pytest.mark.unit

WISH = Wish(None, by="tester", reason="they asked")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


async def stored_bytes(log: MemoryLog) -> bytes:
    """All that is in the store."""
    found = b"".join(note for notes in log.notes.values() for note in notes)
    for session in [*log._current.values(), *log._past.values()]:
        found += b"".join(entry.body + (entry.audio or b"") for entry in [*session.input, *session.output])
        found += b"".join(packed for _, packed in session.snapshots) + (session.opening or b"")
        found += session.checkpoint or b""
    return found


async def readable(shelf: Shelf) -> bytes:
    """All that the archive gives to whoever has its keys."""
    source, found = shelf.source, b""
    for head in await source.sessions():
        head = await source.find(f"{head.ref.session_id}#{head.ref.incarnation}")
        async for entry in source.input(head):
            found += entry.body + (entry.audio or b"")
        async for entry in source.output(head):
            found += entry.body + (entry.audio or b"")
        found += b"".join(packed for _, packed in await source.snapshots(head)) + (head.opening or b"")
    return found


def found_in(data: bytes, traces: Sequence[bytes]) -> list[bytes]:
    return [trace for trace in traces if trace in data]


async def test_a_session_is_erased_everywhere_and_says_so(shelf: Shelf, tmp_path: Path) -> None:
    log = MemoryLog()
    planted = await planted_call(log)
    await archived(log, shelf)
    live = LiveSource(log, "the store")
    await carry.export(live, await live.find("call-1"), tmp_path / "call.dxlog")
    done = await Eraser(log, shelf.archiver).erase(Target.parse("call-1"), WISH)
    export = str(tmp_path / "call.dxlog")
    assert done == [
        Done("call-1#0", "store", "everything"),
        Done("call-1#0", "archive", "everything"),
        Done("call-1#0", export, "the file"),
    ]
    assert found_in(await stored_bytes(log), planted.traces) == []
    assert traces_in(tmp_path, planted.traces) == {}
    assert not Path(export).exists()
    for source in (live, shelf.source):
        with pytest.raises(Erased, match=r"'call-1' was erased .* by tester, the whole session: they asked"):
            await source.find("call-1")
    assert await Eraser(log, shelf.archiver).erase(Target.parse("call-1"), WISH) == [
        Done("call-1#0", export, "is not there any more")
    ]


async def test_a_caller_is_erased_in_all_sessions_and_nobody_else(shelf: Shelf) -> None:
    log = MemoryLog()
    mine = [await planted_call(log, name) for name in ("call-1", "call-2", "call-3")]
    other = await planted_call(log, "other", metadata={"caller_id": "somebody else"})
    for name in ("call-1", "call-2", "other"):
        await archived(log, shelf, name)
    await keeping_of(log).erase((await log.head("call-1")).ref)  # expired
    eraser = Eraser(log, shelf.archiver)
    targets = await eraser.of_caller(CALLER)
    assert {target.session_id for target in targets} == {"call-1", "call-2", "call-3"}
    for target in targets:
        await eraser.erase(target, WISH)
    samples = [sample for one in mine for sample in one.caller_samples]
    for data in (await stored_bytes(log), await readable(shelf)):
        assert found_in(data, samples) == []
        assert found_in(data, other.caller_samples) == other.caller_samples
    assert await eraser.of_caller(CALLER) == []


@pytest.mark.parametrize(
    ("speaker", "gone", "left"),
    [
        ("caller", "caller_samples", "assistant_samples"),
        ("assistant", "assistant_samples", "caller_samples"),
        ("both", "caller_samples", "words"),
    ],
)
async def test_a_speakers_sound_goes_and_everything_else_stays(
    shelf: Shelf, tmp_path: Path, speaker: str, gone: str, left: str
) -> None:
    log = MemoryLog()
    planted = await planted_call(log)
    await archived(log, shelf)
    live, path = LiveSource(log, "the store"), tmp_path / "call.dxlog"
    await carry.export(live, await live.find("call-1"), path)
    await Eraser(log, shelf.archiver).erase(Target("call-1"), Wish(Scope(speaker=speaker)))
    for data in (await stored_bytes(log), await readable(shelf)):
        assert found_in(data, getattr(planted, gone)) == []
        assert found_in(data, getattr(planted, left)) == getattr(planted, left)
    with FileSource(path) as file:
        for source in (live, shelf.source, file):
            head = await source.find("call-1")
            (tombstone,) = tombstones_of(await source.notes_on("call-1"), head.ref)
            assert (tombstone.what, tombstone.speaker) == ("audio", speaker)
            assert (await check_session(source, head)).notes == [tombstone.line()]
        data = b"".join(e.body + (e.audio or b"") for name in ("input", "output") for e in file.entries(name))
        assert found_in(data, getattr(planted, gone)) == []
        assert file.broken_chain() is None


async def test_a_span_goes_from_the_store_the_archive_and_the_exports(shelf: Shelf, tmp_path: Path) -> None:
    log = MemoryLog()
    planted = await planted_call(log)
    await archived(log, shelf)
    live, path = LiveSource(log, "the store"), tmp_path / "call.dxlog"
    await carry.export(live, await live.find("call-1"), path)
    wish = Wish(Scope(from_ms=0, to_ms=2_000_000_000_000))
    planned = await Eraser(log, shelf.archiver).erase(Target("call-1"), wish, dry_run=True)
    assert found_in(await stored_bytes(log), planted.said) == planted.said
    done = await Eraser(log, shelf.archiver).erase(Target("call-1"), wish)
    assert [one.where for one in planned] == [one.where for one in done] == ["store", "archive", str(path)]
    assert planned[0] == done[0]
    with FileSource(path) as file:
        for source in (live, shelf.source, file):
            head = await source.find("call-1")
            assert len((await check_session(source, head)).notes) == 1
            async for entry in source.output(head):
                assert found_in(entry.body, planted.said) == []
    for data in (await stored_bytes(log), await readable(shelf)):
        assert found_in(data, planted.said) == []


async def test_a_dry_run_changes_nothing(shelf: Shelf) -> None:
    log = MemoryLog()
    planted = await planted_call(log)
    await archived(log, shelf)
    before = await stored_bytes(log), shelf.files.names("")
    for scope in (None, Scope(speaker="both"), Scope(from_ms=0, to_ms=2_000_000_000_000)):
        assert await Eraser(log, shelf.archiver).erase(Target("call-1"), Wish(scope), dry_run=True)
    assert (await stored_bytes(log), shelf.files.names("")) == before
    assert found_in(before[0], planted.traces) == planted.traces


async def test_a_session_that_goes_on_is_left_alone_unless_it_may_be_ended(shelf: Shelf) -> None:
    log = MemoryLog()
    planted = await planted_call(log, closes=False)
    with pytest.raises(ReadingError, match=r"still going on.*--close ends it first"):
        await Eraser(log, shelf.archiver).erase(Target("call-1"), WISH)
    assert (await log.head("call-1")).state == "claimed"
    await Eraser(log, shelf.archiver, closes=True).erase(Target("call-1"), WISH)
    assert found_in(await stored_bytes(log), planted.traces) == []


async def test_one_life_of_an_id_is_erased_by_itself(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    await planted_call(log)
    await Following(log, shelf.archiver, keep_s=None).sweep()
    await Eraser(log, shelf.archiver).erase(Target.parse("call-1#0"), WISH)
    for lives in (await keeping_of(log).lives("call-1"), await shelf.source.sessions()):
        refs = [getattr(life, "head", life).ref for life in lives]
        assert [ref.incarnation for ref in refs] == [1]
    assert (await shelf.source.find("call-1")).ref.incarnation == 1


async def test_what_is_erased_while_it_is_being_archived_stays_erased(shelf: Shelf) -> None:
    """The archive's process has read the session already when it is erased, and goes on afterwards."""
    for scope in (None, Scope(from_ms=0, to_ms=2_000_000_000_000)):
        log = MemoryLog()
        planted = await planted_call(log)
        following = Following(log, shelf.archiver, keep_s=None)

        class Interrupted(LiveSource):
            async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
                found = await super().snapshots(head)
                await Eraser(self.log, shelf.archiver).erase(Target("call-1"), Wish(scope))  # noqa: B023
                return found

        following._source = Interrupted(log, "the store")
        figures = await following.sweep()
        assert (figures.archived, figures.failed) == (0, 1)
        following._source = LiveSource(log, "the store")
        await following.sweep()
        for data in (await stored_bytes(log), await readable(shelf)):
            assert found_in(data, planted.said) == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("scope", [None, Scope(from_ms=0, to_ms=2_000_000_000_000)], ids=["all", "span"])
async def test_cut_short_it_is_finished_when_it_is_asked_for_again(
    tmp_path: Path, scope: Scope | None, after: bool
) -> None:
    at = 0
    while True:
        shelf, log = Shelf(tmp_path / f"{at}"), MemoryLog()
        planted = await planted_call(log, turns=1)
        await archived(log, shelf)
        try:
            cut = Archiver(CutFiles(shelf.url, at, after=after), shelf.keys)
            await Eraser(log, cut).erase(Target("call-1"), Wish(scope))
        except Cut:
            await Eraser(log, shelf.archiver).erase(Target("call-1"), Wish(scope))
            for data in (await stored_bytes(log), await readable(shelf)):
                assert found_in(data, planted.said) == []
            at += 1
            continue
        assert at > 2
        return


async def test_an_export_elsewhere_or_of_something_else_is_named_and_left(tmp_path: Path) -> None:
    away = Exported(session_id="call-1", incarnation=0, host="elsewhere", path=str(tmp_path / "none.dxlog"))
    assert "was written on elsewhere" in erase_export(away, WISH, dry_run=False).what
    log = MemoryLog()
    await planted_call(log, "other")
    live = LiveSource(log, "")
    await carry.export(live, await live.find("other"), tmp_path / "x.dxlog")
    moved = Exported(session_id="call-1", incarnation=0, host="h", path=str(tmp_path / "x.dxlog"))
    done = await asyncio.to_thread(erase_export, moved, WISH, dry_run=False)
    assert done.what == "holds another session by now"
    assert (tmp_path / "x.dxlog").exists()


async def test_a_tombstone_says_what_and_when_and_never_what_it_was(shelf: Shelf) -> None:
    log = MemoryLog()
    planted = await planted_call(log)
    await Eraser(log, None).erase(Target("call-1"), WISH)
    notes = await keeping_of(log).notes("call-1")
    (tombstone,) = unpack_notes(notes)
    assert isinstance(tombstone, Tombstone)
    assert (tombstone.what, tombstone.by, tombstone.reason) == ("session", "tester", "they asked")
    assert found_in(b"".join(notes), planted.traces) == []


def test_a_target_is_an_id_or_one_life_of_it() -> None:
    assert Target.parse("a#b#2") == Target("a#b", 2)
    assert Target.parse("a#b") == Target("a#b")
    assert Target("a", 2).fits(2) and not Target("a", 2).fits(1) and Target("a").fits(7)
