"""What only the Redis log has: connections, lost notifications, lost scripts, the servers it refuses."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from duplex_es.log import keys
from duplex_es.log.api import (
    START,
    Attachment,
    AttachmentRaised,
    Claim,
    Ended,
    Entry,
    EntryId,
    Opened,
    Record,
    WorkerCard,
)
from duplex_es.log.errors import ConfigurationError, Fenced, LogUnavailable, PositionGone, SessionUnknown
from duplex_es.log.keys import SessionKeys
from duplex_es.log.memory import MemoryLog
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_programs import run_program
from duplex_es.testing.log_stage import LogStage, eventually, ids, take
from tests.support.processes import StoreProcess, free_port, start_store

pytestmark = pytest.mark.redis


@pytest.fixture
async def log(own_valkey: StoreProcess) -> AsyncIterator[RedisLog]:
    log = RedisLog.from_url(own_valkey.url, LogSettings(sweep_interval_s=0.05))
    await log.connect()
    yield log
    await log.close_connections()


@pytest.fixture
def raw(own_valkey: StoreProcess) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_valkey.url) as client:
        yield client


async def test_a_process_with_many_sessions_holds_four_connections(log: RedisLog, raw: redis.Redis) -> None:  # E25
    async def session(stack: list[object]) -> None:
        attachment = await LogStage.created(log, "echo")
        follower = log.follow_output(attachment.ref)
        (await follower.__aenter__()).start(START)
        stack.append(follower)
        await log.append_input(attachment, 1, [Record(b"a")])

    held: list[object] = []
    await asyncio.gather(*(session(held) for _ in range(2000)))
    await log.head(keys.parse_member(raw.zrange(keys.sessions(0), 0, 0)[0].decode()).session_id)
    clients = [client["name"] for client in raw.client_list() if client["name"].startswith("duplex-es-")]
    assert sorted(clients) in (
        ["duplex-es-append", "duplex-es-call", "duplex-es-subscribe"],
        ["duplex-es-append", "duplex-es-call", "duplex-es-read", "duplex-es-subscribe"],
    )


async def test_renewing_catches_a_lost_notification(log: RedisLog, raw: redis.Redis) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    session = SessionKeys.of(attachment.ref)
    async with log.follow_output(attachment.ref) as output, log.follow_input(attachment.ref) as said:
        output.start(START)
        said.start(START)
        assert ids(await take(said, 1)) == ["1-0"]
        assert await anext(output) == AttachmentRaised(1)
        waiting = [asyncio.create_task(take(output, 1)), asyncio.create_task(take(said, 1))]
        await asyncio.sleep(0.05)
        raw.xadd(session.output.records, {"m": b"o"}, id="1-1")
        raw.xadd(session.input.records, {"m": b"i"}, id="1-1")
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in waiting)
        assert await log.renew([attachment], [claim]) == []
        assert [[entry.body for entry in found] for found in await asyncio.gather(*waiting)] == [[b"o"], [b"i"]]


async def test_renewing_catches_lost_notices(log: RedisLog, raw: redis.Redis) -> None:
    attachment, _ = await LogStage.claimed(log, "echo")
    session = SessionKeys.of(attachment.ref)
    async with log.follow_output(attachment.ref) as follower:
        follower.start(START)
        assert await anext(follower) == AttachmentRaised(1)
        raw.hset(session.head, mapping={"opening": b"answer", "generation": 2})
        assert await log.renew([attachment], []) == [attachment]
        assert await asyncio.wait_for(anext(follower), 30) == Opened(b"answer")
        assert await asyncio.wait_for(anext(follower), 30) == AttachmentRaised(2)
        raw.flushall()
        await log.renew([attachment], [])
        assert await asyncio.wait_for(anext(follower), 30) == Ended("gone")


async def test_renewing_a_quiet_session_reads_nothing(log: RedisLog, raw: redis.Redis) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    async with log.follow_output(attachment.ref) as follower:
        follower.start(START)
        await log.append_output(claim, 1, [Record(b"1")])
        assert ids(await take(follower, 1)) == ["1-1"]
        waiting = asyncio.create_task(take(follower, 1))
        raw.config_resetstat()
        for _ in range(5):
            await log.renew([attachment], [claim])
        assert "cmdstat_xrange" not in raw.info("commandstats")
        await log.append_output(claim, 2, [Record(b"2")])
        assert ids(await waiting) == ["1-2"]
        assert "cmdstat_xrange" not in raw.info("commandstats")


async def test_leases_of_a_partition_are_renewed_in_one_call(log: RedisLog, raw: redis.Redis) -> None:
    names = [f"s{n}" for n in range(40_000) if keys.partition_of(f"s{n}") == 7][:20]
    attachments = [await LogStage.created(log, "echo", name) for name in names]
    raw.config_resetstat()
    assert await log.renew(attachments, []) == []
    assert raw.info("commandstats")["cmdstat_fcall"]["calls"] == 1


async def test_an_expired_claim_is_found_without_an_announcement(own_valkey: StoreProcess) -> None:
    settings = LogSettings(lease_s=0.3, sweep_interval_s=0.1)
    dead, alive = RedisLog.from_url(own_valkey.url, settings), RedisLog.from_url(own_valkey.url, settings)
    attachment, _ = await LogStage.claimed(dead, "echo")
    await dead.close_connections()
    claim, head = await LogStage.must_claim(alive, "worker-2", "echo")
    assert (claim.ref, claim.fence, head.worker) == (attachment.ref, 2, "worker-2")
    await alive.close_connections()


async def test_a_worker_that_slept_through_its_lease_is_fenced_in_both_ways(own_valkey: StoreProcess) -> None:
    settings = LogSettings(lease_s=0.3, sweep_interval_s=0.1)
    log, other = RedisLog.from_url(own_valkey.url, settings), RedisLog.from_url(own_valkey.url, settings)
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_output(claim, 1, [Record(b"1")])
    await log.append_input(attachment, 1, [Record(b"a")])
    successor, head = await LogStage.must_claim(other, "worker-2", "echo")
    second = await LogStage.attached(other, attachment.ref, b"token-1", b"token-2")
    for late in (log.append_output(claim, 2, [Record(b"x")]), log.append_input(attachment, 2, [Record(b"x")])):
        with pytest.raises(Fenced):
            await late
    with pytest.raises(Fenced):
        await log.close(claim, "late")
    assert set(await log.renew([attachment], [claim])) == {attachment, claim}
    await other.append_output(successor, head.output.number + 1, [Record(b"2")])
    await other.append_input(second, 1, [Record(b"b")])
    assert [entry.body for entry in await other.read_output(attachment.ref, 0)] == [b"1", b"2"]
    await log.close_connections()
    await other.close_connections()


@pytest.mark.parametrize("loss", [("FUNCTION", "FLUSH"), ("SCRIPT", "FLUSH"), ("FLUSHALL",)])
async def test_lost_scripts_are_loaded_again(log: RedisLog, raw: redis.Redis, loss: tuple[str, ...]) -> None:
    await LogStage.created(log, "echo")
    raw.execute_command(*loss)
    attachment = await LogStage.created(log, "echo")
    assert (await log.head(attachment.ref.session_id)).state == "waiting"


async def test_the_permissions_of_the_reference_page_are_enough(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "redis-keys.md").read_text()
    permissions = re.search(r"`(~dx:[^`]+)`", page)
    assert permissions is not None
    raw.execute_command("ACL", "SETUSER", "app", "on", ">secret", *permissions[1].split())
    url = own_valkey.url.replace("redis://", "redis://app:secret@")
    log = RedisLog.from_url(url, LogSettings(sweep_interval_s=0.05))
    await log.connect()
    await log.ping()
    await run_program(3, 100, log, MemoryLog(LogSettings()), secrets.token_hex(4))
    attachment, claim = await LogStage.claimed(log, "echo")
    async with log.follow_output(attachment.ref) as follower:
        follower.start(START)
        await log.append_output(claim, 1, [Record(b"1", b"pcm")])
        assert ids(await take(follower, 1)) == ["1-1"]
    await log.register(WorkerCard("w", {}, 1, 0))
    assert len(await log.fleet()) == 1
    assert raw.info("commandstats")["cmdstat_fcall"]["calls"] > 0
    # Scripts may ask which start of the server this is.
    run = raw.hget(SessionKeys.of(claim.ref).head, "run")
    assert run is not None and run.decode() == raw.info("server")["run_id"]
    raw.config_set("appendonly", "yes")
    await log.persisted(claim.ref)
    await log.close_connections()


async def test_where_functions_are_forbidden_scripts_are_evaluated(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    raw.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-function", "-fcall", "-config")
    url = own_valkey.url.replace("redis://", "redis://app:secret@")
    log = RedisLog.from_url(url, LogSettings(sweep_interval_s=0.05))
    await log.connect()
    await run_program(3, 100, log, MemoryLog(LogSettings()), secrets.token_hex(4))
    raw.execute_command("SCRIPT", "FLUSH")
    await run_program(4, 100, log, MemoryLog(LogSettings()), secrets.token_hex(4))
    assert "cmdstat_fcall" not in raw.info("commandstats")
    await log.close_connections()


async def test_a_closed_session_leaves_nothing_behind(own_valkey: StoreProcess, raw: redis.Redis) -> None:  # E19
    log = RedisLog.from_url(own_valkey.url, LogSettings(retention_s=0.2, sweep_interval_s=0.05))
    for _ in range(20):
        attachment, claim = await LogStage.claimed(log, "echo")
        await log.append_input(attachment, 1, [Record(b"a", b"pcm")])
        await log.append_output(claim, 1, [Record(b"1", b"pcm")])
        await log.checkpoint(claim, b"cp", opening=b"answer")
        await log.close(claim, "done")

    async def left() -> list[bytes]:
        return [key for key in raw.keys("dx:*") if not key.endswith(b":sessions")]

    await eventually(left, lambda found: not found)
    assert await log.sessions() == []
    # The list of a partition is swept by the next session there.
    for n in range(3000):
        if keys.partition_of(f"s{n}") == keys.partition_of(attachment.ref.session_id):
            await LogStage.created(log, "echo", f"s{n}")
            break
    assert raw.zcard(keys.sessions(keys.partition_of(attachment.ref.session_id))) == 1
    await log.close_connections()


async def test_ten_thousand_sessions_leave_as_many_keys_and_as_much_memory_as_before(
    own_valkey: StoreProcess, raw: redis.Redis
) -> None:
    """E19: nothing of them stays, and no stream has a group with a list of what is pending."""
    log = RedisLog.from_url(own_valkey.url, LogSettings(retention_s=0.2, sweep_interval_s=0.5))

    async def live() -> None:
        await LogStage.created(log, "echo")
        claim, _ = await LogStage.must_claim(log, "worker-1", "echo")
        await log.append_output(claim, 1, [Record(b"1", b"pcm")])
        await log.checkpoint(claim, b"cp", opening=b"answer")
        await log.close(claim, "done")

    async def live_and_be_forgotten(count: int) -> tuple[int, int]:
        async def some() -> None:
            for _ in range(count // 50):
                await live()

        await asyncio.gather(*(some() for _ in range(50)))

        async def left() -> list[bytes]:
            return [key for key in raw.scan_iter(count=1000) if not key.endswith(b":sessions")]

        await eventually(left, lambda found: not found)
        return raw.dbsize(), raw.info("memory")["used_memory"]

    keys_before, bytes_before = await live_and_be_forgotten(5_000)  # so many that every partition has had one
    keys_after, bytes_after = await live_and_be_forgotten(10_000)
    assert keys_after == keys_before == keys.PARTITIONS
    assert bytes_after < bytes_before + 256 * 1024
    attachment, _ = await LogStage.claimed(log, "echo")
    session = SessionKeys.of(attachment.ref)
    for stream in (session.input, session.output):
        assert raw.xinfo_groups(stream.records) == raw.xinfo_groups(stream.audio) == []
    await log.close_connections()


async def test_the_last_two_checkpoints_are_stored(log: RedisLog, raw: redis.Redis) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    for checkpoint in (b"1", b"2", b"3"):
        await log.checkpoint(claim, checkpoint)
    assert raw.hgetall(SessionKeys.of(attachment.ref).snap) == {b"current": b"3", b"previous": b"2"}


async def test_a_session_that_goes_on_and_on_does_not_grow(log: RedisLog, raw: redis.Redis) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    session = SessionKeys.of(attachment.ref)
    seq, index, sizes = 0, 0, []
    for turn in range(120):
        await log.append_input(attachment, index + 1, [Record(b"said", b"pcm") for _ in range(3)])
        await log.append_output(claim, seq + 1, [Record(b"heard", b"pcm") for _ in range(4)])
        seq, index = seq + 4, index + 3
        await log.acknowledge(attachment, seq)
        await log.checkpoint(claim, b"c" * 100)
        await log.snapshot(claim, seq, b"s" * 1000)
        if turn % 5 == 4:
            await log.trim_audio(claim, input_before=EntryId(1, index - 4), output_before=seq - 6)
            await log.trim_history(claim, input_before=EntryId(1, index - 4), output_before=seq - 6)
            streams = [key for one in (session.input, session.output) for key in (one.records, one.audio)]
            every = [session.head, session.snap, *streams]
            sizes.append(sum(int(raw.memory_usage(key) or 0) for key in every))
        await log.release(claim)
        claim, _ = await LogStage.must_claim(log, "worker-2", "echo")
    assert max(sizes[12:]) <= max(sizes[:12]) * 1.2  # streams allocate in blocks
    assert len(raw.hget(session.head, "claims")) < 100


async def test_an_older_life_that_was_trimmed_says_so(log: RedisLog) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_input(attachment, 1, [Record(b"a")])
    await log.append_output(claim, 1, [Record(b"1"), Record(b"2")])
    await log.trim_history(claim, input_before=EntryId(1, 1), output_before=3)
    await log.close(claim, "done")
    await LogStage.created(log, "echo", attachment.ref.session_id)
    with pytest.raises(PositionGone) as gone:
        await log.read_output(attachment.ref, 0)
    assert gone.value.first_available == 3
    with pytest.raises(PositionGone):
        await log.read_input(attachment.ref, START)
    assert await log.read_output(attachment.ref, 2) == []


async def test_a_head_carries_no_snapshot(log: RedisLog) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.snapshot(claim, 1, b"snapshot" * 1000)
    session = SessionKeys.of(attachment.ref)
    assert b"snapshot" not in repr(await log._call("head", session)).encode()


async def test_secrets_stay_out_of_the_streams(log: RedisLog, raw: redis.Redis) -> None:
    attachment, _ = await LogStage.claimed(log, "echo")
    await LogStage.attached(log, attachment.ref, b"token-1", b"token-2")
    session = SessionKeys.of(attachment.ref)
    stored = repr([raw.xrange(session.input.records), raw.xrange(session.output.records)])
    assert "token-" not in stored


async def test_a_store_that_would_drop_sessions_is_refused() -> None:
    store = start_store("valkey", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
    try:
        log = RedisLog.from_url(store.url)
        with pytest.raises(ConfigurationError, match="noeviction"):
            await log.connect()
        await log.close_connections()
    finally:
        store.stop()


async def test_wrong_credentials_are_told_at_once(own_valkey: StoreProcess) -> None:
    log = RedisLog.from_url(own_valkey.url.replace("redis://", "redis://nobody:wrong@"))
    for attempt in (log.connect(), log.ping()):
        with pytest.raises(ConfigurationError):
            await asyncio.wait_for(attempt, 30)
    await log.close_connections()


async def test_a_store_that_is_away_is_unavailable_to_everything() -> None:
    settings = LogSettings(append_timeout_s=0.3, connect_timeout_s=0.2)
    log = RedisLog.from_url(f"redis://127.0.0.1:{free_port()}/0", settings)
    ref = keys.parse_member("s:0")
    for attempt in (
        log.connect(),
        log.ping(),
        log.head("s"),
        log.next_incarnation("s"),
        log.append_output(Claim(ref, 1, "w", "m"), 1, [Record(b"")]),
        log.append_input(Attachment(ref, 1, "g"), 1, [Record(b"")]),
        log.read_output(ref, 0),
        log.read_input(ref, START),
        log.claim("w", ["m"]),
        log.fleet(),
        log.follow_output(ref).__aenter__(),
    ):
        with pytest.raises(LogUnavailable):
            await asyncio.wait_for(attempt, 30)
    await log.close_connections()


async def test_a_full_store_still_ends_sessions_and_frees_audio(log: RedisLog, raw: redis.Redis) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_output(claim, 1, [Record(b"1", b"pcm" * 1000)])
    raw.config_set("maxmemory", 1)
    await log.trim_audio(claim, input_before=START, output_before=2)
    assert raw.xlen(SessionKeys.of(claim.ref).output.audio) == 0
    assert await log.renew([attachment], [claim]) == []
    await log.acknowledge(attachment, 1)
    assert (await log.head(claim.ref.session_id)).acknowledged_seq == 1
    await log.detach(attachment, b"left")
    await log.close(claim, "full")
    assert (await log.head(claim.ref.session_id)).state == "closed"
    raw.config_set("maxmemory", 0)


async def test_the_history_of_an_older_life_can_be_followed(log: RedisLog) -> None:
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_output(claim, 1, [Record(b"1"), Record(b"2", b"pcm")])
    await log.close(claim, "done")
    await LogStage.created(log, "echo", attachment.ref.session_id)
    async with log.follow_output(attachment.ref) as follower:
        follower.start(EntryId(0, 1))
        found = [item async for item in follower]
    assert found[0] == Entry(EntryId(1, 2), b"2", b"pcm")
    assert isinstance(found[1], Ended)
    with pytest.raises(SessionUnknown):
        await log.append_output(claim, 3, [Record(b"late")])
