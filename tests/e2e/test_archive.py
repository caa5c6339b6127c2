"""The archive and erasure against real stores: every byte that is stored anywhere is searched."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import redis

from duplex_es.archive.sealing import OperatorKeys
from duplex_es.archive.source import ArchiveSource
from duplex_es.log.keys import SessionKeys
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.reading.source import LiveSource
from duplex_es.tools import cli
from duplex_es.tools.log.checks import check_session
from tests.support.archives import CALLER, Planted, Shelf, planted_call, traces_in
from tests.support.processes import StoreProcess, start_store

pytestmark = [pytest.mark.redis, pytest.mark.timeout(300)]

ON_DISK = ("--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--save", "3600 1", "--rdbcompression", "no")
SESSIONS = 10
ROUNDS = 12
KEPT = ("--keep-s", "600")
"""Still there when it is compared with the archive, however long all the rounds take."""


@pytest.fixture(params=["valkey", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[StoreProcess]:
    """A store that writes both of its files, so that whatever is in it can be found there."""
    store = start_store(request.param, *ON_DISK)
    yield store
    store.stop()


@pytest.fixture
def shelf(tmp_path: Path, store: StoreProcess, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """An archive, and an environment that names it."""
    (tmp_path / "operator.key").write_text(OperatorKeys.text(bytes(range(32))))
    shelf = Shelf(tmp_path)
    monkeypatch.setenv("DUPLEX_ES_REDIS_URL", store.url)
    monkeypatch.setenv("DUPLEX_ES_ARCHIVE", shelf.url)
    monkeypatch.setenv("DUPLEX_ES_ARCHIVE_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("DUPLEX_ES_ARCHIVE_KEY_FILE", str(tmp_path / "operator.key"))
    return shelf


async def opened(store: StoreProcess) -> RedisLog:
    log = RedisLog.from_url(store.url, LogSettings(durability="memory"))
    await log.connect()
    return log


async def plant(store: StoreProcess, names: Sequence[str]) -> list[Planted]:
    log = await opened(store)
    planted = [await planted_call(log, name) for name in names]
    await planted_call(log, "of-somebody-else", metadata={"caller_id": "somebody else"}, words=("the tide", "at noon"))
    await log.close_connections()
    return planted


def everywhere(store: StoreProcess, shelf: Shelf, traces: Sequence[bytes]) -> dict[bytes, str]:
    """Where the traces are: in the store's memory, in its files, in the archive, its index, its keys, and exports."""
    found = traces_in(store.directory, traces) | traces_in(shelf.folder, traces)
    client = redis.Redis.from_url(store.url)
    for key in client.scan_iter(count=1_000):
        dumped = b"".join(values_of(client, key))
        found |= {trace: key.decode() for trace in traces if trace in dumped or trace in key}
    client.close()
    return found


def values_of(client: redis.Redis, key: bytes) -> Iterator[bytes]:
    kind = client.type(key)
    if kind == b"stream":
        for _, fields in client.xrange(key):
            yield from fields.values()
    elif kind == b"hash":
        yield from client.hgetall(key).values()
    elif kind == b"list":
        yield from client.lrange(key, 0, -1)
    elif kind == b"string":
        yield client.get(key) or b""


