"""On a cluster: every session where its slot is, also while slots move and primaries change under load."""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import redis

from duplex_es.log import keys
from duplex_es.log.api import START, Claim, Entry, EntryId, Record, WorkerCard
from duplex_es.log.cluster import ClusterNodes
from duplex_es.log.errors import ConfigurationError, Fenced, LogUnavailable, SessionUnknown
from duplex_es.log.keys import SessionKeys
from duplex_es.log.memory import MemoryLog
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_programs import run_program
from duplex_es.testing.log_stage import LogStage, eventually, take
from tests.support.cluster import CALM_MS, StoreCluster, start_cluster
from tests.support.processes import StoreProcess, free_port
from tests.support.tcp_proxy import proxy_to
from tests.support.traffic import traffic

pytestmark = pytest.mark.redis

HASTY = LogSettings(sweep_interval_s=0.1, probe_interval_s=1.0, socket_timeout_s=0.5, connect_timeout_s=0.5)
RESUMES_S = 9.0
"""Well before a lease would run out, however busy the machine is."""


@pytest.fixture(scope="module")
def own_cluster(valkey: StoreProcess) -> Iterator[StoreCluster]:
    """Three primaries with a replica each, for this module alone. Each test leaves it well."""
    with start_cluster(valkey.kind, replicas=1) as running:
        yield running


@pytest.fixture(scope="module")
def redis_cluster(redis_server: StoreProcess) -> Iterator[StoreCluster]:
    """Two primaries of the other make."""
    with start_cluster(redis_server.kind, primaries=2, node_timeout_ms=CALM_MS) as running:
        yield running


@pytest.fixture(params=["valkey", "redis"])
def either(request: pytest.FixtureRequest) -> StoreCluster:
    """Both makes: they differ in what they check while a slot is on its way."""
    found: StoreCluster = request.getfixturevalue("own_cluster" if request.param == "valkey" else "redis_cluster")
    return found


@asynccontextmanager
async def two_logs(url: str, settings: LogSettings | None = None) -> AsyncIterator[tuple[RedisLog, RedisLog]]:
    both = RedisLog.from_url(url, settings or HASTY), RedisLog.from_url(url, settings or HASTY)
    for log in both:
        await log.connect()
    yield both
    for log in both:
        await log.close_connections()


@asynccontextmanager
async def one_log(url: str, settings: LogSettings | None = None) -> AsyncIterator[RedisLog]:
    async with two_logs(url, settings) as (log, _):
        yield log


def slot_of(claim: Claim) -> int:
    return keys.slot(keys.head(claim.ref.session_id))


def names() -> list[str]:
    """Two hundred session ids that are nobody else's, each in a partition of its own."""
    found = [f"s{secrets.token_hex(8)}" for _ in range(3000)]
    return list({keys.partition_of(name): name for name in found}.values())[:200]


def other_than(cluster: StoreCluster, node: StoreProcess) -> StoreProcess:
    return random.choice([one for one in cluster.primaries() if one is not node])


async def writers_of(log: RedisLog, claim: Claim) -> int:
    """On how many nodes the log remembers a writer of this claim."""
    assert isinstance(log.nodes, ClusterNodes)
    key = (SessionKeys.of(claim.ref).output.records, claim.fence)
    return sum(key in node.appender._writers for node in log.nodes._nodes.values())


# -- where things are ----------------------------------------------------------------------------------------------


async def test_sessions_lie_where_their_slots_are_and_all_are_found(cluster: StoreCluster) -> None:
    async with one_log(cluster.url) as log:
        chosen, model = names(), f"m-{secrets.token_hex(4)}"
        attachments = [await LogStage.created(log, model, name) for name in chosen[:60]]
        assert {head.ref for head in await log.sessions()} >= {attachment.ref for attachment in attachments}
        assert await log.waiting(model) == 60
        used = Counter(cluster.primary_of(keys.slot(keys.head(name))).port for name in chosen[:60])
        assert len(used) == 3
        assert await log.renew(attachments, []) == []
        claims = [(await LogStage.must_claim(log, "w", model))[0] for _ in attachments]
        assert {claim.ref for claim in claims} == {attachment.ref for attachment in attachments}
        await asyncio.gather(*(log.append_output(claim, 1, [Record(b"1", b"pcm")]) for claim in claims))
        for claim in claims:
            assert await log.read_output(claim.ref, 0) == [Entry(EntryId(1, 1), b"1", b"pcm")]
            await log.close(claim, "done")
        assert await log.waiting(model) == 0


