"""Long calls and many calls on a real store: what it holds stays within bounds, and what is over leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from duplex_es.log.keys import SessionKeys
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.protocol import ClearInput, CloseSession
from tests.support.calls import Caller, serving, until
from tests.support.long_call import LongCall, is_whole
from tests.support.processes import StoreProcess
from tests.workers.test_actor import scripted
from workers.retention import MIB, Limits

pytestmark = [pytest.mark.redis, pytest.mark.timeout(600)]

KIB = 1024


@pytest.fixture
async def log(own_valkey: StoreProcess) -> AsyncIterator[RedisLog]:
    log = RedisLog.from_url(own_valkey.url, LogSettings(sweep_interval_s=0.05, retention_s=0.5, lease_s=60))
    await log.connect()
    yield log
    await log.close_connections()


@pytest.fixture
def raw(own_valkey: StoreProcess) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_valkey.url) as client:
        yield client


async def test_an_hour_of_talk_stays_within_its_bounds_in_the_store_itself(log: RedisLog, raw: redis.Redis) -> None:
    limits = Limits(audio_bytes=4 * MIB, history_bytes=512 * KIB)
    call = await LongCall.open(log, limits, ref_audio="data:audio/wav;base64,AAAA")
    keys = SessionKeys.of(call.caller.ref)
    sound = (keys.input.audio, keys.output.audio)
    rest = (keys.input.records, keys.output.records, keys.snap, keys.head)

    def used(names: tuple[str, ...]) -> int:
        return sum(raw.memory_usage(name, samples=0) or 0 for name in names)

    most_sound = most_rest = 0
    for second in range(1, 3_601):
        await call.second()
        if second % 30 == 0:
            await call.turn()
            most_sound, most_rest = max(most_sound, used(sound)), max(most_rest, used(rest))
        if second % 300 == 0:
            young = await call.frames_since(call.clock.now_ms - 59_000)
            shown = await call.resume(young[0] - 1)
            assert [entry.id.number for entry in shown] == list(range(young[0], shown[-1].id.number + 1))
            assert all(is_whole(entry) for entry in shown)
        if second == 1_800:
            live = call.actor.session
            await call.kill()
            await call.serve("w2")
            await until(lambda: call.actor.session.state == "open" and call.actor.session.is_at_rest)
            assert [item.id for item in call.actor.session.items] == [item.id for item in live.items]
            assert call.actor._performer.ref_audio == "data:audio/wav;base64,AAAA"
    answer_bytes = 8 * 48_000
    assert most_sound < limits.audio_bytes + answer_bytes + 256 * KIB
    assert most_rest < limits.history_bytes + 256 * KIB
    assert (await log.head("call")).first_seq > 1
    await call.end()


async def test_what_is_over_leaves_no_key_and_no_memory(log: RedisLog, raw: redis.Redis) -> None:
    """E19: as many keys after hundreds of sessions as before, and no list of pending entries anywhere."""

    async def one(number: int) -> None:
        caller = await Caller.open(log, "scripted", f"call-{number}")
        await caller.append(b"\0\0" * 1_600)
        await caller.say(ClearInput(), CloseSession())
        await caller.ends("session_close")

    async with serving(log, scripted(), slots=16) as host:
        await until(lambda: host.ready)
        await one(0)
        await until(lambda: host.used == 0)
        await gone(raw, "*call-*")
        before = set(raw.scan_iter())
        used = raw.info("memory")["used_memory"]
        for batch in range(20):
            await asyncio.gather(*(one(1 + batch * 16 + number) for number in range(16)))
        await until(lambda: host.used == 0)
        await gone(raw, "*call-*")
        assert await log.sessions() == []
        # A partition's index lets go of what has expired when the next session is made in it.
        left = [name for name in set(raw.scan_iter()) - before if not name.endswith(b":sessions")]
        assert left == []
        assert raw.info("memory")["used_memory"] < used + 2 * MIB
    assert not any(raw.xinfo_groups(name) for name in raw.scan_iter(_type="stream"))


async def gone(raw: redis.Redis, pattern: str) -> None:
    """Return once no key matches. Raises: TimeoutError."""
    async with asyncio.timeout(30):
        while next(raw.scan_iter(match=pattern), None) is not None:
            await asyncio.sleep(0.05)
