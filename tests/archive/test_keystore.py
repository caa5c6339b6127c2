"""Keys: the same for everybody who asks, and gone for good once destroyed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duplex_es.archive.files import Files
from duplex_es.archive.keystore import FileDrawer, KeyDestroyed, KeyStore, key_store
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.errors import ReadingError
from tests.support.archives import OPERATOR_KEY

pytestmark = pytest.mark.unit


@pytest.fixture
def keys(tmp_path: Path) -> KeyStore:
    return KeyStore(FileDrawer(Files(str(tmp_path))), OPERATOR_KEY)


async def test_whoever_asks_for_a_key_gets_the_same(keys: KeyStore, tmp_path: Path) -> None:
    made = await asyncio.gather(*(keys.obtain("s", "s@0-1", 1) for _ in range(8)))
    assert len(set(made)) == 1 and len(made[0]) == 32
    assert await keys.read("s", "s@0-1", 1) == made[0]
    assert await keys.obtain("s", "s@0-1", 2) != made[0]
    assert all(made[0] not in path.read_bytes() for path in tmp_path.rglob("*.key"))


async def test_a_destroyed_key_is_never_made_again(keys: KeyStore, tmp_path: Path) -> None:
    await keys.obtain("s", "s@0-1", 1)
    for generation in (1, 2):
        assert not await keys.is_destroyed("s", "s@0-1", generation)
        await keys.destroy("s", "s@0-1", generation)
        for ask in (keys.obtain, keys.read):
            with pytest.raises(KeyDestroyed):
                await ask("s", "s@0-1", generation)
    assert [path.read_bytes() for path in tmp_path.rglob("*.key")] == [b"destroyed"] * 2


async def test_a_key_that_is_not_there_is_not_made_by_reading(keys: KeyStore) -> None:
    with pytest.raises(ReadingError, match="are these its keys"):
        await keys.read("s", "s@0-1", 1)
    assert not await keys.is_made("s", "s@0-1", 1)


def test_keys_need_a_place_that_lasts(tmp_path: Path) -> None:
    assert key_store(str(tmp_path), OPERATOR_KEY)
    with pytest.raises(ReadingError, match="memory cannot keep keys"):
        key_store("redis", OPERATOR_KEY, MemoryLog())
    with pytest.raises(ReadingError, match="no store"):
        key_store("redis", OPERATOR_KEY)