async def test_each_slot_has_a_transaction_of_its_own_in_one_pipeline(cluster: StoreCluster) -> None:
    async with one_log(cluster.url) as log:
        pairs = [await LogStage.claimed(log, f"m-{secrets.token_hex(4)}") for _ in range(30)]
        before = Counter({port: 0 for port in (node.port for node in cluster.nodes)})
        for node in cluster.nodes:
            cluster.ask(node, "CONFIG", "RESETSTAT")
        await asyncio.gather(*(log.append_output(claim, 1, [Record(b"1")]) for _, claim in pairs))
        for node in cluster.nodes:
            with redis.Redis(port=node.port) as raw:
                before[node.port] = raw.info("commandstats").get("cmdstat_exec", {}).get("calls", 0)
        assert sum(before.values()) == len({slot_of(claim) for _, claim in pairs})
        assert isinstance(log.nodes, ClusterNodes)
        assert sum(node.appender.pipelines for node in log.nodes._nodes.values()) <= 2 * len(cluster.nodes)


async def test_many_sessions_need_no_more_than_four_connections_to_each_node(cluster: StoreCluster) -> None:
    """E25, with a cluster's twist: per node."""
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(one_log(cluster.url, LogSettings()))
        model = f"m-{secrets.token_hex(4)}"

        async def session() -> None:
            attachment = await LogStage.created(log, model)
            (await stack.enter_async_context(log.follow_output(attachment.ref))).start(START)
            await log.append_input(attachment, 1, [Record(b"a")])

        await asyncio.gather(*(session() for _ in range(2000)))
        for node in cluster.nodes:
            listed = cluster.ask_text(node, "CLIENT", "LIST")
            of_one = Counter(word for word in listed.split() if word.startswith("name=duplex-es-"))
            # The second log of this test made one connection to each node, for the check.
            assert sum(of_one.values()) <= 5 and max(of_one.values()) <= 2, of_one


async def test_scripts_are_loaded_on_every_primary_and_again_where_they_are_lost(cluster: StoreCluster) -> None:
    async with one_log(cluster.url) as log:
        for node in cluster.nodes:
            assert cluster.ask(node, "FUNCTION", "LIST")
        cluster.ask(cluster.nodes[1], "FUNCTION", "FLUSH")
        for name in names()[:20]:
            await LogStage.created(log, "lost", name)
        assert all(cluster.ask(node, "FUNCTION", "LIST") for node in cluster.nodes)


# -- slots on the move ---------------------------------------------------------------------------------------------


async def test_slots_move_under_load_and_back(either: StoreCluster) -> None:
    """Nothing lost, doubled or reordered, and followers hear everything; key by key, as an operator reshards."""
    async with two_logs(either.url) as (log, reader), traffic(log, reader, 8) as load:
        homes = {slot: either.primary_of(slot) for slot in load.slots}
        for slot, home in homes.items():
            await asyncio.to_thread(either.move_slot, slot, other_than(either, home), random.choice((1, 3, 10)))
        await load.goes_on()
        for slot, home in homes.items():
            await asyncio.to_thread(either.move_slot, slot, home, random.choice((1, 3, 10)))
        await load.goes_on()
        await load.settle()
        assert not await log.renew(*([list(side) for side in zip(*load.pairs, strict=True)]))


async def test_slots_move_under_load_in_the_one_step_of_valkey(own_cluster: StoreCluster) -> None:
    """Nothing is ever half there: the old node just sends everybody away."""
    async with two_logs(own_cluster.url) as (log, reader), traffic(log, reader) as load:
        for slot in set(load.slots):
            home = own_cluster.primary_of(slot)
            target = own_cluster.id_of(other_than(own_cluster, home))
            own_cluster.ask(home, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target)
            await asyncio.to_thread(own_cluster.wait_for_other_than, slot, home)
        await load.goes_on()
        await load.settle()


