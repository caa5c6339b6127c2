"""The memory log's clock is its caller's: leases run out without waiting. Its promises: tests/conformance."""

from __future__ import annotations

import pytest

from duplex_es.log.api import START, Attachment, Ended, WorkerCard
from duplex_es.log.errors import SessionUnknown
from duplex_es.log.memory import MemoryLog
from duplex_es.log.settings import LogSettings

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock) -> MemoryLog:
    return MemoryLog(LogSettings(lease_s=10.0, retention_s=900.0), clock)


async def create(log: MemoryLog) -> Attachment:
    ref = await log.next_incarnation("s")
    return await log.create(ref, model="echo", token_digest=b"t", gateway="g", record=b"")


async def test_a_claim_can_be_taken_when_its_lease_ran_out(log: MemoryLog, clock: Clock) -> None:
    await create(log)
    assert await log.claim("w1", ["echo"]) is not None
    clock.now_s += 9.9
    assert await log.claim("w2", ["echo"]) is None
    clock.now_s += 0.2
    claimed = await log.claim("w2", ["echo"])
    assert claimed is not None and claimed[0].fence == 2


async def test_renewal_counts_from_when_it_happens(log: MemoryLog, clock: Clock) -> None:
    attachment = await create(log)
    claimed = await log.claim("w1", ["echo"])
    assert claimed is not None
    for _ in range(5):
        clock.now_s += 9.0
        assert await log.renew([attachment], [claimed[0]]) == []
    assert (await log.head("s")).attached
    clock.now_s += 10.1
    assert not (await log.head("s")).attached


async def test_a_closed_session_is_readable_for_the_retention_and_not_longer(log: MemoryLog, clock: Clock) -> None:
    attachment = await create(log)
    claimed = await log.claim("w1", ["echo"])
    assert claimed is not None
    await log.close(claimed[0], "done")
    clock.now_s += 899.0
    assert len(await log.read_input(attachment.ref, START)) == 1
    clock.now_s += 1.1
    with pytest.raises(SessionUnknown):
        await log.read_input(attachment.ref, START)
    async with log.follow_output(attachment.ref) as follower:
        follower.start(START)
        assert [item async for item in follower] == [Ended("gone")]


async def test_an_unclaimed_session_is_closed_once_both_have_been_away_long_enough(
    log: MemoryLog, clock: Clock
) -> None:
    attachment = await create(log)
    clock.now_s += 100.0  # nobody claimed it, and the attachment's lease ran out 90 s ago
    assert await log.expire_unclaimed(95.0) == []
    await log.renew([attachment], [])
    assert await log.expire_unclaimed(60.0) == []
    clock.now_s += 5.0
    await log.detach(attachment, b"left")
    clock.now_s += 59.0
    assert await log.expire_unclaimed(60.0) == []
    clock.now_s += 1.0
    assert await log.expire_unclaimed(60.0) == [attachment.ref]
    assert await log.expire_unclaimed(60.0) == []
    assert (await log.head("s")).state == "closed"


async def test_a_worker_is_forgotten_after_its_lease(log: MemoryLog, clock: Clock) -> None:
    await log.register(WorkerCard("w1", {}, 1, 0))
    clock.now_s += 9.0
    assert len(await log.fleet()) == 1
    clock.now_s += 1.1
    assert await log.fleet() == []
