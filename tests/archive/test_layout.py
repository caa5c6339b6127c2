"""Names in an archive."""

from __future__ import annotations

import pytest

from duplex_es.archive.layout import LifeName, Manifest, pack_manifest, quoted, unpack_manifest
from duplex_es.archive.source import exports_folder
from duplex_es.log.api import EntryId
from duplex_es.reading.errors import ReadingError

pytestmark = pytest.mark.unit


def manifest(**more: object) -> Manifest:
    known = {
        "schema_version": 1,
        "made_by": "test",
        "archived_ms": 1,
        "session_id": "s",
        "incarnation": 0,
        "created_ms": 5,
        "state": "closed",
        "generation": 1,
    }
    return Manifest(**(known | more))  # type: ignore[arg-type]


@pytest.mark.parametrize("session_id", ["a/b", ".", "..", "a@1-2", "é ß", "x" * 5_000, "a%2Fb"])
def test_any_id_gives_a_name_of_its_own_that_fits_a_path(session_id: str) -> None:
    name = LifeName(session_id, 1, 2)
    assert "/" not in name.name and name.name.count("@") == 1 and len(name.name) < 200
    assert name.name.endswith("@1-2")
    paths = (name.manifest, name.segments, name.index(1), exports_folder(session_id))
    assert not any({".", ".."} & set(path.split("/")) for path in paths)


def test_different_ids_never_share_a_name() -> None:
    ids = [".", "..", "%2E", "a/b", "a%2Fb", "a b", "a+b", "a", "x" * 200, "x" * 201]
    assert len({quoted(one) for one in ids}) == len(ids)


def test_segments_are_listed_in_the_order_of_their_entries() -> None:
    name = LifeName("s", 0, 5)
    ids = [EntryId(1, 0), EntryId(1, 9), EntryId(1, 10), EntryId(2, 0), EntryId(12_345_678, 3)]
    paths = [name.segment(1, "input", one) for one in ids]
    assert paths == sorted(paths)


def test_a_manifest_comes_back_as_it_was_and_another_format_is_refused() -> None:
    made = manifest(callers=["x"])
    assert unpack_manifest(pack_manifest(made), "m") == made
    with pytest.raises(ReadingError, match="m has format 9"):
        unpack_manifest(pack_manifest(manifest(format=9)), "m")
    with pytest.raises(ReadingError, match="m is not a manifest"):
        unpack_manifest(b"{", "m")
