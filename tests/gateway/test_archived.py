"""Calls that the store has let go of, read from a real archive in a folder."""

from __future__ import annotations

import asyncio
import builtins
import io
import threading
import wave
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from duplex_es.archive.files import Files
from duplex_es.archive.following import Following
from duplex_es.archive.resealing import put_away
from duplex_es.archive.sealing import OperatorKeys
from duplex_es.log.keeping import keeping_of
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.errors import ReadingError, SessionMissing
from duplex_es.reading.notes import Erased, Tombstone, pack_note
from duplex_es.reading.source import LiveSource
from gateway.archived import WithArchive, open_archive
from tests.gateway.reading import TOKEN, ask
from tests.gateway.stage import Gateway, running, settings_of
from tests.support.archives import ASKED, Shelf, planted_call

pytestmark = [pytest.mark.redis, pytest.mark.timeout(300)]

KEY = OperatorKeys.text(bytes(range(32)))


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock) -> MemoryLog:
    return MemoryLog(clock=clock)


def where(shelf: Shelf) -> dict[str, Any]:
    """The settings of a gateway that reads this archive."""
    keys = str(shelf.folder / "keys")
    return {"operator_token": TOKEN, "archive": shelf.url, "archive_keys": keys, "archive_key": KEY}


async def let_go(log: MemoryLog, shelf: Shelf, clock: Clock) -> None:
    """Archive what is closed, and let the store forget it."""
    await Following(log, shelf.archiver, keep_s=1.0).sweep()
    clock.now_s += 2.0


@pytest.fixture
async def gateway(log: MemoryLog, shelf: Shelf, clock: Clock) -> AsyncIterator[Gateway]:
    """One call is only archived, one is in both, one is only live."""
    await planted_call(log, "gone")
    await let_go(log, shelf, clock)
    await planted_call(log, "both")
    await Following(log, shelf.archiver, keep_s=None).sweep()
    await planted_call(log, "live", closes=False)
    async with running(log, **where(shelf)) as gateway:
        yield gateway


async def test_each_session_is_listed_once_and_what_only_the_archive_has_is_marked(gateway: Gateway) -> None:
    found = (await ask(gateway, "/v1/sessions")).json
    assert {one["id"]: (one["state"], one["archived"]) for one in found["data"]} == {
        "gone": ("closed", True),
        "both": ("closed", False),
        "live": ("claimed", False),
    }
    assert (found["total"], found["archive_error"]) == (3, None)
    gone = next(one for one in found["data"] if one["id"] == "gone")
    assert gone["begun_ms"] > 1_600_000_000_000 and gone["length_ms"] is not None
    for query, names in (("q=on", ["gone"]), ("state=claimed", ["live"]), ("error=1", []), ("model=echo", [])):
        assert [one["id"] for one in (await ask(gateway, f"/v1/sessions?{query}")).json["data"]] == names, query


async def test_a_call_is_the_same_in_the_archive_as_it_was_in_the_store(
    log: MemoryLog, shelf: Shelf, clock: Clock, tmp_path: Path
) -> None:
    await planted_call(log)
    asked = (
        "timeline",
        "peaks?lane=caller&level=0&tiles=0,1",
        "peaks?lane=generated&level=1&tiles=0",
        "audio?lane=caller&from_ms=0&to_ms=2000",
        "audio?lane=heard&from_ms=0&to_ms=5000",
        "record?seq=9",
        "record?stream=input&id=1-2",
        "records?stream=output&after=1-3&limit=5",
        "events?after=0",
    )
    async with running(log, **where(shelf)) as gateway:
        live = {path: await ask(gateway, f"/v1/sessions/call-1/{path}") for path in asked}
        await let_go(log, shelf, clock)
        # Whoever had the page open goes on.
        assert (await ask(gateway, f"/v1/sessions/call-1/{asked[3]}")).body == live[asked[3]].body
    assert "x-duplex-archived" not in live["timeline"].headers
    async with running(log, **where(shelf)) as gateway:
        for path, before in live.items():
            answer = await ask(gateway, f"/v1/sessions/call-1/{path}")
            assert (answer.status, answer.body) == (200, before.body), path
        timeline = await ask(gateway, "/v1/sessions/call-1~0/timeline")
        assert timeline.headers["x-duplex-archived"] == "1"
        assert any(ASKED in str(mark) for mark in timeline.json.values())
        with wave.open(io.BytesIO((await ask(gateway, f"/v1/sessions/call-1/{asked[3]}")).body)) as sound:
            assert any(sound.readframes(32_000))
        file = tmp_path / "call.dxlog"
        file.write_bytes((await ask(gateway, "/v1/sessions/call-1/export")).body)
        await planted_call(log, "other")
        parted = (await ask(gateway, "/v1/sessions/call-1/divergence?with=other")).json
        assert len(parted["turns"]) == 2 or parted["alike"]
    with FileSource(file) as source:
        assert source.broken_chain() is None and source.head.ref.session_id == "call-1"
        assert source.head.state == "closed"


