"""Part of an archived life taken out: out of every copy, whenever the process ends on the way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from duplex_es.archive.keystore import KeyDestroyed
from duplex_es.archive.layout import LifeName
from duplex_es.archive.redaction import Redaction, Scope
from duplex_es.archive.resealing import destroy_keys, put_away, reseal, tidy
from duplex_es.archive.source import ArchiveSource
from duplex_es.archive.writing import Archiver
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.notes import Erased, Tombstone
from duplex_es.tools.log.checks import check_session
from tests.support.archives import Cut, CutFiles, Planted, Shelf, archived, planted_call

pytestmark = pytest.mark.unit

ALL = Scope(from_ms=0, to_ms=2_000_000_000_000)
TOMBSTONE = Tombstone(session_id="call-1", incarnation=0, created_ms=0, what="span", at_ms=1)


async def filled(folder: Path) -> tuple[Shelf, Planted]:
    shelf, log = Shelf(folder), MemoryLog()
    planted = await planted_call(log)
    await archived(log, shelf)
    return shelf, planted


async def all_that_can_be_read(shelf: Shelf) -> bytes:
    """Every byte of every entry that somebody with all keys there are can open, in whatever file it is."""
    found = b""
    for manifest in await shelf.source.manifests("call-1"):
        for generation in range(1, 4):
            try:
                key = await shelf.keys.read("call-1", manifest.life.name, generation)
            except (KeyDestroyed, Exception):
                continue
            source = ArchiveSource(shelf.files, shelf.keys)
            contents = await source.contents(manifest)
            contents.key, contents.generation = key, generation
            for stream in ("input", "output"):
                for path in await contents.paths(stream):
                    opened = await contents.segment(path)
                    found += b"".join(entry.body + (entry.audio or b"") for entry in opened.entries)
    return found


async def test_a_resealed_life_reads_without_the_part_and_keeps_every_rule(tmp_path: Path) -> None:
    shelf, planted = await filled(tmp_path)
    (manifest,) = await shelf.source.manifests("call-1")
    changed = await reseal(shelf.archiver, manifest, Redaction(Scope(speaker="caller")), TOMBSTONE)
    source = shelf.source
    head = await source.find("call-1")
    assert (await check_session(source, head)).expired_audio == changed == len(planted.caller_samples)
    (tombstone,) = source.manifest_of(head).tombstones
    assert tombstone.records == changed
    data = await all_that_can_be_read(shelf)
    assert not any(sample in data for sample in planted.caller_samples)
    assert all(sample in data for sample in planted.assistant_samples)


async def test_a_copy_of_the_archive_from_before_cannot_be_read_any_more(tmp_path: Path) -> None:
    shelf, _ = await filled(tmp_path / "a")
    (manifest,) = await shelf.source.manifests("call-1")
    shutil.copytree(tmp_path / "a" / "archive", tmp_path / "copy" / "archive")
    await reseal(shelf.archiver, manifest, Redaction(ALL), TOMBSTONE)
    with pytest.raises(KeyDestroyed):
        await ArchiveSource(Shelf(tmp_path / "copy").files, shelf.keys).find("call-1")


@pytest.mark.parametrize("after", [False, True])
async def test_cut_short_at_any_step_it_is_finished_by_the_next(tmp_path: Path, after: bool) -> None:
    at = 0
    while True:
        shelf, planted = await filled(tmp_path / f"{at}")
        (manifest,) = await shelf.source.manifests("call-1")
        files = CutFiles(shelf.url, at, after=after)
        try:
            await reseal(Archiver(files, shelf.keys), manifest, Redaction(ALL), TOMBSTONE)
        except Cut:
            source = shelf.source
            head = await source.find("call-1")
            await check_session(source, head)
            (manifest,) = await shelf.source.manifests("call-1")
            await reseal(shelf.archiver, manifest, Redaction(ALL), TOMBSTONE)
            source = shelf.source
            head = await source.find("call-1")
            await check_session(source, head)
            data = await all_that_can_be_read(shelf)
            assert [trace for trace in planted.said if trace in data] == []
            left = shelf.files.names("segments") + shelf.files.names("index")
            generation = source.manifest_of(head).generation
            assert all(f"/{generation}/" in path or f".{generation}.parquet" in path for path in left)
            at += 1
            continue
        assert at > 5
        return


async def test_a_life_put_away_leaves_its_tombstone_and_nothing_else(tmp_path: Path) -> None:
    shelf, _ = await filled(tmp_path)
    (manifest,) = await shelf.source.manifests("call-1")
    await put_away(shelf.files, shelf.keys, manifest, TOMBSTONE)
    assert shelf.files.names("") == [manifest.life.manifest]
    with pytest.raises(Erased) as erased:
        await shelf.source.find("call-1")
    assert erased.value.tombstones == [TOMBSTONE]
    assert await shelf.source.sessions() == []
    (bare,) = await shelf.source.manifests("call-1")
    assert (bare.segments, bare.callers, bare.gateway, bare.state) == ([], [], "", "erased")
    await tidy(shelf.files, shelf.keys, bare)


@pytest.mark.parametrize("after", [False, True])
async def test_putting_away_cut_short_leaves_nothing_that_can_be_read(tmp_path: Path, after: bool) -> None:
    at = 0
    while True:
        shelf, planted = await filled(tmp_path / f"{at}")
        (manifest,) = await shelf.source.manifests("call-1")
        try:
            await put_away(CutFiles(shelf.url, at, after=after), shelf.keys, manifest, TOMBSTONE)
        except Cut:
            data = await all_that_can_be_read(shelf)
            assert [trace for trace in planted.said if trace in data] == []
            at += 1
            continue
        assert at > 3
        return


async def test_every_key_that_was_made_is_destroyed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    name = LifeName("call-1", 0, 5)
    for generation in (1, 2, 3):
        await shelf.keys.obtain("call-1", name.name, generation)
    await destroy_keys(shelf.keys, name)
    assert all([await shelf.keys.is_destroyed("call-1", name.name, generation) for generation in (1, 2, 3)])
    assert not await shelf.keys.is_made("call-1", name.name, 4)
