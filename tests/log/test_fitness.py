"""A store that cannot keep the promises is refused, with the setting that would help."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from redis.exceptions import NoPermissionError

from duplex_es.log.connections import Command, Reply
from duplex_es.log.errors import ConfigurationError
from duplex_es.log.fitness import check_store

pytestmark = pytest.mark.unit


def store(**fields: str) -> object:
    """An exchange with a store whose INFO says ``fields``."""
    known = {"redis_version": "7.0.15", "maxmemory": "0", "maxmemory_policy": "noeviction", **fields}

    async def exchange(commands: Sequence[Command]) -> list[Reply]:
        assert list(commands) == [("INFO",)]
        return [b"# Server\r\n" + "\r\n".join(f"{name}:{value}" for name, value in known.items()).encode()]

    return exchange


@pytest.mark.parametrize("version", ["7.0.0", "7.2.4", "8.4.1", "10.0.0"])
async def test_recent_versions_are_fit(version: str) -> None:
    await check_store(store(redis_version=version))


@pytest.mark.parametrize("version", ["6.2.14", "5.0.0"])
async def test_old_versions_are_refused(version: str) -> None:
    with pytest.raises(ConfigurationError, match=r"7\.0"):
        await check_store(store(redis_version=version))


async def test_a_store_that_would_drop_sessions_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="noeviction"):
        await check_store(store(maxmemory="1000000", maxmemory_policy="allkeys-lru"))


async def test_an_eviction_policy_without_a_limit_does_no_harm() -> None:
    await check_store(store(maxmemory="0", maxmemory_policy="allkeys-lru"))
    await check_store(store(maxmemory="1000000"))


async def test_a_forbidden_info_is_a_matter_of_configuration() -> None:
    async def exchange(commands: Sequence[Command]) -> list[Reply]:
        return [NoPermissionError("this user has no permissions to run the 'info' command")]

    with pytest.raises(ConfigurationError):
        await check_store(exchange)
