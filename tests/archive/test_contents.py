"""What is archived of a life."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.archive.contents import Contents, read_manifest
from duplex_es.log.api import EntryId
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.errors import ReadingError
from tests.support.archives import Shelf, archived, planted_call

pytestmark = pytest.mark.unit


async def test_the_segments_that_are_there_are_those_of_the_manifest(tmp_path: Path) -> None:
    shelf, log = Shelf(tmp_path), MemoryLog()
    await planted_call(log)
    await archived(log, shelf)
    (manifest,) = await shelf.source.manifests()
    contents = await shelf.source.contents(manifest)
    paths = await contents.paths("input") + await contents.paths("output")
    assert [(await contents.segment(path)).note for path in paths] == manifest.segments
    assert await contents.broken_chain(manifest.segments) is None
    standing = await contents.standing()
    assert standing is not None and standing.head.session_id == "call-1"
    entries = [entry.id async for entry in contents.entries("input", manifest.segments, EntryId(1, 2))]
    assert entries[0] == EntryId(1, 3)


async def test_what_is_not_there_is_none_or_says_so(tmp_path: Path) -> None:
    shelf, log = Shelf(tmp_path), MemoryLog()
    await planted_call(log)
    await archived(log, shelf)
    (manifest,) = await shelf.source.manifests()
    empty = Contents(shelf.files, manifest.life, 7, bytes(32))
    assert await empty.standing() is None
    assert await empty.paths("input") == []
    assert read_manifest(shelf.files, "manifests/none.json") is None
    with pytest.raises(ReadingError, match="is missing"):
        await empty.segment("segments/none")