async def test_what_is_nowhere_is_not_found_and_nothing_is_told_without_the_token(gateway: Gateway) -> None:
    assert (await ask(gateway, "/v1/sessions/nobody/timeline")).code == "session_not_found"
    assert (await ask(gateway, "/v1/sessions/gone~4/timeline")).code == "session_not_found"
    assert (await ask(gateway, "/v1/sessions/gone/timeline", token=None)).status == 401
    assert (await ask(gateway, "/v1/sessions", token=None)).status == 401


@pytest.mark.parametrize("place", ["archive", "store"])
async def test_an_erased_call_is_its_tombstone(gateway: Gateway, log: MemoryLog, shelf: Shelf, place: str) -> None:
    assert (await ask(gateway, "/v1/sessions/gone/timeline")).status == 200
    (manifest,) = await shelf.source.manifests("gone")
    tombstone = Tombstone(
        session_id="gone",
        incarnation=0,
        created_ms=manifest.created_ms,
        what="session",
        at_ms=1_700_000_000_000,
        by="anna",
        reason="ticket-81",
    )
    if place == "archive":
        await put_away(shelf.files, shelf.keys, manifest, tombstone)
    else:
        await keeping_of(log).note("gone", pack_note(tombstone))
    async with running(log, "gateway-2", **where(shelf)) as another:
        for path in ("timeline", "peaks", "audio?lane=caller", "export", "record?seq=1"):
            answer = await ask(another, f"/v1/sessions/gone/{path}")
            assert (answer.status, answer.code) == (410, "session_erased"), path
            assert "ticket-81" in answer.json["error"]["message"]


async def test_a_call_that_is_open_here_is_gone_as_well_once_it_was_erased(
    log: MemoryLog, shelf: Shelf, clock: Clock
) -> None:
    await planted_call(log)
    await let_go(log, shelf, clock)
    own = Clock()
    settings = settings_of(**where(shelf))
    both = WithArchive(LiveSource(log, "the store"), open_archive(settings, log), clock=own)
    head = await both.find("call-1")
    assert both.has(head) and await both.notes_on("call-1") == []
    (manifest,) = await shelf.source.manifests("call-1")
    tombstone = Tombstone(session_id="call-1", incarnation=0, created_ms=0, what="session", at_ms=1)
    await put_away(shelf.files, shelf.keys, manifest, tombstone)
    own.now_s += 2.0
    with pytest.raises(Erased):
        await both.find("call-1")
    assert await both.notes_on("call-1") == [tombstone], "this takes it off the shelf"
    with pytest.raises(ReadingError):
        _ = [entry async for entry in both.output(head)]


async def test_a_key_that_was_destroyed_opens_nothing(gateway: Gateway, shelf: Shelf) -> None:
    (manifest,) = await shelf.source.manifests("gone")
    await shelf.keys.destroy("gone", manifest.life.name, manifest.generation)
    answer = await ask(gateway, "/v1/sessions/gone/timeline")
    assert (answer.status, answer.code) == (422, "unreadable")
    assert "destroyed" in answer.json["error"]["message"]


