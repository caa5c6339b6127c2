"""The list of the newest sessions in an archive."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from duplex_es.archive import listing as listing_module
from duplex_es.archive.files import Files
from duplex_es.archive.layout import LifeName, Manifest, pack_manifest
from duplex_es.archive.listing import Listing, created_in, life_in
from duplex_es.archive.resealing import put_away
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.errors import ReadingError
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


@pytest.mark.parametrize("damaged", [b"{", b'{"format": 99}', None])
async def test_a_manifest_that_cannot_be_read_takes_nothing_from_the_others(
    files: Files, damaged: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    put(files, manifest("call-1", 1))
    broken = manifest("call-2", 2)
    files.put(broken.life.manifest, damaged or pack_manifest(replace(broken, output="nowhere")))
    files.put("manifests/00/²-².json", b"{")
    assert [one.head.ref.session_id for one in await Listing(files).newest()] == ["call-1"]
    assert broken.life.manifest in caplog.text


async def test_a_place_that_takes_long_keeps_nobody_waiting(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    put(files, manifest("call-1", 1))
    answers, real = threading.Event(), Files.stamps

    def slow(self: Files, folder: str) -> dict[str, str]:
        assert answers.wait(60)
        return real(self, folder)

    monkeypatch.setattr(Files, "stamps", slow)
    clock = Clock()
    listing = Listing(files, fresh_s=10.0, patience_s=0.05, clock=clock)
    with pytest.raises(ReadingError, match="still being read"):
        await listing.newest()
    answers.set()
    assert listing._looking is not None
    await listing._looking
    first = await listing.newest()
    assert [one.head.ref.session_id for one in first] == ["call-1"]
    answers.clear()
    put(files, manifest("call-2", 2))
    clock.now_s = 10.0
    assert await listing.newest() is first, "as it was at the last look"
    answers.set()
    await listing._looking
    assert len(await listing.newest()) == 2


async def test_a_place_that_failed_is_left_alone_for_a_moment(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def down(self: Files, folder: str) -> dict[str, str]:
        looks.append(folder)
        raise ReadingError("no route to host")

    clock = Clock()
    listing = Listing(files, clock=clock)
    with monkeypatch.context() as patched:
        patched.setattr(Files, "stamps", down)
        for _ in range(3):
            with pytest.raises(ReadingError, match="no route"):
                await listing.newest()
    assert len(looks) == 1
    clock.now_s = listing_module.AGAIN_S
    assert await listing.newest() == []