async def test_a_slot_that_is_long_on_its_way_holds_up_only_its_own_sessions(either: StoreCluster) -> None:
    async with two_logs(either.url) as (log, reader), traffic(log, reader, 6) as load:
        slot, others = load.slots[0], [n for n, other in enumerate(load.slots) if other != load.slots[0]]
        home = either.primary_of(slot)
        target = other_than(either, home)
        either.begin_move(slot, target)
        try:
            sound = SessionKeys.of(load.pairs[0][1].ref).output.audio
            either.ask(home, "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", sound)
            before = list(load.wrote)

            async def wrote() -> list[int]:
                return [load.wrote[n] - before[n] for n in others]

            assert others
            await eventually(wrote, lambda more: min(more) > 20)
            assert load.wrote[0] <= before[0] + 1, "its sound is there, its records are here"
        finally:
            await asyncio.to_thread(either.move_keys, slot, target)
            either.finish_move(slot, target)
        await load.goes_on()
        await asyncio.to_thread(either.move_slot, slot, home)
        await load.goes_on()
        await load.settle()


async def test_every_operation_works_while_its_slot_moves(own_cluster: StoreCluster) -> None:
    async with two_logs(own_cluster.url, LogSettings(sweep_interval_s=0.05)) as (log, other):
        model, going = f"m-{secrets.token_hex(4)}", True
        name = f"{model}-0"
        slot = keys.slot(keys.head(name))

        def move() -> None:
            while going:
                own_cluster.move_slot(slot, other_than(own_cluster, own_cluster.primary_of(slot)), batch=1)
                time.sleep(0.1)  # whatever names a key that is not there can only be done in between

        moving = asyncio.create_task(asyncio.to_thread(move))
        try:
            for life in range(3):
                attachment = await LogStage.created(log, model, name)
                assert attachment.ref.incarnation == life
                claim, _ = await LogStage.must_claim(other, "w1", model)
                await other.append_output(claim, 1, [Record(b"1", b"pcm")])
                await other.checkpoint(claim, b"state", opening=b"answer")
                second = await LogStage.attached(log, attachment.ref, b"token-1", b"token-2")
                await log.confirm(second)
                await log.append_input(second, 1, [Record(b"a")])
                await log.acknowledge(second, 1)
                assert await other.renew([attachment, second], [claim]) == [attachment]
                await other.release(claim)
                successor, head = await LogStage.must_claim(other, "w2", model)
                assert (head.output.number, head.acknowledged_seq, head.checkpoint) == (1, 1, b"state")
                with pytest.raises(Fenced):
                    await other.append_output(claim, 2, [Record(b"x")])
                await other.append_output(successor, 2, [Record(b"2")])
                await log.detach(second, b"left")
                assert [e.body for e in await log.read_output(attachment.ref, 0)] == [b"1", b"2"]
                said = await other.read_input(attachment.ref, START)
                assert [entry.body for entry in said] == [b"created", b"attached", b"a", b"left"]
                await other.close(successor, "done")
                assert (await log.head(name)).state == "closed"
        finally:
            going = False
            await moving


async def test_a_writer_moves_with_what_it_remembers(own_cluster: StoreCluster) -> None:
    """A store that lost its tail on the way gets it again from the writer that moved along."""
    async with one_log(own_cluster.url, LogSettings()) as log:
        _, claim = await LogStage.claimed(log, f"m-{secrets.token_hex(4)}")
        stream, slot = SessionKeys.of(claim.ref).output, slot_of(claim)
        await log.append_output(claim, 1, [Record(b"1", b"pcm 1")])
        with own_cluster.raw() as raw:
            known = [(key, raw.dump(key)) for key in (stream.records, stream.audio)]
            await log.append_output(claim, 2, [Record(b"2", b"pcm 2"), Record(b"3", b"pcm 3")])
            for key, replicated in known:
                raw.restore(key, 0, replicated, replace=True)
        home = own_cluster.primary_of(slot)
        await asyncio.to_thread(own_cluster.move_slot, slot, other_than(own_cluster, home))
        await log.head(claim.ref.session_id)  # meets the move

        async def bodies() -> list[bytes]:
            return [entry.body for entry in await log.read_output(claim.ref, 0)]

        await eventually(bodies, lambda found: found == [b"1", b"2", b"3"])
        assert await writers_of(log, claim) == 1
        await log.append_output(claim, 4, [Record(b"4")])
        assert [entry.audio for entry in await log.read_output(claim.ref, 0)] == [b"pcm 1", b"pcm 2", b"pcm 3", None]
        await asyncio.to_thread(own_cluster.move_slot, slot, home)
        await log.append_output(claim, 5, [Record(b"5")])


