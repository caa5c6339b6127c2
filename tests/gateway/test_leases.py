"""One loop keeps every socket's attachment; a lost one is told once, and why."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.api import Attachment
from duplex_es.log.errors import Fenced, LogError, LogUnavailable
from duplex_es.log.memory import MemoryLog
from gateway.leases import Leases

pytestmark = pytest.mark.unit


class Clock:
    """Seconds that pass when told."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Store(MemoryLog):
    """A log that can fall silent, and notes what was renewed."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.silent = False
        self.renewed: list[list[int]] = []

    async def renew(self, attachments, claims):  # type: ignore[no-untyped-def]
        """See ``SessionLog``."""
        if self.silent:
            raise LogUnavailable("silent")
        self.renewed.append([attachment.generation for attachment in attachments])
        return await super().renew(attachments, claims)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return Store(clock)


@pytest.fixture
def leases(store: Store, clock: Clock) -> Leases:
    return Leases(store, interval_s=0.0, patience_s=10.0, clock=clock)


async def attached(store: Store, session_id: str) -> Attachment:
    """A fresh session's attachment."""
    ref = await store.next_incarnation(session_id)
    return await store.create(ref, model="m", token_digest=b"t", gateway="g", record=b"")


async def test_a_held_attachment_outlives_its_lease(store: Store, clock: Clock, leases: Leases) -> None:
    attachment = await attached(store, "s")
    lost: list[LogError] = []
    leases.hold(attachment, lost.append)
    for _ in range(5):
        clock.now_s += 6.0
        await leases.renew()
    assert (await store.head("s")).attached
    leases.release(attachment)
    clock.now_s += 11.0
    await leases.renew()
    assert not (await store.head("s")).attached
    assert lost == []


async def test_a_superseded_one_is_told_once_and_the_others_go_on(store: Store, leases: Leases) -> None:
    old, other = await attached(store, "a"), await attached(store, "b")
    lost: list[LogError] = []
    leases.hold(old, lost.append)
    leases.hold(other, lambda error: pytest.fail(f"not lost: {error}"))
    await store.attach(old.ref, presented_digest=b"t", next_digest=b"u", gateway="h", record=b"")
    await leases.renew()
    await leases.renew()
    assert [type(error) for error in lost] == [Fenced]
    assert store.renewed == [[1, 1], [1]]


async def test_a_silent_log_is_borne_for_a_while_and_then_told_to_everybody(
    store: Store, clock: Clock, leases: Leases
) -> None:
    lost: list[LogError] = []
    for name in ("a", "b"):
        leases.hold(await attached(store, name), lost.append)
    await leases.renew()
    store.silent = True
    clock.now_s += 9.0
    await leases.renew()
    assert lost == []
    clock.now_s += 1.0
    await leases.renew()
    assert [type(error) for error in lost] == [LogUnavailable, LogUnavailable]


async def test_silence_before_the_first_socket_does_not_count(store: Store, clock: Clock, leases: Leases) -> None:
    clock.now_s += 100.0
    await leases.renew()
    attachment = await attached(store, "a")
    leases.hold(attachment, lambda error: pytest.fail(f"not lost: {error}"))
    store.silent = True
    clock.now_s += 1.0
    await leases.renew()


async def test_it_renews_until_it_is_stopped(store: Store, leases: Leases) -> None:
    leases.hold(await attached(store, "a"), lambda error: None)
    task = asyncio.create_task(leases.run())
    while len(store.renewed) < 3:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
