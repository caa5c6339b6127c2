"""Ending sessions that nobody came for; what is promised: duplex_es.testing.log_history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis

from duplex_es.log import expiry
from duplex_es.log.api import SessionRef
from duplex_es.log.keys import SessionKeys
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_stage import LogStage, eventually
from tests.support.processes import StoreProcess

pytestmark = pytest.mark.redis

HASTY = LogSettings(lease_s=0.1, sweep_interval_s=0.05)


@pytest.fixture
async def logs(own_valkey: StoreProcess) -> AsyncIterator[list[RedisLog]]:
    logs = [RedisLog.from_url(own_valkey.url, HASTY) for _ in range(3)]
    yield logs
    for log in logs:
        await log.close_connections()


async def test_each_session_is_ended_by_one_of_those_who_look(
    logs: list[RedisLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "CHUNK", 7)
    refs = {(await LogStage.created(logs[0], f"model-{n % 3}")).ref for n in range(40)}
    ended: list[SessionRef] = []

    async def look() -> bool:
        for found in await asyncio.gather(*(log.expire_unclaimed(0.05) for log in logs)):
            ended.extend(found)
        return len(ended) >= len(refs)

    await eventually(look)
    assert len(ended) == len(refs)
    assert set(ended) == refs
    assert {head.state for head in await logs[0].sessions()} == {"closed"}


async def test_what_waits_for_less_than_that_is_left_alone(logs: list[RedisLog]) -> None:
    log = logs[0]
    attachment = await LogStage.created(log, "echo")
    await log.detach(attachment, b"left")
    assert await log.expire_unclaimed(30.0) == []
    assert (await log.head(attachment.ref.session_id)).state == "waiting"


async def test_the_time_in_which_the_store_was_away_does_not_count(
    own_valkey: StoreProcess, logs: list[RedisLog]
) -> None:
    log = logs[0]
    attachment = await LogStage.created(log, "echo")
    with redis.Redis.from_url(own_valkey.url) as raw:
        # As after an outage of a minute: nobody could renew, nobody could claim.
        long_ago_ms = int(raw.time()[0]) * 1000 - 60_000
        session = SessionKeys.of(attachment.ref)
        raw.hset(session.head, "attached_until", long_ago_ms)
        raw.zadd(session.ready("echo"), {session.member: long_ago_ms})
    assert await log.expire_unclaimed(30.0) == []
    assert await log.renew([attachment], []) == []


async def test_an_empty_store_has_nothing_to_end(logs: list[RedisLog]) -> None:
    assert await logs[0].expire_unclaimed(0.0) == []
