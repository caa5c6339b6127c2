"""The list of the newest sessions in an archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.archive import listing as listing_module
from duplex_es.archive.files import Files
from duplex_es.archive.layout import LifeName, Manifest, pack_manifest
from duplex_es.archive.listing import Listing, created_in, life_in
from duplex_es.archive.resealing import put_away
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.notes import Tombstone
from tests.support.archives import Shelf, archived, planted_call

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def manifest(session_id: str, created_ms: int, state: str = "closed") -> Manifest:
    return Manifest(
        schema_version=1,
        made_by="a test",
        archived_ms=created_ms,
        session_id=session_id,
        incarnation=0,
        created_ms=created_ms,
        state=state,
        generation=1,
        ended_ms=created_ms + 9_000 if state == "closed" else 0,
    )


def put(files: Files, one: Manifest) -> None:
    files.put(one.life.open_manifest if one.state == "open" else one.life.manifest, pack_manifest(one))


@pytest.fixture(params=["a folder", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return Files(str(tmp_path / "archive") if request.param == "a folder" else f"memory://{tmp_path.name}")


async def test_the_newest_are_listed_first_and_no_more_than_asked_for(files: Files) -> None:
    for number in range(5):
        put(files, manifest(f"call-{number}", 1_000 + number))
    found = await Listing(files, most=3).newest()
    assert [one.head.ref.session_id for one in found] == ["call-4", "call-3", "call-2"]
    assert [(one.created_ms, one.ended_ms) for one in found[:1]] == [(1_004, 10_004)]


async def test_an_archive_that_is_empty_lists_nothing(files: Files) -> None:
    assert await Listing(files).newest() == []


async def test_what_is_whole_stands_in_the_place_of_what_went_on(files: Files) -> None:
    put(files, manifest("call-1", 5, "open"))
    clock = Clock()
    listing = Listing(files, fresh_s=10.0, clock=clock)
    assert [(one.head.state, one.ended_ms) for one in await listing.newest()] == [("claimed", None)]
    put(files, manifest("call-1", 5))
    clock.now_s = 10.0
    assert [(one.head.state, one.ended_ms) for one in await listing.newest()] == [("closed", 9_005)]


async def test_a_manifest_is_read_once_and_again_when_it_was_replaced(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = listing_module.read_manifest

    def noted(files: Files, path: str) -> Manifest | None:
        read.append(life_in(path))
        return real(files, path)

    monkeypatch.setattr(listing_module, "read_manifest", noted)
    clock = Clock()
    listing = Listing(files, fresh_s=10.0, clock=clock)
    put(files, manifest("call-1", 1))
    put(files, manifest("call-2", 2))
    await listing.newest()
    put(files, manifest("call-3", 3))
    assert len(await listing.newest()) == 2, "fresh enough"
    put(files, manifest("call-1", 1, "erased"))
    clock.now_s = 10.0
    assert [one.head.ref.session_id for one in await listing.newest()] == ["call-3", "call-2"]
    assert sorted(read) == ["call-1@0-1", "call-1@0-1", "call-2@0-2", "call-3@0-3"]


async def test_a_session_that_was_erased_is_not_listed_and_the_end_of_a_call_is_in_its_manifest(tmp_path: Path) -> None:
    shelf, log = Shelf(tmp_path), MemoryLog()
    await planted_call(log)
    await archived(log, shelf)
    (one,) = await Listing(shelf.files).newest()
    assert one.ended_ms is not None and 0 < one.ended_ms - 1_700_000_000_000 < 60_000
    (manifest,) = await shelf.source.manifests()
    tombstone = Tombstone(session_id="call-1", incarnation=0, created_ms=0, what="session", at_ms=1)
    await put_away(shelf.files, shelf.keys, manifest, tombstone)
    assert await Listing(shelf.files).newest() == []


def test_the_name_of_a_manifest_says_when_its_life_was_made() -> None:
    path = LifeName("a/b-c@d", 3, 1_700_000_000_123).manifest
    assert created_in(path) == 1_700_000_000_123 and "/" not in life_in(path)
    assert created_in("manifests/00/readme.txt") == 0