async def test_a_session_that_is_gone_is_not_taken_for_one_that_moved(own_cluster: StoreCluster) -> None:
    async with one_log(own_cluster.url) as log:
        _, claim = await LogStage.claimed(log, f"m-{secrets.token_hex(4)}")
        await log.append_output(claim, 1, [Record(b"1")])
        session = SessionKeys.of(claim.ref)
        with own_cluster.raw() as raw:
            raw.delete(session.head, session.output.records, session.output.audio)
        with pytest.raises(SessionUnknown):
            await log.append_output(claim, 2, [Record(b"2")])


async def test_the_fleet_is_kept_while_its_slot_moves(own_cluster: StoreCluster) -> None:
    settings = LogSettings(watch_interval_s=0.2, sweep_interval_s=0.1)
    model = f"m-{secrets.token_hex(4)}"
    async with two_logs(own_cluster.url, settings) as (first, second):
        for name, log in (("w1", first), ("w2", second)):
            await log.register(WorkerCard(name, {model: b"card"}, 4, 0))
        attachment = await LogStage.created(first, model)
        claim, _ = await LogStage.must_claim(first, "w1", model)
        home = own_cluster.primary_of(keys.FLEET_SLOT)
        for target in (other_than(own_cluster, home), home):
            await asyncio.to_thread(own_cluster.move_slot, keys.FLEET_SLOT, target)
            await asyncio.sleep(5 * settings.watch_interval_s)
            assert {card.worker for card in await second.fleet()} == {"w1", "w2"}
            assert await second.claim("w2", [model]) is None, "w1 was taken for dead"
            # Announcements are heard where the fleet is: nobody waits in vain.
            asyncio.get_running_loop().call_later(0.1, asyncio.ensure_future, LogStage.created(first, model))
            began_s = time.monotonic()
            await second.wait_for_ready(10)
            assert time.monotonic() - began_s < 9.0
            await LogStage.must_claim(second, "w2", model)
        await first.close_connections()  # no goodbye: as a killed process leaves the store
        taken, _ = await asyncio.wait_for(LogStage.must_claim(second, "w2", model), 30)
        assert (taken.ref, taken.fence) == (attachment.ref, claim.fence + 1)


# -- other primaries -----------------------------------------------------------------------------------------------


async def test_a_replica_takes_over_under_load(own_cluster: StoreCluster) -> None:
    """CLUSTER FAILOVER: the old primary lives on as a replica, and sends everybody away."""
    async with two_logs(own_cluster.url) as (log, reader), traffic(log, reader) as load:
        load.worst_s = 0.0
        for _ in range(2):
            for slot in {own_cluster.primary_of(slot).port: slot for slot in load.slots}.values():
                await asyncio.to_thread(own_cluster.failover, slot)
        await load.goes_on()
        await load.settle()
        assert load.worst_s < RESUMES_S
        assert isinstance(log.nodes, ClusterNodes)

        async def nodes() -> set[int]:
            return {port for _, port in log.nodes._nodes}

        await eventually(nodes, lambda found: found == {node.port for node in own_cluster.primaries()})


async def test_a_killed_primary_is_replaced_under_load(own_cluster: StoreCluster) -> None:
    async with two_logs(own_cluster.url) as (log, reader), traffic(log, reader) as load:
        slot = load.slots[0]
        before = own_cluster.primary_of(slot)
        await asyncio.to_thread(own_cluster.wait_until_followed, slot)
        before.kill()
        await asyncio.to_thread(own_cluster.wait_for_other_than, slot, before)
        await load.goes_on()
        await load.settle()
    await asyncio.to_thread(before.start)
    await asyncio.to_thread(own_cluster.wait_until_well, 1)


async def test_a_log_that_is_made_while_a_node_is_away_works_for_the_others(own_cluster: StoreCluster) -> None:
    away = own_cluster.replicas_of(keys.FLEET_SLOT)[0]
    away.kill()
    url = f"redis+cluster://127.0.0.1:{away.port}," + own_cluster.url.partition("//")[2]
    async with one_log(url, HASTY) as log:
        await log.ping()
        await LogStage.created(log, "away")
    await asyncio.to_thread(away.start)
    await asyncio.to_thread(own_cluster.wait_until_well, 1)