def nowhere(store: StoreProcess, shelf: Shelf, traces: Sequence[bytes]) -> None:
    """None of the traces is anywhere, once the store has removed its old files, which it does in the background."""
    deadline = time.monotonic() + 60
    while (found := everywhere(store, shelf, traces)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found == {}


def run(*words: str) -> None:
    assert cli.main(list(words)) == 0, words


def test_nothing_that_a_caller_said_is_left_anywhere_after_erasing_them(
    store: StoreProcess, shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = asyncio.run(plant(store, ["call-1", "call-2"]))
    # What the model says sounds alike in every call.
    of_caller = [trace for one in planted for trace in [*one.caller_samples, *one.words]]
    run("log", "export", "call-1", "-o", str(tmp_path / "call-1.dxlog"))
    run("archive", "run", "--once")
    run("log", "export", "call-2", "--archive", shelf.url, "-o", str(tmp_path / "call-2.dxlog"))
    for path in (tmp_path / "call-1.dxlog", tmp_path / "call-2.dxlog"):
        assert path.exists()
    assert set(everywhere(store, shelf, of_caller)) == set(of_caller)
    run("log", "erase", "--caller", CALLER, "--reason", "asked", "--yes", "--rewrite-files")
    nowhere(store, shelf, of_caller)
    assert not (tmp_path / "call-1.dxlog").exists() and not (tmp_path / "call-2.dxlog").exists()
    capsys.readouterr()
    for place in ([], ["--archive", shelf.url]):
        run("log", "verify", "call-1", *place)
        assert "call-1#0: erased" in capsys.readouterr().out
        run("log", "verify", "of-somebody-else", *place)
        assert "rules hold" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["caller", "assistant", "span"])
def test_a_part_that_is_erased_is_left_nowhere_and_the_rest_keeps_every_rule(
    store: StoreProcess, shelf: Shelf, tmp_path: Path, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (planted,) = asyncio.run(plant(store, ["call-1"]))
    run("archive", "run", "--once")
    run("log", "export", "call-1", "-o", str(tmp_path / "call-1.dxlog"))
    words = ["--since", "0", "--until", "2000000000"] if part == "span" else ["--audio", part]
    # What the model says sounds alike in the other call, which stays.
    of_span = [*planted.caller_samples, *planted.words[:2]]
    gone = {"caller": planted.caller_samples, "assistant": [], "span": of_span}[part]
    run("log", "erase", "call-1", *words, "--yes", "--rewrite-files")
    nowhere(store, shelf, gone)
    capsys.readouterr()
    for place in ([], ["--archive", shelf.url], ["--file", str(tmp_path / "call-1.dxlog")]):
        run("log", "verify", *([] if "--file" in place else ["call-1"]), *place)
        told = capsys.readouterr().out
        assert "all 12 rules hold" in told and "erased" in told


def test_an_open_session_is_erased_only_when_it_may_be_ended(
    store: StoreProcess, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    async def begin() -> Planted:
        log = await opened(store)
        planted = await planted_call(log, closes=False)
        await log.close_connections()
        return planted

    planted = asyncio.run(begin())
    assert cli.main(["log", "erase", "call-1", "--yes"]) == 1
    assert "--close ends it first" in capsys.readouterr().err
    run("log", "erase", "call-1", "--yes", "--close", "--rewrite-files")
    nowhere(store, shelf, planted.traces)


def test_keys_can_lie_in_the_store(store: StoreProcess, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUPLEX_ES_ARCHIVE_KEYS", "redis")
    (planted,) = asyncio.run(plant(store, ["call-1"]))
    run("archive", "run", "--once")
    assert not (shelf.folder / "keys").exists()
    run("log", "verify", "call-1", "--archive", shelf.url)
    run("log", "erase", "call-1", "--yes", "--rewrite-files")
    nowhere(store, shelf, planted.caller_samples)


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
def test_killed_again_and_again_two_processes_archive_everything_once(store: StoreProcess, shelf: Shelf) -> None:
    chance = random.Random(7)
    names = [f"call-{number}" for number in range(SESSIONS)]
    asyncio.run(plant(store, names))
    command = [sys.executable, "-m", "duplex_es.tools.cli", "archive", "run", "--every-s", "0.05", "--open", *KEPT]
    before = kills = 0
    for _ in range(ROUNDS):
        running = [subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL) for _ in range(2)]
        goal = before + chance.randrange(1, 9)
        deadline = time.monotonic() + 60
        while len(files_of(shelf)) < goal and time.monotonic() < deadline:
            assert all(process.poll() is None for process in running)
            if len(shelf.files.names("manifests")) > SESSIONS:
                break
            time.sleep(0.002)
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        before = len(files_of(shelf))
        if len(shelf.files.names("manifests")) > SESSIONS:
            break
    assert kills >= 6
    run("archive", "run", "--once", *KEPT)
    asyncio.run(check_all(store, shelf, [*names, "of-somebody-else"]))


def files_of(shelf: Shelf) -> list[str]:
    return shelf.files.names("segments") + shelf.files.names("manifests")


async def check_all(store: StoreProcess, shelf: Shelf, names: Sequence[str]) -> None:
    """The archive has what the store has, each entry once, and no segment that no manifest names."""
    log = await opened(store)
    source = ArchiveSource(shelf.files, shelf.keys)
    live = LiveSource(log, "the store")
    assert sorted(head.ref.session_id for head in await source.sessions()) == sorted(names)
    known: set[str] = set()
    for name in names:
        head = await source.find(name)
        await check_session(source, head)
        stored = await live.find(name)
        for stream in ("input", "output"):
            ids = [entry.id async for entry in getattr(source, stream)(head)]
            assert ids == [entry.id async for entry in getattr(live, stream)(stored)]
        manifest = source.manifest_of(head)
        contents = await source.contents(manifest)
        known |= {path for stream in ("input", "output") for path in await contents.paths(stream)}
        known.add(manifest.life.head(manifest.generation))
        assert sum(note.count for note in manifest.segments) == len(
            [entry async for entry in source.input(head)] + [entry async for entry in source.output(head)]
        )
    assert set(shelf.files.names("segments")) == known
    # What is archived expires from the store earlier than it would by itself.
    client = redis.Redis.from_url(store.url)
    for name in names:
        keys = SessionKeys.of((await live.find(name)).ref)
        assert 0 < client.pttl(keys.input.records) <= 600_000
    client.close()
    await log.close_connections()
