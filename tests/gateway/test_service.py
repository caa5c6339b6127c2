"""Connecting as often as it takes, being ready or saying why not, and stopping without cutting anybody off early."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.errors import ConfigurationError, LogUnavailable
from duplex_es.log.memory import MemoryLog
from gateway import service as module
from gateway.service import Service
from tests.gateway.stage import settings_of, until

pytestmark = pytest.mark.unit


class LateLog(MemoryLog):
    """A log that fails in each of these ways first; ``ping`` hangs while ``hangs``."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self.failures = list(failures)
        self.hangs = False
        self.closed = False

    async def connect(self) -> None:
        """See ``SessionLog``."""
        if self.failures:
            raise self.failures[0]

    async def ping(self) -> None:
        """See ``SessionLog``."""
        if self.hangs:
            await asyncio.Event().wait()
        await self.connect()

    async def close_connections(self) -> None:
        """See ``SessionLog``."""
        self.closed = True


class Socket:
    """A connection that leaves when told to, or when it hears that it should."""

    def __init__(self, service: Service, *, obedient: bool) -> None:
        self.service, self.obedient = service, obedient
        self.told: list[object] = []
        service.connections.add(self)

    at_turn_end = False

    def drop_if_stalled(self) -> None:
        """Never stalled."""
        self.told.append("looked at")

    def announce_departure(self, grace_ms: int) -> None:
        """Note it, and leave if obedient."""
        self.told.append(grace_ms)
        if self.obedient:
            self.service.connections.discard(self)

    def depart(self) -> None:
        """Leave."""
        self.told.append("depart")
        self.service.connections.discard(self)


@pytest.mark.parametrize("failure", [LogUnavailable("no route"), ConfigurationError("maxmemory-policy is allkeys-lru")])
async def test_it_is_not_ready_says_why_and_keeps_trying(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_AGAIN_S", 0)
    log = LateLog(failure)
    service = Service(settings_of(), log)
    async with service.running():
        await until(lambda: service.fault is not None and str(failure) in service.fault)
        reason = await service.why_not_ready()
        assert reason is not None
        assert str(failure) in reason
        log.failures.clear()
        await until(lambda: service.fault is None)
        assert await service.why_not_ready() is None
    assert log.closed


async def test_a_log_that_was_there_and_is_gone_makes_it_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    log = LateLog()
    service = Service(settings_of(), log)
    async with service.running():
        await until(lambda: service.fault is None)
        log.failures.append(LogUnavailable("connection refused"))
        assert await service.why_not_ready() == "LogUnavailable: connection refused"
        log.failures.clear()
        log.hangs = True
        monkeypatch.setattr(module, "PROBE_S", 0.01)
        assert await service.why_not_ready() == "the log did not answer within 0.01 s"


async def test_stopping_tells_everybody_waits_and_then_closes_who_is_left() -> None:
    service = Service(settings_of(drain_s=0.1), MemoryLog())
    quick, slow = Socket(service, obedient=True), Socket(service, obedient=False)
    await service.drain()
    assert (quick.told, slow.told) == ([100], [100, "depart"])
    assert await service.why_not_ready() == "the gateway is stopping"


async def test_a_session_that_opens_while_the_gateway_stops_is_closed_too() -> None:
    service = Service(settings_of(drain_s=0.0), MemoryLog())
    first = Socket(service, obedient=False)
    late: list[Socket] = []
    first.depart = lambda: (service.connections.discard(first), late.append(Socket(service, obedient=False)))  # type: ignore[method-assign,assignment]
    await asyncio.wait_for(service.drain(), 30)
    assert late[0].told == ["depart"]


async def test_stopping_is_quick_when_nobody_is_there_or_when_hurried() -> None:
    service = Service(settings_of(drain_s=60.0), MemoryLog())
    await asyncio.wait_for(service.drain(), 30)
    slow = Socket(service, obedient=False)
    await asyncio.wait_for(service.drain(lambda: True), 30)
    assert slow.told == [60_000, "depart"]


async def test_who_has_no_answer_under_way_is_closed_after_a_moments_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOTICE_S", 0.1)
    service = Service(settings_of(drain_s=60.0), MemoryLog())
    idle, busy = Socket(service, obedient=False), Socket(service, obedient=False)
    idle.at_turn_end = True
    draining = asyncio.create_task(service.drain())
    await until(lambda: idle not in service.connections)
    assert (idle.told, busy.told) == ([60_000, "depart"], [60_000])
    busy.at_turn_end = True
    await asyncio.wait_for(draining, 30)
    assert busy.told == [60_000, "depart"]


async def test_every_socket_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCH_S", 0.001)
    service = Service(settings_of(), MemoryLog())
    socket = Socket(service, obedient=True)
    async with service.running():
        await until(lambda: socket.told.count("looked at") > 2)
