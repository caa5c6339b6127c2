"""A store that comes back without its last moments, and without anybody who could write them again.

No seq that a client was shown is given to another frame behind its back: whoever reads along notices, whoever was away
is refused its position, and nobody else is bothered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis

from duplex_es.log.api import START, Attachment, Claim, EntryId, Record
from duplex_es.log.errors import Fenced, PositionAhead, PositionGone, SessionUnknown
from duplex_es.log.keys import SessionKeys
from duplex_es.log.redis import RedisLog
from duplex_es.log.scripts import session_call
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_stage import LogStage, eventually, ids, take
from tests.support.processes import StoreProcess, start_store

pytestmark = pytest.mark.redis

HASTY = LogSettings(lease_s=0.3, sweep_interval_s=0.05)
Make = Callable[[StoreProcess], RedisLog]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Logs of one process each; all are given back at the end."""
    made: list[RedisLog] = []

    def log(store: StoreProcess) -> RedisLog:
        made.append(RedisLog.from_url(store.url, HASTY))
        return made[-1]

    yield log
    for one in made:
        await one.close_connections()


@pytest.fixture(params=["valkey", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[StoreProcess]:
    store = start_store(request.param)
    yield store
    store.stop()


def client_of(store: StoreProcess) -> redis.Redis:
    return redis.Redis.from_url(store.url)


def keep(store: StoreProcess) -> None:
    """What is there now is what a restart finds."""
    with client_of(store) as raw:
        raw.save()


def lose(store: StoreProcess) -> None:
    """Everything since ``keep`` is gone."""
    store.kill()
    store.start()


def head_field(store: StoreProcess, of: Attachment | Claim, name: str) -> bytes | None:
    with client_of(store) as raw:
        return raw.hget(SessionKeys.of(of.ref).head, name)


async def write(log: RedisLog, claim: Claim, first: int, last: int, words: bytes = b"") -> None:
    await log.append_output(claim, first, [Record(words + b"%d" % seq) for seq in range(first, last + 1)])


async def resume(log: RedisLog, of: Attachment, after_seq: int) -> Attachment:
    attachment, _ = await log.attach(
        of.ref,
        presented_digest=b"token-1",
        next_digest=b"token-2",
        gateway="gateway-2",
        record=b"attached",
        after_seq=after_seq,
    )
    return attachment


async def test_a_client_that_was_away_is_refused_a_position_that_was_written_again(
    store: StoreProcess, make: Make
) -> None:
    gateway, worker, other = make(store), make(store), make(store)
    attachment = await LogStage.created(gateway, "echo")
    claim, _ = await LogStage.must_claim(worker, "worker-1", "echo")
    await write(worker, claim, 1, 5)
    keep(store)
    await write(worker, claim, 6, 8)
    async with gateway.follow_output(attachment.ref) as follower:
        follower.start(START)
        assert len(await take(follower, 8)) == 8
    await gateway.close_connections()
    await worker.close_connections()
    lose(store)
    successor, head = await LogStage.must_claim(other, "worker-2", "echo")
    assert head.output.number == 5
    await write(other, successor, 6, 9, b"other ")
    for after_seq in (6, 7, 8, 9, 12):
        with pytest.raises(PositionGone) as gone:
            await resume(other, attachment, after_seq)
        assert gone.value.first_available == 6
    assert (await resume(other, attachment, 5)).generation > attachment.generation
    found = await other.read_output(attachment.ref, 5)
    assert [entry.body for entry in found] == [b"other 6", b"other 7", b"other 8", b"other 9"]


@pytest.mark.parametrize("goodbye", ["close", "release", "detach"])
async def test_whoever_lets_go_right_after_the_loss_writes_the_end_again_first(
    store: StoreProcess, make: Make, goodbye: str
) -> None:
    log, reader = make(store), make(store)
    attachment, claim = await LogStage.claimed(log, "echo")
    await write(log, claim, 1, 5)
    await log.append_input(attachment, 1, [Record(b"said 1")])
    keep(store)
    await write(log, claim, 6, 8)
    await log.append_input(attachment, 2, [Record(b"said 2"), Record(b"said 3")])
    lose(store)
    match goodbye:
        case "close":
            await log.close(claim, "done")
        case "release":
            await log.release(claim)
        case _:
            await log.detach(attachment, b"left")
    head = await reader.head(claim.ref.session_id)
    if goodbye == "detach":
        found = await reader.read_input(claim.ref, EntryId(1, 0))
        assert [entry.body for entry in found] == [b"said 1", b"said 2", b"said 3", b"left"]
        assert not head.attached
    else:
        assert [entry.body for entry in await reader.read_output(claim.ref, 0)] == [b"%d" % n for n in range(1, 9)]
        assert (head.state, head.output.number) == ("closed" if goodbye == "close" else "waiting", 8)


async def test_before_anybody_writes_again_the_lost_position_is_refused_too(store: StoreProcess, make: Make) -> None:
    log, other = make(store), make(store)
    attachment, claim = await LogStage.claimed(log, "echo")
    await write(log, claim, 1, 5)
    keep(store)
    await write(log, claim, 6, 8)
    await log.close_connections()
    lose(store)
    with pytest.raises(PositionAhead) as ahead:  # its worker may still write them again
        await resume(other, attachment, 8)
    assert ahead.value.last == 5
    await LogStage.must_claim(other, "worker-2", "echo")
    with pytest.raises(PositionGone):
        await resume(other, attachment, 8)


async def test_without_a_restart_no_position_is_doubted(store: StoreProcess, make: Make) -> None:
    log, other = make(store), make(store)
    attachment, claim = await LogStage.claimed(log, "echo")
    await write(log, claim, 1, 8)
    await log.release(claim)
    successor, _ = await LogStage.must_claim(other, "worker-2", "echo")
    assert successor.fence == 2
    await write(other, successor, 9, 12)
    assert head_field(store, claim, "doubt_seq") is None
    assert (await resume(other, attachment, 11)).generation == 2


async def test_a_restart_that_lost_nothing_doubts_nobody_who_was_away(store: StoreProcess, make: Make) -> None:
    log, other = make(store), make(store)
    attachment, claim = await LogStage.claimed(log, "echo")
    await write(log, claim, 1, 8)
    keep(store)
    await log.close_connections()
    lose(store)
    successor, _ = await LogStage.must_claim(other, "worker-2", "echo")
    await write(other, successor, 9, 12)
    assert (await resume(other, attachment, 8)).generation > 1


@pytest.mark.parametrize("goodbye", ["renew", "detach"])
async def test_a_reader_that_went_on_under_the_new_claim_ends_the_doubt(
    store: StoreProcess, make: Make, goodbye: str
) -> None:
    gateway, worker, other = make(store), make(store), make(store)
    attachment = await LogStage.created(gateway, "echo")
    claim, _ = await LogStage.must_claim(worker, "worker-1", "echo")
    await write(worker, claim, 1, 8)
    async with gateway.follow_output(attachment.ref) as follower:
        follower.start(START)
        assert len(await take(follower, 8)) == 8
        keep(store)
        await worker.close_connections()
        lose(store)
        successor, _ = await LogStage.must_claim(other, "worker-2", "echo")
        assert head_field(store, claim, "doubt_seq") == b"8"
        assert await gateway.renew([attachment], []) == []
        assert head_field(store, claim, "doubt_seq") == b"8"  # nothing was written yet that could have told
        await write(other, successor, 9, 10)
        assert len(await take(follower, 2)) == 2
        if goodbye == "renew":
            assert await gateway.renew([attachment], []) == []
    if goodbye == "detach":
        await gateway.detach(attachment, b"left")
    assert head_field(store, claim, "doubt_seq") is None
    assert head_field(store, claim, "doubt_fence") is None
    await resume(other, attachment, 10)


async def test_a_reader_that_began_without_knowing_its_fence_vouches_for_nothing(
    store: StoreProcess, make: Make
) -> None:
    gateway, worker, other = make(store), make(store), make(store)
    attachment = await LogStage.created(gateway, "echo")
    claim, _ = await LogStage.must_claim(worker, "worker-1", "echo")
    await write(worker, claim, 1, 8)
    keep(store)
    await worker.close_connections()
    lose(store)
    successor, _ = await LogStage.must_claim(other, "worker-2", "echo")
    await write(other, successor, 9, 12)
    async with gateway.follow_output(attachment.ref) as follower:
        follower.start(EntryId(0, 10))
        assert len(await take(follower, 2)) == 2
        await gateway.renew([attachment], [])
        assert head_field(store, claim, "doubt_seq") == b"8"
    async with gateway.follow_output(attachment.ref) as follower:
        follower.start(EntryId(successor.fence, 10))
        assert len(await take(follower, 2)) == 2


async def test_a_second_restart_keeps_the_first_doubt(store: StoreProcess, make: Make) -> None:
    log = make(store)
    attachment, claim = await LogStage.claimed(log, "echo")
    await write(log, claim, 1, 5)
    keep(store)
    await write(log, claim, 6, 8)
    await log.close_connections()
    lose(store)
    second = make(store)
    claim, _ = await LogStage.must_claim(second, "worker-2", "echo")
    await write(second, claim, 6, 9, b"other ")
    keep(store)
    await second.close_connections()
    lose(store)
    third = make(store)
    await LogStage.must_claim(third, "worker-3", "echo")
    with pytest.raises(PositionGone):
        await resume(third, attachment, 8)


async def test_a_lost_claim_gives_its_number_to_nobody_else(store: StoreProcess, make: Make) -> None:
    gateway, worker, other = make(store), make(store), make(store)
    attachment = await LogStage.created(gateway, "echo")
    first, _ = await LogStage.must_claim(worker, "worker-1", "echo")
    await write(worker, first, 1, 5)
    await worker.release(first)
    keep(store)
    lost, _ = await LogStage.must_claim(worker, "worker-1", "echo")
    assert lost.fence == 2
    await write(worker, lost, 6, 8)
    async with gateway.follow_output(attachment.ref) as follower:
        follower.start(START)
        assert len(await take(follower, 8)) == 8
        await worker.close_connections()
        lose(store)
        successor, _ = await LogStage.must_claim(other, "worker-2", "echo")
        assert successor.fence > lost.fence
        await write(other, successor, 6, 8, b"other ")
        with pytest.raises(PositionGone):
            await take(follower, 1)
    with pytest.raises(Fenced):
        await make(store).append_output(lost, 9, [Record(b"late")])


async def test_a_lost_attachment_gives_its_number_to_nobody_else(store: StoreProcess, make: Make) -> None:
    log, other = make(store), make(store)
    attachment, claim = await LogStage.claimed(log, "echo")
    keep(store)
    lost = await LogStage.attached(log, attachment.ref, b"token-1", b"token-2")
    await log.append_input(lost, 1, [Record(b"said"), Record(b"again")])
    await log.close_connections()
    lose(store)
    taken = await resume(other, attachment, 0)
    assert taken.generation > lost.generation
    await other.append_input(taken, 1, [Record(b"new")])
    assert ids(await other.read_input(claim.ref, EntryId(lost.generation, 2)))[-1] == f"{taken.generation}-1"


async def test_a_replica_that_was_promoted_without_the_tail_is_doubted(store: StoreProcess, make: Make) -> None:
    replica = start_store(store.kind)
    try:
        with client_of(replica) as raw:
            raw.replicaof("127.0.0.1", str(store.port))

            async def status() -> bool:
                return raw.info("replication")["master_link_status"] == "up"

            await eventually(status)
            log = make(store)
            attachment, claim = await LogStage.claimed(log, "echo")
            await write(log, claim, 1, 5)

            async def length() -> int:
                return int(raw.xlen(SessionKeys.of(claim.ref).output.records))

            await eventually(length, lambda found: found == 6)
            raw.replicaof("NO", "ONE")
        await write(log, claim, 6, 8)
        await log.close_connections()
        other = make(replica)
        successor, head = await LogStage.must_claim(other, "worker-2", "echo")
        assert head.output.number == 5
        await write(other, successor, 6, 9, b"other ")
        with pytest.raises(PositionGone):
            await resume(other, attachment, 8)
        assert await resume(other, attachment, 5)
    finally:
        replica.stop()


# -- whoever still lives gets back what the store forgot ---------------------------------------------------------------


async def reinstate(log: RedisLog, of: Attachment | Claim, token: bytes = b"") -> int:
    session = SessionKeys.of(of.ref)
    kind, number, holder = ("c", of.fence, of.worker) if isinstance(of, Claim) else ("a", of.generation, of.gateway)
    call = session_call(
        "reinstate",
        session,
        "echo",
        incarnation=of.ref.incarnation,
        kind=kind,
        number=number,
        holder=holder,
        token=token,
        recovery=b"",
        record=b"record",
        lease_ms=10_000,
        member=session.member,
        publish="PUBLISH",
    )
    return int(await log.nodes.scripts.call(log.nodes.calls, call))


async def test_a_worker_gets_the_claim_back_that_the_store_forgot(store: StoreProcess, make: Make) -> None:
    log = make(store)
    _, first = await LogStage.claimed(log, "echo")
    await write(log, first, 1, 5)
    await log.release(first)
    keep(store)
    lost, _ = await LogStage.must_claim(log, "worker-2", "echo")
    lose(store)
    with client_of(store) as raw:
        for _ in range(2):
            assert await reinstate(log, lost) == 5
        assert raw.hget(SessionKeys.of(lost.ref).head, "claims") == b"1:1;2:6;"
        assert [entry_id for entry_id, _ in raw.xrange(SessionKeys.of(lost.ref).output.records)][-1] == b"2-0"
    head = await log.head(lost.ref.session_id)
    assert (head.fence, head.worker, head.state) == (2, "worker-2", "claimed")
    await write(log, lost, 6, 7)
    assert await log.renew([], [lost]) == []


async def test_a_worker_whose_number_was_passed_is_fenced(store: StoreProcess, make: Make) -> None:
    log, other = make(store), make(store)
    _, first = await LogStage.claimed(log, "echo")
    await log.release(first)
    keep(store)
    lost, _ = await LogStage.must_claim(log, "worker-2", "echo")
    lose(store)
    successor, _ = await LogStage.must_claim(other, "worker-3", "echo")
    with pytest.raises(Fenced):
        await reinstate(log, lost)
    assert await reinstate(other, successor) == 0
    with pytest.raises(Fenced):
        await reinstate(other, Claim(successor.ref, successor.fence, "worker-2", "echo"))
    await other.close(successor, "done")
    with pytest.raises(SessionUnknown):
        await reinstate(log, lost)


async def test_a_gateway_gets_the_attachment_back_that_the_store_forgot(store: StoreProcess, make: Make) -> None:
    log, other = make(store), make(store)
    attachment, _ = await LogStage.claimed(log, "echo")
    keep(store)
    lost = await LogStage.attached(log, attachment.ref, b"token-1", b"token-2")
    lose(store)
    async with log.follow_input(attachment.ref) as follower:
        follower.start(EntryId(1, 0))
        for _ in range(2):
            assert await reinstate(log, lost, b"token-2") == 0
        assert ids(await take(follower, 1)) == ["2-0"]
    with pytest.raises(Fenced):
        await reinstate(other, Attachment(lost.ref, 2, "gateway-3"), b"token-2")
    await log.append_input(lost, 1, [Record(b"goes on")])
    assert await log.renew([lost], []) == []
    await log.detach(lost, b"left")
    with pytest.raises(Fenced):
        await reinstate(log, lost, b"token-2")
    assert (await LogStage.attached(log, lost.ref, b"token-2", b"token-3")).generation > 2
