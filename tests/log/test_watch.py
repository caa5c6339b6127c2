"""A worker that dies is missed within two seconds; one that only reconnects is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from duplex_es.log import keys
from duplex_es.log.api import Claim, Record, WorkerCard
from duplex_es.log.errors import Fenced
from duplex_es.log.keys import SessionKeys
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.log.watch import MISSES, WorkerWatch
from duplex_es.testing.log_stage import LogStage
from tests.support.processes import StoreProcess

pytestmark = pytest.mark.redis

SOON_S = 8.0
"""Before the lease of ten seconds runs out. Without a busy machine it is within two."""
SETTINGS = LogSettings(watch_interval_s=0.2)


def card(worker: str) -> WorkerCard:
    return WorkerCard(worker, {"echo": b"card"}, 4, 0)


@pytest.fixture
def raw(own_valkey: StoreProcess) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_valkey.url) as client:
        yield client


@pytest.fixture
async def logs(own_valkey: StoreProcess) -> AsyncIterator[tuple[RedisLog, RedisLog]]:
    """The logs of two workers' processes, ``w1`` and ``w2``, both registered."""
    both = RedisLog.from_url(own_valkey.url, SETTINGS), RedisLog.from_url(own_valkey.url, SETTINGS)
    for number, log in enumerate(both, 1):
        await log.connect()
        await log.register(card(f"w{number}"))
    yield both
    for log in both:
        await log.close_connections()


async def claimed(log: RedisLog) -> Claim:
    """A session that ``w1`` holds."""
    stage = await LogStage.claimed(log, "echo")
    return stage[1]


async def claimed_by_w2(log: RedisLog, *, within_s: float) -> Claim | None:
    """The next claim that ``w2`` gets, if it gets one in time."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        if (found := await log.claim("w2", ["echo"])) is not None:
            return found[0]
        await log.wait_for_ready(0.1)
    return None


async def named(log: RedisLog, raw: redis.Redis, worker: str) -> Claim:
    """A claim in the name of ``worker``, whatever the stage called it."""
    claim = await claimed(log)
    raw.hset(SessionKeys.of(claim.ref).head, "worker", worker)
    return claim


async def test_the_sessions_of_a_dead_worker_wait_at_once(logs: tuple[RedisLog, RedisLog], raw: redis.Redis) -> None:
    first, second = logs
    claim = await named(first, raw, "w1")
    await first.append_output(claim, 1, [Record(b"1")])
    await first.close_connections()  # no goodbye: as a killed process leaves the store
    taken = await claimed_by_w2(second, within_s=SOON_S)
    assert taken is not None, "the lease holds for ten seconds; nobody looked"
    assert (taken.ref, taken.fence) == (claim.ref, claim.fence + 1)
    assert [one.worker for one in await second.fleet()] == ["w2"]
    with pytest.raises(Fenced):
        await first.append_output(claim, 2, [Record(b"2")])


async def test_a_worker_that_only_reconnects_keeps_its_sessions(
    logs: tuple[RedisLog, RedisLog], raw: redis.Redis
) -> None:
    first, second = logs
    claim = await named(first, raw, "w1")
    for _ in range(4):
        raw.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        assert await claimed_by_w2(second, within_s=0.4) is None
    await first.append_output(claim, 1, [Record(b"1")])


async def test_a_worker_that_stands_on_no_channel_is_left_to_its_leases(
    logs: tuple[RedisLog, RedisLog], raw: redis.Redis
) -> None:
    """Its silence says nothing."""
    first, second = logs
    await named(first, raw, "old")
    raw.sadd(keys.WORKERS, "old")
    raw.set(keys.card("old"), raw.get(keys.card("w1")))
    assert await claimed_by_w2(second, within_s=6 * SETTINGS.watch_interval_s) is None


async def test_a_worker_that_says_goodbye_is_not_buried(logs: tuple[RedisLog, RedisLog], raw: redis.Redis) -> None:
    first, second = logs
    claim = await named(first, raw, "w1")
    await first.unregister("w1")
    assert await claimed_by_w2(second, within_s=6 * SETTINGS.watch_interval_s) is None
    await first.release(claim)
    assert await claimed_by_w2(second, within_s=SOON_S) is not None


async def test_sessions_of_others_are_not_touched(logs: tuple[RedisLog, RedisLog], raw: redis.Redis) -> None:
    first, second = logs
    await named(first, raw, "w3")
    await first.close_connections()
    assert await claimed_by_w2(second, within_s=2.5) is None


async def test_a_worker_stands_once_however_often_it_registers(
    logs: tuple[RedisLog, RedisLog], raw: redis.Redis
) -> None:
    first, _ = logs
    await asyncio.gather(*(first.register(card("w3")) for _ in range(5)))
    channel = keys.alive_channel("w3")
    assert raw.pubsub_numsub(channel) == [(channel.encode(), 1)]
    await first.unregister("w3")
    async with asyncio.timeout(SOON_S):
        while raw.pubsub_numsub(channel) != [(channel.encode(), 0)]:
            await asyncio.sleep(0.01)
    assert not raw.sismember(keys.WATCHED, "w3")


class Strangers:
    """Nodes that list two workers and say of none that anybody listens to it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.here: set[str] = set()

    async def calls(self, commands: list[tuple[str, ...]]) -> list[object]:
        self.asked += [" ".join(map(str, command[:2])) for command in commands]
        return [[b"w1", b"w2"] if command[0] == "SMEMBERS" else None for command in commands]

    async def listened_to(self, names: list[str]) -> set[str]:
        return self.here & set(names)

    async def subscribe(self, name: str, listener: object) -> None: ...


async def test_whoever_does_not_see_itself_calls_nobody_dead() -> None:
    """Subscriptions may all be on their way to another node."""
    nodes = Strangers()
    watch = WorkerWatch(nodes, LogSettings(watch_interval_s=60.0))  # type: ignore[arg-type]
    await watch.stand_for("w1")
    for _ in range(2 * MISSES):
        await watch.look()
    assert set(nodes.asked) == {f"SMEMBERS {keys.WATCHED}"}
    nodes.here = {keys.alive_channel("w1")}
    for _ in range(MISSES):
        await watch.look()
    assert f"SET {keys.burial('w2')}" in nodes.asked
    await watch.close()
