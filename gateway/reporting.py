"""What operators read of a whole gateway: its pages on the port that is theirs, and the figures that nobody else keeps.

Runs only where somebody is meant to look: a gateway without ``--metrics-port`` asks the log for nothing of this.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from duplex_es.log.errors import LogError
from duplex_es.observability import catalogue
from duplex_es.observability.admin import AdminServer, Page, exposed, reported, started
from duplex_es.observability.lag import watch_loop

if TYPE_CHECKING:
    from .service import Service

PROBE_EVERY_S = 2.0
FLEET_EVERY_S = 5.0
BLOCKED_S = 1.0
"""A client that has taken nothing for so long counts as blocked."""


BEGINNINGS: Mapping[catalogue.Counter, tuple[str, ...]] = {
    catalogue.OPENINGS: ("opened", "duplex_session_busy"),
    catalogue.RESUMES: ("resumed", "replayed"),
    catalogue.DEPARTURES: ("at_turn_end", "cut"),
    catalogue.ERRORS: ("internal_error", "log_unavailable", "worker_lost", "runtime_open_failed"),
}
"""What is told as zero from the start, so that the first time it happens is seen as an increase."""


class Reporter:
    """Reports on one gateway for as long as it runs."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._metrics = service.outlets.metrics
        for family, values in BEGINNINGS.items():
            for value in values:
                self._metrics.count(family, value, by=0)
        self._models: set[str] = set()
        self._held: set[str] = set()
        self.admin = AdminServer(
            {
                "/metrics": self._exposed,
                "/healthz": self._alive,
                "/readyz": self._ready,
                "/startupz": self._started,
            }
        )

    @asynccontextmanager
    async def reporting(self) -> AsyncIterator[None]:
        """Listen on the operators' port and keep the figures. Raises: OSError when that port is taken."""
        settings = self._service.settings
        if not settings.metrics_port:
            yield
            return
        self._metrics.at_scrape(self._gather)
        await self.admin.start(settings.metrics_host, settings.metrics_port)
        tasks = [asyncio.create_task(job) for job in (self._probe(), self._count_fleet(), watch_loop(self._metrics))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.admin.stop()

    # -- the pages -------------------------------------------------------------------------------------------------

    async def _exposed(self) -> Page:
        return exposed(self._metrics)

    async def _alive(self) -> Page:
        return Page.of(self._service.liveness())

    async def _ready(self) -> Page:
        await self._service.why_not_ready()
        return reported(self._service.readiness)

    async def _started(self) -> Page:
        return started(self._service.readiness)

    # -- the figures -----------------------------------------------------------------------------------------------

    async def _probe(self) -> None:
        while True:
            await self._service.why_not_ready()
            await asyncio.sleep(PROBE_EVERY_S)

    async def _count_fleet(self) -> None:
        while True:
            with contextlib.suppress(LogError):
                await self.count_fleet()
            await asyncio.sleep(FLEET_EVERY_S)

    async def count_fleet(self) -> None:
        """Look once how many workers there are, and who waits for one. Raises: LogError."""
        cards = await self._service.log.fleet()
        # A model whose last worker is gone is still reported: that is when somebody has to know.
        self._models |= {name for card in cards for name in card.models}
        for model in self._models:
            serving = [card for card in cards if model in card.models]
            used = sum(card.used for card in serving)
            free = sum(max(0, card.slots - card.used) for card in serving)
            self._metrics.set(catalogue.FLEET_WORKERS, len(serving), model)
            self._metrics.set(catalogue.FLEET_SLOTS, used, model, "used")
            self._metrics.set(catalogue.FLEET_SLOTS, free, model, "free")
            self._metrics.set(catalogue.FLEET_WAITING, await self._service.log.waiting(model), model)

    def _gather(self) -> None:
        service, metrics = self._service, self._metrics
        metrics.set(catalogue.READY, service.readiness.ready, "gateway")
        metrics.set(catalogue.DRAINING, service.stopping, "gateway")
        metrics.set(catalogue.LOG_UP, service.log_answers)
        metrics.set(catalogue.CONNECTIONS, service.sockets)
        metrics.set(catalogue.ADMISSION_WAITING, service.gate.waiting)
        connections = list(service.connections)
        held = [connection.model for connection in connections]
        self._held |= set(held)
        for model in self._held:
            metrics.set(catalogue.ATTACHED, held.count(model), model)
        metrics.set(catalogue.BLOCKED, sum(connection.blocked_s > BLOCKED_S for connection in connections))
        buffered = [connection.buffered_bytes for connection in connections]
        metrics.set(catalogue.HELD_BYTES, sum(up for up, _ in buffered), "up")
        metrics.set(catalogue.HELD_BYTES, sum(down for _, down in buffered), "down")
