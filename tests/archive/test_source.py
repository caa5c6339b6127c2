"""An archive as a source, as every command reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.archive import writing
from duplex_es.archive.source import ArchiveSource
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.errors import ReadingError
from duplex_es.reading.notes import Exported
from duplex_es.tools.log.checks import Violated, check_session
from tests.support.archives import Shelf, archived, planted_call

pytestmark = pytest.mark.unit


@pytest.fixture
async def shelf(tmp_path: Path) -> Shelf:
    shelf, log = Shelf(tmp_path), MemoryLog()
    await planted_call(log, "call-1")
    await archived(log, shelf)
    return shelf


async def test_a_session_is_found_by_its_id_its_life_or_as_the_only_one(shelf: Shelf) -> None:
    head = await shelf.source.find(None)
    (manifest,) = await shelf.source.manifests()
    for name in ("call-1", "call-1#0", f"call-1@0-{manifest.created_ms}"):
        assert await shelf.source.find(name) == head
    for name in ("call-2", "call-1#1", "call"):
        with pytest.raises(ReadingError, match="no session"):
            await shelf.source.find(name)


async def test_of_several_sessions_one_has_to_be_named(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log, "call-2")
    await archived(log, shelf, "call-2")
    with pytest.raises(ReadingError, match="2 sessions"):
        await shelf.source.find(None)


async def test_lives_of_the_same_ref_are_told_apart_by_when_they_were_made(shelf: Shelf) -> None:
    log = MemoryLog()
    await planted_call(log, turns=1)
    log._current["call-1"].created_ms += 5_000
    await archived(log, shelf)
    older, newer = await shelf.source.manifests("call-1")
    source = shelf.source
    first = await source.find(older.life.name)
    assert source.manifest_of(first) == older
    assert source.manifest_of(await source.find("call-1")) == newer


async def test_reading_begins_anywhere(shelf: Shelf) -> None:
    source = shelf.source
    head = await source.find("call-1")
    seqs = [entry.id.number async for entry in source.output(head)]
    assert [entry.id.number async for entry in source.output(head, 20)] == seqs[20:]
    ids = [entry.id async for entry in source.input(head)]
    assert [entry.id async for entry in source.input(head, ids[3])] == ids[4:]


async def test_a_segment_that_is_missing_or_exchanged_is_noticed(shelf: Shelf) -> None:
    source = shelf.source
    head = await source.find("call-1")
    segments = [path for path in shelf.files.names("segments") if "put-" in path]
    data = shelf.files.read(segments[-1]) or b""
    shelf.files.put(segments[-1], data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ReadingError, match="was changed"):
        await check_session(source, head)
    shelf.files.remove(segments[-1])
    with pytest.raises(ReadingError, match="is missing"):
        await check_session(source, head)


async def test_an_archive_read_with_other_keys_says_so(shelf: Shelf, tmp_path: Path) -> None:
    other = Shelf(tmp_path / "other")
    with pytest.raises(ReadingError, match="are these its keys"):
        await ArchiveSource(shelf.files, other.keys).find("call-1")


async def test_copies_are_noted_in_the_archive(shelf: Shelf) -> None:
    note = Exported(session_id="call-1", incarnation=0, host="h", path="/p")
    await shelf.source.note(note)
    assert await shelf.source.notes_on("call-1") == [note]
    assert await shelf.source.notes_on("call-2") == []


async def test_a_cut_chain_breaks_a_rule(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "SEGMENT_ENTRIES", 8)
    log = MemoryLog()
    await planted_call(log, "call-3")
    await archived(log, shelf, "call-3")
    source = shelf.source
    head = await source.find("call-3")
    manifest = source.manifest_of(head)
    del manifest.segments[-2]
    with pytest.raises(Violated) as violated:
        await check_session(source, head)
    assert violated.value.rule == "chain"


@pytest.mark.parametrize("session_id", [".", ".."])
async def test_what_is_known_of_an_id_that_is_a_folders_name_is_its_own(shelf: Shelf, session_id: str) -> None:
    mine = Exported(session_id=session_id, incarnation=0, host="h", path="/mine.dxlog")
    for other in ("call-1", *(f"call-{number}" for number in range(300))):  # Each partition has some.
        await shelf.source.note(Exported(session_id=other, incarnation=0, host="h", path=f"/{other}.dxlog"))
    await shelf.source.note(mine)
    assert await shelf.source.exports(session_id) == [mine]