async def test_one_frozen_node_does_not_keep_the_sessions_of_others_waiting(own_cluster: StoreCluster) -> None:
    """Renewals and claims ask every node, and take what they get in time."""
    model = f"m-{secrets.token_hex(4)}"
    settings = LogSettings(lease_s=4.0, sweep_interval_s=0.1)
    async with one_log(own_cluster.url, settings) as log:
        frozen = next(n for n in own_cluster.primaries() if n is not own_cluster.primary_of(keys.FLEET_SLOT))
        chosen = [n for n in names() if own_cluster.primary_of(keys.slot(keys.head(n))) is not frozen][:3]
        attachments = [await LogStage.created(log, model, name) for name in chosen]
        await log.claim("w", ["nothing"])
        frozen.freeze()
        try:
            began_s = time.monotonic()
            assert await log.renew(attachments, []) == []
            claims = [(await LogStage.must_claim(log, "w", model))[0] for _ in attachments]
            await asyncio.gather(*(log.append_output(claim, 1, [Record(b"1")]) for claim in claims))
            assert time.monotonic() - began_s < 20.0
        finally:
            frozen.thaw()
        await asyncio.to_thread(own_cluster.wait_until_well, 1)


# -- what redis-py's reports tell ----------------------------------------------------------------------------------


async def test_a_frozen_node_gets_one_entry_and_the_caller_its_success(own_cluster: StoreCluster) -> None:
    """E23: no retry doubles a write. Frozen for less than the node timeout, so that nobody takes over."""
    settings = LogSettings(socket_timeout_s=0.3)
    async with one_log(own_cluster.url, settings) as log:
        _, claim = await LogStage.claimed(log, f"m-{secrets.token_hex(4)}")
        node = own_cluster.primary_of(slot_of(claim))
        await log.append_output(claim, 1, [Record(b"1")])
        node.freeze()
        appends = [asyncio.create_task(log.append_output(claim, n, [Record(b"%d" % n, b"pcm")])) for n in (2, 3)]
        await asyncio.sleep(0.9)
        assert not any(append.done() for append in appends)
        node.thaw()
        await asyncio.gather(*appends)
        assert [entry.body for entry in await log.read_output(claim.ref, 0)] == [b"1", b"2", b"3"]


async def test_cancelled_calls_leave_no_reply_behind(own_cluster: StoreCluster) -> None:
    """E24: whoever asks next gets its own answer."""
    async with one_log(own_cluster.url) as log:
        attachments = [await LogStage.created(log, f"m-{secrets.token_hex(4)}") for _ in range(6)]
        for turn in range(150):
            asked = random.choice(attachments).ref
            calls = [asyncio.create_task(log.head(asked.session_id)), asyncio.create_task(log.read_input(asked, START))]
            for _ in range(turn % 5):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            other = random.choice(attachments).ref
            assert (await log.head(other.session_id)).ref == other
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_deaf_connection_is_replaced_and_what_was_missed_is_read(valkey: StoreProcess) -> None:
    """E26: nothing comes back from the node any more, and the connection looks healthy."""
    with start_cluster(valkey.kind, primaries=1, node_timeout_ms=CALM_MS) as cluster:
        async with proxy_to(cluster.nodes[0].port) as proxy, one_log(cluster.url, HASTY) as writer:
            cluster.ask(cluster.nodes[0], "CONFIG", "SET", "cluster-announce-port", proxy.port)
            async with one_log(f"redis+cluster://127.0.0.1:{proxy.port}", HASTY) as reader:
                _, claim = await LogStage.claimed(writer, "deaf")
                async with reader.follow_output(claim.ref) as follower:
                    follower.start(START)
                    await writer.append_output(claim, 1, [Record(b"1")])
                    assert len(await take(follower, 1)) == 1
                    proxy.is_deaf = True
                    await writer.append_output(claim, 2, [Record(b"2")])
                    began_s = time.monotonic()
                    await asyncio.sleep(2 * HASTY.probe_interval_s)
                    proxy.is_deaf = False
                    assert [entry.body for entry in await take(follower, 1)] == [b"2"]
                    assert time.monotonic() - began_s < 20.0


