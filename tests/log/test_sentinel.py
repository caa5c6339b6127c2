"""The log follows whichever server the sentinels call the primary, whether the old one is dead, demoted or cut off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from duplex_es.log.addresses import parse_store_url
from duplex_es.log.api import START, Record
from duplex_es.log.errors import ConfigurationError, LogUnavailable
from duplex_es.log.redis import RedisLog
from duplex_es.log.sentinel import SentinelNode, Sentinels
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_stage import LogStage, eventually, take
from tests.support.processes import StoreProcess, free_port
from tests.support.sentinel import CALM_MS, SERVICE, SentinelStack, start_sentinel
from tests.support.tcp_proxy import proxy_to
from tests.support.traffic import traffic

pytestmark = pytest.mark.redis

RESUMES_S = 9.0
"""Well before a lease would run out, however busy the machine is."""


@pytest.fixture
def stack(redis_server: StoreProcess) -> Iterator[SentinelStack]:
    with start_sentinel(redis_server.kind) as running:
        yield running


@asynccontextmanager
async def two_logs(url: str, settings: LogSettings | None = None) -> AsyncIterator[tuple[RedisLog, RedisLog]]:
    both = RedisLog.from_url(url, settings), RedisLog.from_url(url, settings)
    for log in both:
        await log.connect()
    yield both
    for log in both:
        await log.close_connections()


def connected_to(log: RedisLog) -> int:
    """The port of the primary that the log was last told of."""
    assert isinstance(log.nodes, SentinelNode)
    assert log.nodes.sentinels.named is not None
    return log.nodes.sentinels.named[1]


@pytest.mark.parametrize("kind", ["redis", "valkey"])
async def test_appends_go_on_after_a_failover_with_the_old_primary_alive(
    kind: str, redis_server: StoreProcess, valkey: StoreProcess
) -> None:
    """E16: SENTINEL FAILOVER; the old primary answers READONLY, and what it took last is not in the new one."""
    with start_sentinel(kind, replicas=2, sentinels=3, down_after_ms=CALM_MS) as stack:
        async with two_logs(stack.url) as (log, reader), traffic(log, reader) as load:
            await asyncio.to_thread(stack.wait_until_followed)
            load.worst_s = 0.0
            successor = await asyncio.to_thread(stack.failover)

            async def ports() -> set[int]:
                return {connected_to(log), connected_to(reader)}

            await eventually(ports, lambda found: found == {successor.port})
            await load.goes_on()
            await load.settle()
            assert load.worst_s < RESUMES_S
            clients = stack.raw(successor).client_list()
            assert sum(client["name"].startswith("duplex-es-append") for client in clients) == 1


async def test_appends_go_on_after_the_primary_was_killed(stack: SentinelStack) -> None:
    async with two_logs(stack.url) as (log, reader), traffic(log, reader) as load:
        await asyncio.to_thread(stack.wait_until_followed)
        before = stack.primary
        before.kill()
        await asyncio.to_thread(stack.wait_for_other_than, before)
        await load.goes_on()
        await load.settle()


async def test_a_primary_that_was_cut_off_is_left_though_it_answers(redis_server: StoreProcess) -> None:
    """E17: it cannot be demoted, calls itself a primary, and takes writes: only the sentinels know better."""
    forbidden = ("--rename-command", "SLAVEOF", "", "--rename-command", "REPLICAOF", "")
    with start_sentinel(redis_server.kind, primary_options=forbidden, down_after_ms=CALM_MS) as stack:
        lease_s = 60.0
        async with two_logs(stack.url, LogSettings(probe_interval_s=1.0, lease_s=lease_s)) as (log, reader):
            _, claim = await LogStage.claimed(log, "echo")
            async with reader.follow_output(claim.ref) as follower:
                follower.start(START)
                await log.append_output(claim, 1, [Record(b"1")])
                assert [entry.body for entry in await take(follower, 1)] == [b"1"]
                await asyncio.to_thread(stack.wait_until_followed)
                before, began_s = stack.primary, time.monotonic()
                await asyncio.to_thread(stack.failover)
                with stack.raw(before) as raw:
                    assert raw.info("replication")["role"] == "master"

                async def ports() -> set[int]:
                    return {connected_to(log), connected_to(reader)}

                await eventually(ports, lambda found: before.port not in found)
                await log.append_output(claim, 2, [Record(b"2")])
                assert [entry.body for entry in await take(follower, 1)] == [b"2"]
                # The failover itself takes a second or two; what is measured is that nobody waits for a lease.
                assert time.monotonic() - began_s < lease_s
            assert [entry.body for entry in await reader.read_output(claim.ref, 0)] == [b"1", b"2"]


async def test_one_sentinel_that_answers_is_enough(stack: SentinelStack) -> None:
    port = stack.sentinels[0].port
    async with proxy_to(port) as deaf:
        deaf.is_deaf = True
        url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{deaf.port},127.0.0.1:{port}/{SERVICE}"
        log = RedisLog.from_url(url, LogSettings(socket_timeout_s=60.0, connect_timeout_s=60.0, append_timeout_s=60.0))
        await asyncio.wait_for(log.connect(), 30)
        await log.ping()
        await log.close_connections()


async def test_without_a_sentinel_the_store_is_unavailable() -> None:
    settings = LogSettings(append_timeout_s=0.3, connect_timeout_s=0.2)
    log = RedisLog.from_url(f"redis+sentinel://127.0.0.1:{free_port()}/{SERVICE}", settings)
    for attempt in (log.connect(), log.ping(), log.head("s")):
        with pytest.raises(LogUnavailable, match="no sentinel"):
            await asyncio.wait_for(attempt, 30)
    await log.close_connections()


async def test_a_service_that_no_sentinel_knows_is_told_at_once(stack: SentinelStack) -> None:
    log = RedisLog.from_url(stack.url.replace(f"/{SERVICE}/", "/other/"))
    with pytest.raises(ConfigurationError, match="other"):
        await asyncio.wait_for(log.connect(), 30)
    await log.close_connections()


async def test_of_contradicting_sentinels_the_newer_epoch_counts() -> None:
    def answer(port: int, epoch: int) -> bytes:
        words = (b"ip", b"127.0.0.1", b"port", b"%d" % port, b"config-epoch", b"%d" % epoch)
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)

    async def sentinel(said: list[bytes]) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while words := await reader.read(4096):
                for _ in range(words.count(b"SENTINEL")):
                    writer.write(said[-1])
                # Whatever else the client says while it connects.
                for _ in range(words.count(b"\r\n$5\r\nHELLO") + words.count(b"\r\n$6\r\nCLIENT")):
                    writer.write(b"+OK\r\n" if b"HELLO" not in words else b"%1\r\n+proto\r\n:3\r\n")
                await writer.drain()

        return await asyncio.start_server(serve, "127.0.0.1", 0)

    old, new = [answer(1, 4)], [answer(2, 5)]
    servers = [await sentinel(old), await sentinel(new)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    url = f"redis+sentinel://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/voice"
    tested, moves = Sentinels(parse_store_url(url), LogSettings()), []
    tested.moved = lambda *complaints: moves.append(tested.named)
    assert await tested.primary() == ("127.0.0.1", 2)
    assert not moves
    old.append(answer(3, 6))
    assert await asyncio.gather(tested.primary(), tested.primary()) == [("127.0.0.1", 3)] * 2
    assert moves == [("127.0.0.1", 3)]
    await tested.close()
    for server in servers:
        server.close()
