"""This service as somebody's backend: a gateway on a loopback port and a worker, in the test's own process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from duplex_es.log.memory import MemoryLog
from duplex_es.model import Model
from tests.gateway.stage import Gateway, running
from tests.support.calls import serving


@asynccontextmanager
async def realtime_backend(model: Model, log: MemoryLog | None = None, **worker: Any) -> AsyncIterator[Gateway]:
    """A service with ``model`` as its default until the block ends; ``worker`` are its host's settings."""
    log = log or MemoryLog()
    async with (
        serving(log, model, worker="there", **{"slots": 64, **worker}),
        running(log, default_model=model.info.name) as gateway,
    ):
        yield gateway
