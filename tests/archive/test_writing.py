"""Archiving one life: all of it, once, whatever happens on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duplex_es.archive import writing
from duplex_es.archive.keystore import FileDrawer, KeyDestroyed, KeyStore
from duplex_es.archive.layout import Manifest
from duplex_es.archive.redaction import Redaction, Scope
from duplex_es.archive.resealing import put_away, reseal
from duplex_es.archive.writing import Archiver
from duplex_es.log.api import Entry, Head
from duplex_es.log.errors import SessionUnknown
from duplex_es.log.keeping import keeping_of
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.notes import Tombstone
from duplex_es.reading.source import LiveSource, Source
from duplex_es.tools.log.checks import check_session
from tests.support.archives import OPERATOR_KEY, Cut, CutFiles, Shelf, archived, only_life, planted_call, traces_in

pytestmark = pytest.mark.unit


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "SEGMENT_ENTRIES", 8)


async def everything(source: Source, head: Head) -> list[Entry]:
    said = [entry async for entry in source.input(head, audio=True)]
    return said + [entry async for entry in source.output(head, audio=True)]


async def test_an_archived_session_reads_as_the_stores_does_and_keeps_every_rule(shelf: Shelf) -> None:
    log = MemoryLog()
    planted = await planted_call(log)
    head = await archived(log, shelf)
    live = LiveSource(log, "")
    stored = await live.find("call-1")
    assert await everything(shelf.source_of(head), head) == await everything(live, stored)
    for name in ("ref", "model", "state", "generation", "fence", "worker", "output", "input", "first_seq", "opening"):
        assert getattr(head, name) == getattr(stored, name), name
    assert await shelf.source_of(head).snapshots(head) == await live.snapshots(stored)
    assert (await check_session(shelf.source_of(head), head)).notes == []
    assert traces_in(shelf.folder, planted.traces) == {}


async def check_archived_once(log: MemoryLog, shelf: Shelf) -> None:
    """All that the store has is in the archive, once, and there is nothing else."""
    source = shelf.source
    head = await source.find("call-1")
    live = LiveSource(log, "")
    assert await everything(source, head) == await everything(live, await live.find("call-1"))
    await check_session(source, head)
    manifest = source.manifest_of(head)
    name = manifest.life
    firsts = [(note.stream, note.first) for note in manifest.segments]
    assert len(set(firsts)) == len(firsts) > 4
    there = {path for path in shelf.files.names("") if path.startswith(name.segments)}
    assert len(there) == len(firsts) + 1
    assert len(shelf.files.names("")) == len(there) + 2


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_any_step_it_is_archived_once_and_whole_by_the_next(tmp_path: Path, after: bool) -> None:
    log = MemoryLog()
    await planted_call(log)
    life, live = await only_life(log), LiveSource(log, "")
    at = 0
    while True:
        shelf = Shelf(tmp_path / f"{at}")
        files = CutFiles(shelf.url, at, after=after)
        try:
            await Archiver(files, shelf.keys).archive(life, live)
        except Cut:
            await shelf.archiver.archive(life, live)
            await check_archived_once(log, shelf)
            at += 1
            continue
        assert at == files.changes > 8
        return


async def test_killed_again_and_again_it_still_comes_to_an_end(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    life, live = await only_life(log), LiveSource(log, "")
    cuts = 0
    while True:
        try:
            # Each one comes a single step further than the one before.
            await Archiver(CutFiles(shelf.url, cuts, after=True), shelf.keys).archive(life, live)
            break
        except Cut:
            cuts += 1
    await check_archived_once(log, shelf)


async def test_several_at_once_archive_it_once(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    life, live = await only_life(log), LiveSource(log, "")
    manifests = await asyncio.gather(*(shelf.archiver.archive(life, live) for _ in range(4)))
    assert len({tuple(note.first for note in manifest.segments) for manifest in manifests}) == 1
    await check_archived_once(log, shelf)


async def test_a_session_that_goes_on_is_archived_as_far_as_it_has_come_and_then_whole(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log, closes=False)
    open_head = await archived(log, shelf)
    assert open_head.state == "claimed"
    live = LiveSource(log, "")
    stored = await live.find("call-1")
    assert await everything(shelf.source_of(open_head), open_head) == await everything(live, stored)
    assert shelf.files.names("manifests") == [] and len(shelf.files.names("open")) == 1
    await keeping_of(log).terminate(stored.ref, "done")
    head = await archived(log, shelf)
    assert head.state == "closed"
    assert shelf.files.names("open") == []
    await check_archived_once(log, shelf)


async def test_what_was_trimmed_since_stays_in_the_archive(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log, closes=False)
    before = await everything(LiveSource(log, ""), await LiveSource(log, "").find("call-1"))
    await archived(log, shelf)
    session = log._current["call-1"]
    session.trim_history(session.last_input, session.last_seq)
    await keeping_of(log).terminate(session.ref, "done")
    head = await archived(log, shelf)
    assert head.first_seq == 1
    assert await everything(shelf.source_of(head), head) == before


async def test_what_is_erased_while_it_is_archived_is_not_kept(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    life = await only_life(log)
    name = writing.LifeName.of(life)

    class Erasing(LiveSource):
        async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
            await shelf.keys.destroy("call-1", name.name, 1)
            return await super().snapshots(head)

    with pytest.raises(KeyDestroyed):
        await shelf.archiver.archive(life, Erasing(log, ""))
    assert shelf.files.names("manifests") == [] and shelf.files.names("index") == []
    manifest = await shelf.archiver.archive(life, LiveSource(log, ""))
    assert manifest.generation == 2


async def test_a_manifest_whose_key_is_gone_does_not_count(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    await archived(log, shelf)
    name = writing.LifeName.of(await only_life(log))
    await shelf.keys.destroy("call-1", name.name, 1)
    assert await shelf.archiver.known(name) is None
    assert (await archived(log, shelf)).state == "closed"
    assert shelf.source_of(await shelf.source.find("call-1"))


async def test_a_session_that_is_gone_before_it_is_archived_says_so(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    life = await only_life(log)
    await keeping_of(log).erase(life.head.ref)
    with pytest.raises(SessionUnknown):
        await shelf.archiver.archive(life, LiveSource(log, ""))
    assert shelf.files.names("manifests") == []


async def test_a_key_that_was_made_by_another_process_is_used(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    name = writing.LifeName.of(await only_life(log))
    made = await KeyStore(FileDrawer(shelf.key_files), OPERATOR_KEY).obtain("call-1", name.name, 1)
    await archived(log, shelf)
    assert await shelf.keys.read("call-1", name.name, 1) == made


async def test_a_life_that_was_sealed_anew_while_it_was_looked_up_is_left_alone(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    await archived(log, shelf)
    (manifest,) = await shelf.source.manifests("call-1")
    tombstone = Tombstone(session_id="call-1", incarnation=0, created_ms=0, what="audio", at_ms=1)
    archiver = shelf.archiver

    class Meanwhile(KeyStore):
        async def is_destroyed(self, session_id: str, life: str, generation: int) -> bool:
            if generation == 1 and not await super().is_destroyed(session_id, life, generation):
                await reseal(shelf.archiver, manifest, Redaction(Scope(speaker="both")), tombstone)
            return await super().is_destroyed(session_id, life, generation)

    archiver.keys = Meanwhile(FileDrawer(shelf.key_files), OPERATOR_KEY)
    known = await archiver.known(manifest.life)
    assert known is not None and known.generation == 2
    assert len(shelf.files.names("manifests")) == 1


async def test_a_life_that_was_erased_from_the_archive_alone_is_not_archived_again(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log)
    await archived(log, shelf)
    (manifest,) = await shelf.source.manifests("call-1")
    tombstone = Tombstone(session_id="call-1", incarnation=0, created_ms=0, what="session", at_ms=1)

    class Meanwhile(Archiver):
        async def known(self, name: writing.LifeName) -> Manifest | None:
            found = await super().known(name)
            if found is None:
                await put_away(shelf.files, shelf.keys, manifest, tombstone)
            return found

    await shelf.keys.destroy("call-1", manifest.life.name, 1)
    with pytest.raises(KeyDestroyed):
        await Meanwhile(shelf.files, shelf.keys).archive(await only_life(log), LiveSource(log, ""))
    assert shelf.files.names("") == [manifest.life.manifest]
    assert await shelf.keys.is_destroyed("call-1", manifest.life.name, 2)
    assert (await shelf.archiver.archive(await only_life(log), LiveSource(log, ""))).state == "erased"
