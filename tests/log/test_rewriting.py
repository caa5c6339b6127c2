"""A store that writes its files anew."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duplex_es.log.errors import LogError
from duplex_es.log.redis import RedisLog
from duplex_es.log.rewriting import rewrite_files
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_stage import eventually
from tests.support.processes import start_store

pytestmark = [pytest.mark.redis, pytest.mark.timeout(300)]

SECRET = b"zirkonfarben-of-the-caller"
PLAIN = ("--aof-use-rdb-preamble", "no", "--rdbcompression", "no")


def holding(folder: Path) -> list[str]:
    """The files that hold the secret."""
    found = []
    for path in folder.rglob("*"):
        try:
            found += [path.name] if path.is_file() and SECRET in path.read_bytes() else []
        except FileNotFoundError:
            continue
    return found


async def opened(url: str) -> RedisLog:
    log = RedisLog.from_url(url, LogSettings(durability="memory"))
    await log.connect()
    return log


@pytest.mark.parametrize("kind", ["valkey", "redis"])
async def test_what_was_erased_is_in_no_file_afterwards(kind: str) -> None:
    store = start_store(kind, "--appendonly", "yes", "--save", "3600 1", *PLAIN)
    try:
        log = await opened(store.url)
        await log.nodes.calls([("SET", "dx:x", SECRET), ("BGSAVE",)])
        await rewrite_files(log)
        assert SECRET in b"".join(path.read_bytes() for path in store.directory.rglob("*.rdb"))
        await log.nodes.calls([("DEL", "dx:x")])
        assert await rewrite_files(log) == ["the append-only file was rewritten", "the snapshot was rewritten"]
        # The store removes its old files in the background.
        assert await eventually(lambda: asyncio.to_thread(holding, store.directory), lambda found: not found) == []
        await log.close_connections()
    finally:
        store.stop()


async def test_a_store_without_files_is_left_alone() -> None:
    store = start_store("valkey")
    try:
        log = await opened(store.url)
        assert await rewrite_files(log) == ["the store writes no files"]
        await log.close_connections()
    finally:
        store.stop()


async def test_a_store_that_forbids_it_says_so() -> None:
    store = start_store("valkey", "--appendonly", "yes", "--rename-command", "BGREWRITEAOF", "")
    try:
        log = await opened(store.url)
        with pytest.raises(LogError):
            await rewrite_files(log)
        await log.close_connections()
    finally:
        store.stop()