async def test_two_hundred_channels_over_many_slots_are_heard_again(own_cluster: StoreCluster) -> None:
    """E27: a re-subscription names channels of one slot only, and goes to the slot's node."""
    async with two_logs(own_cluster.url) as (log, reader), AsyncExitStack() as stack:
        model = f"m-{secrets.token_hex(4)}"
        attachments = [await LogStage.created(log, model, name) for name in names()]
        claims = [(await LogStage.must_claim(log, "w", model))[0] for _ in attachments]
        followers = [await stack.enter_async_context(reader.follow_output(claim.ref)) for claim in claims]
        assert len({slot_of(claim) for claim in claims}) > 100
        for follower in followers:
            follower.start(START)
        for number in (1, 2):
            await asyncio.gather(*(log.append_output(claim, number, [Record(b"x")]) for claim in claims))
            heard = await asyncio.gather(*(take(follower, 1) for follower in followers))
            assert [entries[0].id.number for entries in heard] == [number] * 200
            for node in own_cluster.primaries():
                own_cluster.ask(node, "CLIENT", "KILL", "TYPE", "pubsub")


# -- what is refused -----------------------------------------------------------------------------------------------


async def test_the_permissions_of_the_reference_page_are_enough(own_cluster: StoreCluster) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "redis-keys.md").read_text()
    permissions = [*re.findall(r"`(~dx:[^`]+)`", page), *re.findall(r"On a cluster also `([^`]+)`", page)]
    assert len(permissions) == 2
    for node in own_cluster.nodes:
        own_cluster.ask(node, "ACL", "SETUSER", "app", "on", ">secret", *" ".join(permissions).split())
    url = own_cluster.url.replace("redis+cluster://", "redis+cluster://app:secret@")
    async with one_log(url, LogSettings(sweep_interval_s=0.05)) as log:
        await run_program(3, 100, log, MemoryLog(LogSettings()), secrets.token_hex(4))
        _, claim = await LogStage.claimed(log, f"m-{secrets.token_hex(4)}")
        async with log.follow_output(claim.ref) as follower:
            follower.start(START)
            await log.append_output(claim, 1, [Record(b"1", b"pcm")])
            assert len(await take(follower, 1)) == 1
        await log.register(WorkerCard("w", {}, 1, 0))
        await log.unregister("w")


async def test_wrong_credentials_are_told_at_once(own_cluster: StoreCluster) -> None:
    log = RedisLog.from_url(own_cluster.url.replace("redis+cluster://", "redis+cluster://nobody:wrong@"))
    for attempt in (log.connect(), log.ping()):
        with pytest.raises(ConfigurationError, match="credentials"):
            await asyncio.wait_for(attempt, 30)
    await log.close_connections()


async def test_a_single_server_is_no_cluster(valkey: StoreProcess) -> None:
    log = RedisLog.from_url(f"redis+cluster://127.0.0.1:{valkey.port}")
    with pytest.raises(ConfigurationError, match="redis://"):
        await asyncio.wait_for(log.connect(), 30)
    await log.close_connections()


async def test_a_cluster_node_is_no_single_server(cluster: StoreCluster) -> None:
    log = RedisLog.from_url(cluster.nodes[0].url)
    with pytest.raises(ConfigurationError, match=r"redis\+cluster://"):
        await log.connect()
    with pytest.raises(ConfigurationError, match=r"redis\+cluster://"):
        for name in names()[:40]:
            await LogStage.created(log, "single", name)
    await log.close_connections()


async def test_a_cluster_that_is_away_is_unavailable() -> None:
    settings = LogSettings(append_timeout_s=0.3, connect_timeout_s=0.2)
    log = RedisLog.from_url(f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{free_port()}", settings)
    ref = keys.parse_member("s:0")
    for attempt in (
        log.connect(),
        log.ping(),
        log.head("s"),
        log.append_output(Claim(ref, 1, "w", "m"), 1, [Record(b"")]),
        log.claim("w", ["m"]),
        log.follow_output(ref).__aenter__(),
    ):
        with pytest.raises(LogUnavailable):
            await asyncio.wait_for(attempt, 30)
    await log.close_connections()
