"""Files at a URL: whole or not at all."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from duplex_es.archive.files import Files
from duplex_es.reading.errors import ReadingError

pytestmark = pytest.mark.unit


@pytest.fixture(params=["folder", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Files]:
    yield Files(str(tmp_path / "place") if request.param == "folder" else f"memory://{uuid.uuid4().hex}")


def test_what_is_put_is_read_listed_and_removed(files: Files) -> None:
    assert files.read("a/b") is None
    assert files.names("a") == []
    files.put("a/b", b"1")
    files.put("a/b", b"22")
    files.put("a/c/d", b"3")
    assert files.read("a/b") == b"22"
    assert files.names("") == ["a/b", "a/c/d"]
    assert files.names("a/c") == ["a/c/d"]
    files.remove("a/b", "a/b", "nothing")
    assert files.names("") == ["a/c/d"]


def test_only_the_first_of_several_writers_writes_a_new_file(files: Files) -> None:
    with ThreadPoolExecutor(8) as pool:
        wrote = list(pool.map(lambda n: files.put_new("once", b"%d" % n), range(24)))
    assert wrote.count(True) == 1
    assert files.read("once") == b"%d" % wrote.index(True)
    assert files.names("") == ["once"]


def test_a_half_written_file_is_never_seen(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    (tmp_path / ".part-0123").write_bytes(b"half")
    assert files.names("") == []


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ReadingError, match="cannot write"):
        Files(str(tmp_path / "file")).put("a", b"")


def test_a_place_nobody_knows_says_so() -> None:
    with pytest.raises(ReadingError, match="nowhere://x cannot be opened"):
        Files("nowhere://x")


def test_a_file_that_was_replaced_has_another_mark(files: Files) -> None:
    assert files.stamps("manifests") == {}
    for name in ("one", "two"):
        files.put(f"manifests/{name}.json", b"before")
    before = files.stamps("manifests")
    assert list(before) == ["manifests/one.json", "manifests/two.json"] and files.stamps("manifests") == before
    files.put("manifests/two.json", b"after_")
    after = files.stamps("manifests")
    assert after["manifests/one.json"] == before["manifests/one.json"]
    assert after["manifests/two.json"] != before["manifests/two.json"]


def test_whatever_the_client_of_a_place_raises_is_told_as_one_kind(files: Files) -> None:
    class Away:
        """An object store's client: its errors are of its own kinds."""

        def __getattr__(self, name: str) -> Any:
            def fail(*what: object, **how: object) -> None:
                raise LookupError("EndpointConnectionError")

            return fail

    files._fs, files._is_local = Away(), False
    asked: list[Callable[[], object]] = [
        lambda: files.read("a"),
        lambda: files.put("a", b"1"),
        lambda: files.put_new("a", b"1"),
        lambda: files.names("a"),
        lambda: files.stamps("a"),
        lambda: files.remove("a"),
    ]
    for ask in asked:
        with pytest.raises(ReadingError, match=r"cannot .*a: .*EndpointConnectionError"):
            ask()


async def test_a_place_that_hangs_is_not_waited_for_and_keeps_only_its_own_threads(tmp_path: Path) -> None:
    files, ends = Files(str(tmp_path), patience_s=0.05), threading.Event()
    try:
        for found in await asyncio.gather(*(files.aside(ends.wait) for _ in range(40)), return_exceptions=True):
            assert isinstance(found, ReadingError) and "does not answer within 0.05 s" in str(found)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 30) == "free"
    finally:
        ends.set()
    assert await Files(str(tmp_path)).aside(len, "abc") == 3
