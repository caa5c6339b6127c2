"""What is said to be safe is safe, and nobody who writes waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
import redis

from duplex_es.log.api import START, Record
from duplex_es.log.durability import Witnesses, fields_of, witnesses
from duplex_es.log.errors import ConfigurationError, LogUnavailable, SessionUnknown
from duplex_es.log.keys import SessionKeys
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_stage import LogStage, eventually, take
from tests.support.processes import StoreProcess, start_store

pytestmark = pytest.mark.redis

HASTY = LogSettings(append_timeout_s=3.0, socket_timeout_s=0.5, sweep_interval_s=0.05)


def info(**fields: str) -> dict[str, str]:
    return {"redis_version": "7.2.4", "aof_enabled": "0", "connected_slaves": "0", **fields}


@pytest.mark.parametrize(
    ("found", "replicas", "expected"),
    [
        (info(), 0, None),
        (info(aof_enabled="1"), 0, Witnesses(True, 0)),
        (info(aof_enabled="1"), 2, Witnesses(True, 2)),
        (info(connected_slaves="2"), 0, Witnesses(False, 1)),
        (info(connected_slaves="2"), 2, Witnesses(False, 2)),
        (info(), 1, Witnesses(False, 1)),
        (info(aof_enabled="1", redis_version="7.0.15"), 0, None),
        (info(aof_enabled="1", redis_version="7.0.15", connected_slaves="1"), 0, Witnesses(False, 1)),
    ],
)
def test_who_vouches_for_a_store(found: dict[str, str], replicas: int, expected: Witnesses | None) -> None:
    assert witnesses(found, LogSettings(replicas=replicas)) == expected


def test_info_is_read_by_name() -> None:
    assert fields_of(b"# Server\r\nredis_version:7.2.4\r\nurl:a:b\r\n") == {"redis_version": "7.2.4", "url": "a:b"}


@pytest.fixture
def on_disk() -> Iterator[StoreProcess]:
    store = start_store("valkey", "--appendonly", "yes", "--appendfsync", "everysec")
    yield store
    store.stop()


@pytest.fixture
async def log(on_disk: StoreProcess) -> AsyncIterator[RedisLog]:
    log = RedisLog.from_url(on_disk.url, LogSettings(sweep_interval_s=0.05, durability="strict"))
    await log.connect()
    yield log
    await log.close_connections()


async def test_what_was_vouched_for_survives_the_store(on_disk: StoreProcess, log: RedisLog) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_output(claim, 1, [Record(b"%d" % n, b"pcm") for n in range(1, 51)])
    await asyncio.wait_for(log.persisted(attachment.ref), 30)
    on_disk.kill()
    on_disk.start()
    assert len(await log.read_output(attachment.ref, 0)) == 50


async def test_the_file_was_synced_before_it_is_said(on_disk: StoreProcess, log: RedisLog) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    with redis.Redis.from_url(on_disk.url) as raw:
        raw.config_set("appendfsync", "no")  # from now on nothing is synced, so nothing may be vouched for
        await log.append_output(claim, 1, [Record(b"1")])
        asking = asyncio.create_task(log.persisted(attachment.ref))
        done, _ = await asyncio.wait([asking], timeout=2.5)
        assert not done
        raw.config_set("appendfsync", "everysec")
        await asyncio.wait_for(asking, 30)


async def test_a_store_that_is_reconfigured_is_asked_differently(on_disk: StoreProcess, log: RedisLog) -> None:
    attachment, _ = await LogStage.claimed(log, "echo")
    await log.persisted(attachment.ref)
    with redis.Redis.from_url(on_disk.url) as raw:
        raw.config_set("appendonly", "no")
        with pytest.raises(ConfigurationError):
            await asyncio.wait_for(log.persisted(attachment.ref), 30)


async def test_callers_share_one_question(log: RedisLog) -> None:
    pairs = [await LogStage.claimed(log, "echo") for _ in range(20)]
    await asyncio.gather(*(log.append_output(claim, 1, [Record(b"1")]) for _, claim in pairs))
    asked = log.nodes.node.durability  # type: ignore[attr-defined]
    await asyncio.gather(*(log.persisted(claim.ref) for _, claim in pairs for _ in range(3)))
    assert 1 <= asked.asked <= 3


async def test_a_caller_that_gives_up_takes_nobody_along(log: RedisLog) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_output(claim, 1, [Record(b"1")])
    asking = [asyncio.create_task(log.persisted(attachment.ref)) for _ in range(4)]
    await asyncio.sleep(0)
    asking[0].cancel()
    asking[2].cancel()
    answers = await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), 30)
    assert [type(answer) for answer in answers] == [asyncio.CancelledError, type(None)] * 2


async def test_no_append_waits_for_the_disk(on_disk: StoreProcess, log: RedisLog) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    with redis.Redis.from_url(on_disk.url) as raw:
        raw.config_set("appendfsync", "no")
    asking = asyncio.create_task(log.persisted(attachment.ref))
    seq = 0
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        seq += 1
        await log.append_output(claim, seq, [Record(b"%d" % seq)])
    assert not asking.done()
    assert seq > 20  # one question holds its connection for a second
    asking.cancel()


async def test_the_fifth_connection_is_made_by_the_first_question(on_disk: StoreProcess, log: RedisLog) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_output(claim, 1, [Record(b"1")])
    with redis.Redis.from_url(on_disk.url) as raw:

        def names() -> list[str]:
            return [client["name"] for client in raw.client_list() if client["name"].startswith("duplex-es-")]

        assert "duplex-es-vouch" not in names()
        await log.persisted(attachment.ref)
        assert names().count("duplex-es-vouch") == 1


async def test_a_session_that_is_gone_is_not_vouched_for(on_disk: StoreProcess, log: RedisLog) -> None:
    attachment, _ = await LogStage.claimed(log, "echo")
    with redis.Redis.from_url(on_disk.url) as raw:
        raw.flushall()
    with pytest.raises(SessionUnknown):
        await asyncio.wait_for(log.persisted(attachment.ref), 30)


async def test_a_store_without_a_memory_of_its_own_is_refused_where_it_matters(
    own_valkey: StoreProcess, caplog: pytest.LogCaptureFixture
) -> None:
    strict = RedisLog.from_url(own_valkey.url, LogSettings(durability="strict"))
    with pytest.raises(ConfigurationError, match="appendonly"):
        await strict.connect()
    await strict.close_connections()
    with caplog.at_level(logging.WARNING):
        standard = RedisLog.from_url(own_valkey.url, LogSettings(sweep_interval_s=0.05))
        await standard.connect()
    assert "vouched" in caplog.text
    attachment, _ = await LogStage.claimed(standard, "echo")
    with pytest.raises(ConfigurationError):
        await asyncio.wait_for(standard.persisted(attachment.ref), 30)
    await standard.close_connections()
    caplog.clear()
    careless = RedisLog.from_url(own_valkey.url, LogSettings(durability="memory"))
    await careless.connect()
    await asyncio.wait_for(careless.persisted(attachment.ref), 30)
    assert not caplog.text
    await careless.close_connections()


@pytest.fixture(params=["valkey", "redis"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[StoreProcess, StoreProcess]]:
    """A primary and its replica, neither with a disk; Redis 7.0 has WAIT only."""
    primary = start_store(request.param, "--repl-diskless-sync-delay", "0")
    replica = start_store(request.param, "--replicaof", "127.0.0.1", str(primary.port))
    yield primary, replica
    for store in (replica, primary):
        store.stop()


async def connected(primary: StoreProcess) -> None:
    with redis.Redis.from_url(primary.url) as raw:

        async def replicas() -> list[str]:
            found = raw.info("replication")
            return [found[f"slave{n}"]["state"] for n in range(found["connected_slaves"])]

        await eventually(replicas, lambda states: states == ["online"])


async def test_a_replica_has_it_before_it_is_said(pair: tuple[StoreProcess, StoreProcess]) -> None:
    primary, replica = pair
    await connected(primary)
    log = RedisLog.from_url(primary.url, replace(HASTY, durability="strict", replicas=1))
    await log.connect()
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_output(claim, 1, [Record(b"1")])
    await log.persisted(attachment.ref)
    with redis.Redis.from_url(replica.url) as raw:
        assert raw.xlen(SessionKeys.of(claim.ref).output.records) == 2
        replica.freeze()
        await log.append_output(claim, 2, [Record(b"2")])
        with pytest.raises(LogUnavailable):
            await log.persisted(attachment.ref)
        replica.thaw()
        await log.persisted(attachment.ref)
        assert raw.xlen(SessionKeys.of(claim.ref).output.records) == 3
    await log.close_connections()


async def test_a_store_that_came_back_without_it_is_not_believed(own_valkey: StoreProcess) -> None:
    """What it has it may well keep: what was read from it before it does not have any more."""
    reader = RedisLog.from_url(own_valkey.url, HASTY)
    writer = RedisLog.from_url(own_valkey.url, replace(HASTY, heal_window_s=60.0))
    attachment, claim = await LogStage.claimed(writer, "echo")
    await writer.append_output(claim, 1, [Record(b"%d" % n) for n in range(1, 6)])
    with redis.Redis.from_url(own_valkey.url) as raw:
        raw.save()
        await writer.append_output(claim, 6, [Record(b"%d" % n) for n in range(6, 9)])
        async with reader.follow_output(attachment.ref) as follower:
            follower.start(START)
            assert len(await take(follower, 8)) == 8
            await writer.close_connections()  # else it would notice the restart, and write them again at once
            own_valkey.kill()
            own_valkey.start()
            raw.config_set("appendonly", "yes")
            for one in (reader, writer):
                with pytest.raises(LogUnavailable):
                    await one.persisted(attachment.ref)
            await writer.append_output(claim, 9, [Record(b"9")])  # writes 6 to 8 again, too
            await reader.persisted(attachment.ref)
            await writer.persisted(attachment.ref)
    await reader.close_connections()
    await writer.close_connections()
