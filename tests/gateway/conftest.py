"""One log, one worker, one gateway, for tests that need nothing special."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from duplex_es.log.memory import MemoryLog
from tests.gateway.stage import FakeWorker, Gateway, running


@pytest.fixture
def log() -> MemoryLog:
    """A log in this process."""
    return MemoryLog()


@pytest.fixture
async def worker(log: MemoryLog) -> AsyncIterator[FakeWorker]:
    """A worker that serves ``cascade`` from ``log``."""
    async with FakeWorker(log).working() as worker:
        yield worker


@pytest.fixture
async def gateway(log: MemoryLog, worker: FakeWorker) -> AsyncIterator[Gateway]:
    """A gateway on ``log``, with ``worker`` behind it."""
    async with running(log) as gateway:
        yield gateway