async def test_an_archive_that_does_not_answer_takes_nothing_from_what_the_store_has(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(self: Files, folder: str) -> Any:
        raise ReadingError(f"cannot list {folder}: no route to host")

    monkeypatch.setattr(Files, "stamps", down)
    monkeypatch.setattr(Files, "names", down)
    found = (await ask(gateway, "/v1/sessions")).json
    assert {one["id"] for one in found["data"]} == {"both", "live"}
    assert "no route to host" in found["archive_error"]
    assert (await ask(gateway, "/v1/sessions/both/timeline")).status == 200
    assert (await ask(gateway, "/v1/sessions/gone/timeline")).code == "unreadable"


async def test_the_life_that_the_store_has_counts_and_older_ones_are_found_by_their_number(
    log: MemoryLog, shelf: Shelf, clock: Clock
) -> None:
    await planted_call(log)
    await planted_call(log, closes=False)
    await let_go(log, shelf, clock)
    both = WithArchive(LiveSource(log, "the store"), open_archive(settings_of(**where(shelf)), log))
    newest, older = await both.find("call-1"), await both.find("call-1#0")
    assert [head.ref.incarnation for head in (newest, older)] == [1, 0]
    assert (both.has(newest), both.has(older)) == (False, True)
    assert [head.ref.incarnation for head in await both.sessions()] == [1, 0]
    source = shelf.source
    kept = await source.snapshots(await source.find("call-1#0"))
    assert await both.snapshots(older) == kept and kept
    assert await both.broken(older) is None and await both.broken(newest) is None
    with pytest.raises(SessionMissing):
        await both.find("call-2")
    with pytest.raises(ReadingError, match="2 sessions"):
        await both.find(None)


async def test_an_id_that_came_around_again_is_the_stores_and_the_older_one_is_found_by_its_full_name(
    log: MemoryLog, shelf: Shelf, clock: Clock
) -> None:
    await planted_call(log, words=("first", "answer"))
    await let_go(log, shelf, clock)
    await planted_call(log, words=("second", "answer"))
    (manifest,) = await shelf.source.manifests("call-1")
    async with running(log, **where(shelf)) as gateway:
        (row,) = (await ask(gateway, "/v1/sessions")).json["data"]
        assert (row["incarnation"], row["archived"]) == (0, False)
        said = (await ask(gateway, "/v1/sessions/call-1/timeline")).body
        assert b"about second0 please" in said and b"about first0 please" not in said
        older = (await ask(gateway, f"/v1/sessions/call-1@0-{manifest.created_ms}/timeline")).body
        assert b"about first0 please" in older


async def test_what_is_not_installed_is_named_with_its_extra(
    shelf: Shelf, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.partition(".")[0] in hidden:
            raise ImportError(f"No module named {name!r}")
        return real(name, *more)

    for package in ("fsspec", "cryptography"):
        hidden = {package}
        with monkeypatch.context() as patched:
            patched.setattr(builtins, "__import__", without)
            with pytest.raises(ReadingError, match=rf"{package}: install duplex-es\[archive\]"):
                open_archive(settings_of(**where(shelf)), log)


async def test_keys_that_are_none_are_refused_at_the_start(shelf: Shelf, log: MemoryLog, tmp_path: Path) -> None:
    with pytest.raises(ReadingError, match="32 bytes"):
        open_archive(settings_of(**where(shelf) | {"archive_key": "c2hvcnQ="}), log)
    with pytest.raises(ReadingError, match="cannot read"):
        open_archive(settings_of(**where(shelf) | {"archive_key_file": str(tmp_path / "none")}), log)
    (tmp_path / "key").write_text(KEY)
    named = where(shelf) | {"archive_key": "", "archive_key_file": str(tmp_path / "key")}
    assert open_archive(settings_of(**named), log).files.url == shelf.url


async def test_an_archive_that_hangs_keeps_no_place_from_readers_of_live_calls(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = threading.Event()

    def hang(self: Files, *what: object) -> Any:
        assert ends.wait(60)
        raise ReadingError("gave up")

    archive = gateway.service.archive
    assert archive is not None
    monkeypatch.setattr(archive.files, "_patience_s", 0.2)
    monkeypatch.setattr(archive.listing, "_patience_s", 0.2)
    for name in ("stamps", "names", "read"):
        monkeypatch.setattr(Files, name, hang)
    try:
        hung = [asyncio.create_task(ask(gateway, "/v1/sessions/gone/timeline")) for _ in range(20)]
        lists = await asyncio.gather(*(ask(gateway, "/v1/sessions") for _ in range(4)))
        for found in lists:
            assert {one["id"] for one in found.json["data"]} == {"both", "live"}
            assert "still being read" in found.json["archive_error"]
        assert (await ask(gateway, "/v1/sessions/both/timeline")).status == 200
        assert {answer.status for answer in await asyncio.gather(*hung)} == {422}
    finally:
        ends.set()


async def test_an_erased_call_is_its_tombstone_also_while_the_archive_is_away(
    gateway: Gateway, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    tombstone = Tombstone(session_id="gone", incarnation=0, created_ms=0, what="session", at_ms=1, reason="ticket-81")
    await keeping_of(log).note("gone", pack_note(tombstone))

    def down(self: Files, folder: str) -> Any:
        raise ReadingError("no route to host")

    monkeypatch.setattr(Files, "names", down)
    assert (await ask(gateway, "/v1/sessions/gone/timeline")).code == "session_erased"


async def test_the_file_of_any_id_has_a_name_that_headers_can_carry(log: MemoryLog, shelf: Shelf) -> None:
    session_id = "日本 'x'"
    await planted_call(log, session_id)
    async with running(log, **where(shelf)) as gateway:
        answer = await ask(gateway, f"/v1/sessions/{quote(session_id)}/export")
    assert (answer.status, answer.headers["content-disposition"]) == (200, 'attachment; filename="____x_-0.dxlog"')
