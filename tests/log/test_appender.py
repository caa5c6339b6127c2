"""Appends land once, in order, whatever happens to the connection or the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
import redis

from duplex_es.log.api import Attachment, Claim, EntryId, Record
from duplex_es.log.connections import Command, Reply
from duplex_es.log.errors import Fenced, LogError, LogUnavailable, SessionUnknown, TailLost
from duplex_es.log.keys import SessionKeys
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_stage import LogStage, eventually, take
from tests.support.processes import StoreProcess, start_store
from tests.support.tcp_proxy import proxy_to

pytestmark = pytest.mark.redis


@pytest.fixture
async def log(own_valkey: StoreProcess) -> AsyncIterator[RedisLog]:
    log = RedisLog.from_url(own_valkey.url)
    await log.connect()
    yield log
    await log.close_connections()


@pytest.fixture
def raw(own_valkey: StoreProcess) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_valkey.url) as client:
        yield client


def stored(raw: redis.Redis, claim: Claim) -> list[str]:
    """The ids of the output, without the records of claims."""
    entries = raw.xrange(SessionKeys.of(claim.ref).output.records)
    return [entry_id.decode() for entry_id, _ in entries if not entry_id.endswith(b"-0")]


async def sessions(log: RedisLog, count: int) -> list[tuple[Attachment, Claim]]:
    return [await LogStage.claimed(log, "echo") for _ in range(count)]


async def test_what_is_ready_in_one_turn_shares_one_pipeline(log: RedisLog, raw: redis.Redis) -> None:
    claims = [claim for _, claim in await sessions(log, 50)]
    await log.append_output(claims[0], 1, [Record(b"warm")])
    before = log.nodes.node.appender.pipelines
    calls = raw.info("commandstats")
    await asyncio.gather(
        *(log.append_output(c, n, [Record(b"x", b"pcm")]) for n in range(2, 6) for c in claims[:1]),
        *(log.append_output(c, n, [Record(b"x", b"pcm")]) for n in range(1, 5) for c in claims[1:]),
    )
    assert log.nodes.node.appender.pipelines - before <= 2
    after = raw.info("commandstats")
    assert after["cmdstat_xadd"]["calls"] - calls["cmdstat_xadd"]["calls"] == 400
    assert after["cmdstat_exec"]["calls"] - calls.get("cmdstat_exec", {}).get("calls", 0) <= 2
    for claim in claims[1:]:
        assert stored(raw, claim) == ["1-1", "1-2", "1-3", "1-4"]


async def test_no_script_runs_on_the_hot_path(log: RedisLog, raw: redis.Redis) -> None:
    ((attachment, claim),) = await sessions(log, 1)
    await log.append_output(claim, 1, [Record(b"x")])
    await log.append_input(attachment, 1, [Record(b"x")])
    raw.config_resetstat()
    for number in range(2, 30):
        await log.append_output(claim, number, [Record(b"x", b"pcm")])
        await log.append_input(attachment, number, [Record(b"x", b"pcm")])
    assert set(raw.info("commandstats")) <= {
        *("cmdstat_multi", "cmdstat_exec", "cmdstat_xadd", "cmdstat_publish", "cmdstat_config|resetstat"),
        *("cmdstat_info", "cmdstat_ping"),
    }


async def test_a_large_backlog_is_sent_in_bounded_pipelines(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    log = RedisLog.from_url(own_valkey.url, LogSettings(batch_bytes=50_000))
    ((_, claim),) = await sessions(log, 1)
    await log.append_output(claim, 1, [Record(b"x" * 1000) for _ in range(1200)])
    assert log.nodes.node.appender.pipelines >= 24
    assert len(stored(raw, claim)) == 1200
    await log.append_output(claim, 1201, [Record(b"x" * 200_000)])
    assert len(stored(raw, claim)) == 1201
    await log.close_connections()


async def test_a_frozen_server_gets_one_entry_and_the_caller_its_success(
    own_valkey: StoreProcess, log: RedisLog, raw: redis.Redis
) -> None:  # E23
    ((_, claim),) = await sessions(log, 1)
    await log.append_output(claim, 1, [Record(b"1")])
    own_valkey.freeze()
    appends = [asyncio.create_task(log.append_output(claim, seq, [Record(b"%d" % seq)])) for seq in (2, 3)]
    await asyncio.sleep(3.0)
    appends.append(asyncio.create_task(log.append_output(claim, 4, [Record(b"4", b"pcm")])))
    await asyncio.sleep(3.0)
    assert not any(append.done() for append in appends)
    own_valkey.thaw()
    await asyncio.gather(*appends)
    assert stored(raw, claim) == ["1-1", "1-2", "1-3", "1-4"]
    await log.append_output(claim, 5, [Record(b"5")])
    assert stored(raw, claim) == ["1-1", "1-2", "1-3", "1-4", "1-5"]


async def test_what_a_cancelled_caller_has_handed_in_keeps_its_place_before_the_goodbye(
    log: RedisLog, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((attachment, _),) = await sessions(log, 1)
    await log.append_input(attachment, 1, [Record(b"1")])
    link, may_send = log.nodes.node.appender._link, asyncio.Event()
    exchange = link.exchange

    async def slow_exchange(commands: Sequence[Command]) -> list[Reply]:
        await may_send.wait()
        return await exchange(commands)

    monkeypatch.setattr(link, "exchange", slow_exchange)
    append = asyncio.create_task(log.append_input(attachment, 2, [Record(b"2"), Record(b"3")]))
    await asyncio.sleep(0.01)
    append.cancel()
    leave = asyncio.create_task(log.detach(attachment, b"left"))
    await asyncio.sleep(0.1)
    assert not leave.done()
    may_send.set()
    await leave
    entries = raw.xrange(SessionKeys.of(attachment.ref).input.records)
    assert [(entry_id, fields[b"m"]) for entry_id, fields in entries[1:]] == [
        *((b"1-1", b"1"), (b"1-2", b"2"), (b"1-3", b"3"), (b"1-4", b"left")),
    ]


async def test_a_server_that_stays_frozen_is_said_to_be_unavailable(own_valkey: StoreProcess) -> None:
    settings = LogSettings(append_timeout_s=1.0, socket_timeout_s=0.3, connect_timeout_s=0.3)
    log = RedisLog.from_url(own_valkey.url, settings)
    ((_, claim),) = await sessions(log, 1)
    await log.append_output(claim, 1, [Record(b"1")])
    own_valkey.freeze()
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        await log.append_output(claim, 2, [Record(b"2")])
    assert time.monotonic() - began < 20.0
    own_valkey.thaw()
    # Its outcome was unknown; said again, it is settled.
    await log.append_output(claim, 2, [Record(b"2")])
    await log.append_output(claim, 3, [Record(b"3")])
    assert [entry.body for entry in await log.read_output(claim.ref, 0)] == [b"1", b"2", b"3"]
    await log.close_connections()


async def test_lost_answers_are_settled_by_the_head(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    settings = LogSettings(socket_timeout_s=0.2, connect_timeout_s=0.2)
    async with proxy_to(own_valkey.port) as proxy:
        log = RedisLog.from_url(proxy.url, settings)
        ((attachment, claim),) = await sessions(log, 1)
        for seq in range(1, 13):
            # The write goes through, the answer does not come back.
            proxy.is_deaf = seq % 3 == 0
            appends = [
                asyncio.create_task(log.append_output(claim, seq, [Record(b"%d" % seq, b"pcm")])),
                asyncio.create_task(log.append_input(attachment, seq, [Record(b"%d" % seq)])),
            ]
            if proxy.is_deaf:
                await asyncio.sleep(0.25)
                proxy.is_deaf = False
            await asyncio.gather(*appends)
        assert stored(raw, claim) == [f"1-{seq}" for seq in range(1, 13)]
        assert raw.xlen(SessionKeys.of(claim.ref).output.audio) == 12
        assert raw.xlen(SessionKeys.of(claim.ref).input.records) == 13
        await log.close_connections()


async def test_killed_connections_lose_nothing(own_valkey: StoreProcess, log: RedisLog, raw: redis.Redis) -> None:
    pairs = await sessions(log, 10)
    writing, landed = True, asyncio.Event()

    async def kill() -> None:
        while writing:
            # Never faster than appends land: else a slow machine would only ever connect.
            await landed.wait()
            landed.clear()
            await asyncio.to_thread(raw.execute_command, "CLIENT", "KILL", "TYPE", "normal")
            await asyncio.sleep(0.02)

    async def write(claim: Claim) -> None:
        for seq in range(1, 101):
            await log.append_output(claim, seq, [Record(b"%d" % seq, b"pcm")])
            landed.set()

    killer = asyncio.create_task(kill())
    await asyncio.gather(*(write(claim) for _, claim in pairs))
    writing = False
    landed.set()
    await killer
    for _, claim in pairs:
        found = await log.read_output(claim.ref, 0)
        assert [(e.id.number, e.body, e.audio) for e in found] == [(n, b"%d" % n, b"pcm") for n in range(1, 101)]


async def test_a_restarted_server_goes_on_from_its_file() -> None:
    store = start_store("valkey", "--appendonly", "yes", "--appendfsync", "always")
    try:
        log = RedisLog.from_url(store.url)
        ((attachment, claim),) = await sessions(log, 1)
        await log.append_output(claim, 1, [Record(b"1", b"pcm")])
        async with log.follow_output(claim.ref) as follower:
            follower.start(head := (await log.head(claim.ref.session_id)).output)
            assert head.number == 1
            store.kill()
            append = asyncio.create_task(log.append_output(claim, 2, [Record(b"2")]))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(store.start)
            await append
            await log.append_input(attachment, 1, [Record(b"a")])
            assert [entry.body for entry in await take(follower, 1)] == [b"2"]
        assert [entry.body for entry in await log.read_output(claim.ref, 0)] == [b"1", b"2"]
        await log.close_connections()
    finally:
        store.stop()


async def test_an_emptied_server_is_not_filled_again(log: RedisLog, raw: redis.Redis) -> None:  # E15
    ((attachment, claim),) = await sessions(log, 1)
    await log.append_output(claim, 1, [Record(b"1")])
    await log.append_input(attachment, 1, [Record(b"a")])
    raw.flushall()
    for attempt in (log.append_output(claim, 2, [Record(b"2")]), log.append_input(attachment, 2, [Record(b"b")])):
        with pytest.raises(SessionUnknown):
            await attempt
    assert raw.dbsize() == 0


async def lose_two(log: RedisLog, raw: redis.Redis) -> tuple[Attachment, Claim]:
    """A session whose streams were given five records each; the store has three, as a promoted replica might."""
    ((attachment, claim),) = await sessions(log, 1)
    keys = SessionKeys.of(claim.ref)
    streams = (keys.output.records, keys.output.audio, keys.input.records)
    await log.append_output(claim, 1, [Record(b"%d" % seq, b"pcm %d" % seq) for seq in range(1, 4)])
    await log.append_input(attachment, 1, [Record(b"%d" % seq) for seq in range(1, 4)])
    replicated = [raw.dump(stream) for stream in streams]
    await log.append_output(claim, 4, [Record(b"4", b"pcm 4"), Record(b"5", b"pcm 5")])
    await log.append_input(attachment, 4, [Record(b"4"), Record(b"5")])
    for stream, known in zip(streams, replicated, strict=True):
        raw.restore(stream, 0, known, replace=True)
    raw.execute_command("CLIENT", "KILL", "TYPE", "normal")
    return attachment, claim


async def test_a_lost_tail_is_written_again_with_the_same_ids_and_bytes(log: RedisLog, raw: redis.Redis) -> None:  # E13
    attachment, claim = await lose_two(log, raw)
    await log.append_output(claim, 6, [Record(b"6", b"pcm 6")])
    assert log.nodes.node.appender.healed == 4, "the input is healed as well, though nobody appends to it"
    output = await log.read_output(claim.ref, 0)
    assert [(str(entry.id), entry.body, entry.audio) for entry in output] == [
        (f"1-{seq}", b"%d" % seq, b"pcm %d" % seq) for seq in range(1, 7)
    ]
    await log.append_input(attachment, 6, [Record(b"6")])
    said = await log.read_input(claim.ref, EntryId(1, 0))
    assert [entry.body for entry in said] == [b"%d" % seq for seq in range(1, 7)]


async def test_a_lost_tail_that_nobody_remembers_is_told(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    log = RedisLog.from_url(own_valkey.url, LogSettings(heal_bytes=0))
    await log.connect()
    attachment, claim = await lose_two(log, raw)
    with pytest.raises(TailLost) as lost:
        await log.append_output(claim, 6, [Record(b"6")])
    assert lost.value.head_seq == 3
    with pytest.raises(TailLost) as lost:
        await log.append_input(attachment, 6, [Record(b"6")])
    assert lost.value.head_seq == 3
    # Whoever still has them may say them again, under the same numbers.
    await log.append_output(claim, 4, [Record(b"%d" % seq) for seq in range(4, 7)])
    assert [entry.body for entry in await log.read_output(claim.ref, 0)] == [b"%d" % seq for seq in range(1, 7)]
    await log.close_connections()


async def test_what_a_silent_stream_remembers_is_let_go(own_valkey: StoreProcess) -> None:
    log = RedisLog.from_url(own_valkey.url, LogSettings(heal_window_s=0.05))
    (_, silent), (_, busy) = await sessions(log, 2)
    await log.append_output(silent, 1, [Record(b"1")])
    writers = log.nodes.node.appender._writers.values()
    (writer,) = (one for one in writers if one.session.ref == silent.ref and one.recent.last)
    seq = 1
    async with asyncio.timeout(30):
        while writer.recent.after(0) is not None:
            await log.append_output(busy, seq, [Record(b"x")])
            seq += 1
    await log.close_connections()


async def test_a_newer_owner_of_a_lost_tail_is_not_overwritten(log: RedisLog, raw: redis.Redis) -> None:
    _, claim = await lose_two(log, raw)
    keys = SessionKeys.of(claim.ref)
    raw.xadd(keys.output.records, {"m": b"claim"}, id="2-0")
    raw.hset(keys.head, mapping={"fence": 2, "claims": "1:1;2:4;"})
    with pytest.raises(Fenced):
        await log.append_output(claim, 6, [Record(b"6")])
    assert stored(raw, claim) == ["1-1", "1-2", "1-3"]


async def test_nobody_hears_of_a_record_that_the_store_refused(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    log = RedisLog.from_url(own_valkey.url, LogSettings(append_timeout_s=2.0))
    ((_, claim),) = await sessions(log, 1)
    await log.append_output(claim, 1, [Record(b"1")])
    listener = raw.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(SessionKeys.of(claim.ref).output.channel)
    assert listener.get_message(timeout=5) is None
    raw.config_set("min-replicas-to-write", 1)
    with pytest.raises(LogUnavailable):
        await log.append_output(claim, 2, [Record(b"2", b"pcm"), Record(b"3")])
    assert listener.get_message(timeout=0.1) is None
    raw.config_set("min-replicas-to-write", 0)
    await log.append_output(claim, 2, [Record(b"2", b"pcm"), Record(b"3")])
    assert stored(raw, claim) == ["1-1", "1-2", "1-3"]
    assert listener.get_message(timeout=5)["data"].startswith(b"r 1-2 ")
    listener.close()
    await log.close_connections()


async def test_an_append_waits_until_the_store_takes_writes_again(log: RedisLog, raw: redis.Redis) -> None:
    ((_, claim),) = await sessions(log, 1)
    await log.append_output(claim, 1, [Record(b"1")])
    raw.config_set("min-replicas-to-write", 1)
    appends = [asyncio.create_task(log.append_output(claim, seq, [Record(b"%d" % seq)])) for seq in range(2, 6)]
    await asyncio.sleep(0.3)
    raw.config_set("min-replicas-to-write", 0)
    await asyncio.gather(*appends)
    assert stored(raw, claim) == [f"1-{seq}" for seq in range(1, 6)]


async def test_a_fenced_writer_is_told_so_for_each_append_that_waits(
    own_valkey: StoreProcess, log: RedisLog, raw: redis.Redis
) -> None:
    ((attachment, claim),) = await sessions(log, 1)
    await log.append_output(claim, 1, [Record(b"1")])
    await log.append_input(attachment, 1, [Record(b"a")])
    other = RedisLog.from_url(own_valkey.url)
    await LogStage.attached(other, attachment.ref, b"token-1", b"token-2")
    await other.release(claim)
    await LogStage.must_claim(other, "worker-2", "echo")
    outcomes = await asyncio.gather(
        *(log.append_output(claim, seq, [Record(b"late", b"pcm")]) for seq in (2, 3, 4)),
        *(log.append_input(attachment, index, [Record(b"late", b"pcm")]) for index in (2, 3)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [Fenced] * 5
    assert stored(raw, claim) == ["1-1"]
    session = SessionKeys.of(claim.ref)
    assert raw.xlen(session.output.audio) == raw.xlen(session.input.audio) == 0
    await other.close_connections()


async def test_one_session_in_trouble_does_not_hold_up_the_others(log: RedisLog, raw: redis.Redis) -> None:
    pairs = await sessions(log, 5)
    bad = pairs[2][1]
    raw.delete(SessionKeys.of(bad.ref).output.records)
    outcomes = await asyncio.gather(
        *(log.append_output(claim, 1, [Record(b"1")]) for _, claim in pairs), return_exceptions=True
    )
    assert [isinstance(outcome, LogError) for outcome in outcomes] == [False, False, True, False, False]
    assert isinstance(outcomes[2], SessionUnknown)


async def test_waiting_appends_are_failed_when_the_log_is_closed(own_valkey: StoreProcess, log: RedisLog) -> None:
    ((_, claim),) = await sessions(log, 1)
    own_valkey.freeze()
    append = asyncio.create_task(log.append_output(claim, 1, [Record(b"1")]))
    await asyncio.sleep(0.1)
    await log.close_connections()
    with pytest.raises(LogUnavailable):
        await append
    own_valkey.thaw()


def all_of(raw: redis.Redis, keys: SessionKeys, model: str = "echo") -> dict[str, bytes | None]:
    """Everything the store has of a session, as a replica might have it."""
    streams = (keys.input.records, keys.input.audio, keys.output.records, keys.output.audio)
    return {key: raw.dump(key) for key in (keys.head, keys.snap, keys.ready(model), *streams)}


def lose_all_since(raw: redis.Redis, replicated: dict[str, bytes | None]) -> None:
    """A failover to that replica."""
    for key, known in replicated.items():
        raw.delete(key)
        if known is not None:
            raw.restore(key, 0, known)
    raw.execute_command("CLIENT", "KILL", "TYPE", "normal")


async def test_a_lost_claim_is_raised_again_with_what_it_wrote(log: RedisLog, raw: redis.Redis) -> None:
    attachment = await LogStage.created(log, "echo")
    replicated = all_of(raw, SessionKeys.of(attachment.ref))
    claim, _ = await LogStage.must_claim(log, "w", "echo")
    await log.append_output(claim, 1, [Record(b"1", b"pcm 1"), Record(b"2")])
    lose_all_since(raw, replicated)
    await log.append_output(claim, 3, [Record(b"3")])
    assert [(str(e.id), e.body, e.audio) for e in await log.read_output(claim.ref, 0)] == [
        (f"{claim.fence}-1", b"1", b"pcm 1"),
        (f"{claim.fence}-2", b"2", None),
        (f"{claim.fence}-3", b"3", None),
    ]
    head = await log.head(claim.ref.session_id)
    assert (head.state, head.worker, head.fence) == ("claimed", "w", claim.fence)
    assert await log.renew([], [claim]) == []
    assert await log.claim("w2", ["echo"]) is None


@pytest.mark.parametrize("is_confirmed", [False, True])
async def test_a_lost_attachment_is_raised_again_with_its_tokens(
    log: RedisLog, raw: redis.Redis, is_confirmed: bool
) -> None:
    first = await LogStage.created(log, "echo")
    keys = SessionKeys.of(first.ref)
    replicated = all_of(raw, keys)
    second = await LogStage.attached(log, first.ref, b"token-1", b"token-2")
    if is_confirmed:
        await log.confirm(second)
    await log.append_input(second, 1, [Record(b"a", b"pcm")])
    lose_all_since(raw, replicated)
    await log.append_input(second, 2, [Record(b"b")])
    found = await log.read_input(first.ref, EntryId(second.generation, 0))
    assert [(entry.body, entry.audio) for entry in found] == [(b"a", b"pcm"), (b"b", None)]
    recovery = None if is_confirmed else b"token-1"
    assert raw.hmget(keys.head, "token", "recovery", "gateway") == [b"token-2", recovery, b"gateway-2"]
    assert await log.renew([second], []) == []


async def test_a_claim_without_records_is_raised_again_as_soon_as_the_loss_is_met(
    log: RedisLog, raw: redis.Redis
) -> None:
    (_, other), attachment = (await sessions(log, 1))[0], await LogStage.created(log, "echo")
    replicated = all_of(raw, SessionKeys.of(attachment.ref))
    claim, _ = await LogStage.must_claim(log, "w", "echo")
    lose_all_since(raw, replicated)
    await log.append_output(other, 1, [Record(b"x")])
    assert (await log.head(claim.ref.session_id)).fence == claim.fence


async def test_a_lost_claim_that_somebody_took_since_is_fenced(log: RedisLog, raw: redis.Redis) -> None:
    attachment = await LogStage.created(log, "echo")
    keys = SessionKeys.of(attachment.ref)
    replicated = all_of(raw, keys)
    claim, _ = await LogStage.must_claim(log, "w", "echo")
    await log.append_output(claim, 1, [Record(b"1")])
    lose_all_since(raw, replicated)
    raw.hset(keys.head, mapping={"fence": claim.fence + 1, "claims": f"{claim.fence + 1}:1;", "worker": "w2"})
    raw.xadd(keys.output.records, {"m": b"claim"}, id=f"{claim.fence + 1}-0")
    with pytest.raises(Fenced):
        await log.append_output(claim, 2, [Record(b"2")])
    assert stored(raw, claim) == []


async def test_a_claim_that_was_lost_long_after_is_told(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    log = RedisLog.from_url(own_valkey.url, LogSettings(heal_window_s=0.05))
    attachment = await LogStage.created(log, "echo")
    replicated = all_of(raw, SessionKeys.of(attachment.ref))
    claim, _ = await LogStage.must_claim(log, "w", "echo")
    await asyncio.sleep(0.1)
    lose_all_since(raw, replicated)
    with pytest.raises(TailLost):
        await log.append_output(claim, 1, [Record(b"1")])
    await log.close_connections()


async def test_what_is_remembered_does_not_age_while_the_store_is_away(
    own_valkey: StoreProcess, raw: redis.Redis
) -> None:
    """It may come back without what it took last, however long that is ago."""
    settings = LogSettings(heal_window_s=2.0, socket_timeout_s=0.2, connect_timeout_s=0.2)
    log = RedisLog.from_url(own_valkey.url, settings)
    (_, claim), (_, other) = await sessions(log, 2)
    keys = SessionKeys.of(claim.ref)
    await log.append_output(claim, 1, [Record(b"1")])
    replicated = raw.dump(keys.output.records)
    await log.append_output(claim, 2, [Record(b"2")])
    own_valkey.freeze()
    append = asyncio.create_task(log.append_output(other, 1, [Record(b"x")]))
    await asyncio.sleep(3.0)
    own_valkey.thaw()
    await append
    raw.restore(keys.output.records, 0, replicated, replace=True)
    raw.execute_command("CLIENT", "KILL", "TYPE", "normal")
    await log.append_output(other, 2, [Record(b"y")])
    assert stored(raw, claim) == ["1-1", "1-2"]
    await log.close_connections()


async def test_a_lost_tail_is_written_again_though_nobody_appends_any_more(log: RedisLog, raw: redis.Redis) -> None:
    """A store that was started anew shows it on every connection: that of the subscriptions is always there."""
    ((_, claim),) = await sessions(log, 1)
    keys = SessionKeys.of(claim.ref)
    async with log.follow_output(claim.ref):
        await log.append_output(claim, 1, [Record(b"1")])
        replicated = raw.dump(keys.output.records)
        await log.append_output(claim, 2, [Record(b"2", b"pcm")])
        raw.restore(keys.output.records, 0, replicated, replace=True)
        raw.xtrim(keys.output.audio, maxlen=0)
        raw.execute_command("CLIENT", "KILL", "TYPE", "normal")
        raw.execute_command("CLIENT", "KILL", "TYPE", "pubsub")

        async def found() -> list[str]:
            return stored(raw, claim)

        await eventually(found, lambda ids: ids == ["1-1", "1-2"])
