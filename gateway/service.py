"""What all sockets of one gateway share: the log, the leases, who is connected, and whether it is stopping."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from duplex_es.log.api import SessionLog
from duplex_es.log.errors import ConfigurationError, LogError, LogUnavailable
from duplex_es.observability import catalogue
from duplex_es.observability.outlets import NOWHERE, Outlets
from duplex_es.observability.readiness import Readiness
from duplex_es.protocol import Plain

from .archived import Archive
from .gate import Gate
from .leases import Leases
from .reporting import Reporter
from .settings import Settings
from .sweeper import Sweeper

CONNECT_AGAIN_S = 1.0
PROBE_S = 2.0
NOTICE_S = 1.0
"""How long a client is left alone after it was told that its gateway stops, also when nothing is under way."""
WATCH_S = 1.0
LOG, SERVING = "log", "serving"
"""What has to be so for sockets to be sent here: the log answers, and the gateway is not stopping."""
_TICK_S = 0.05

_log = logging.getLogger(__name__)


class Departing(Protocol):
    """A connection, as one who stops the gateway sees it."""

    model: str
    """Of the session it holds."""

    @property
    def at_turn_end(self) -> bool:
        """Whether closing it now would cut nothing off."""

    @property
    def blocked_s(self) -> float:
        """For how long its client has taken nothing of what there is for it."""

    @property
    def buffered_bytes(self) -> tuple[int, int]:
        """What it holds on the way up, and on the way down."""

    def drop_if_stalled(self) -> None:
        """End it if its client takes nothing any more."""

    def announce_departure(self, grace_ms: int) -> None:
        """Tell the client that this socket will close within ``grace_ms``."""

    def depart(self) -> None:
        """Close now. Idempotent."""


class Service:
    """One gateway, for as long as it runs. ``fault`` says why the log cannot be used yet, ``None`` once it can.

    ``archive`` has the calls that the log has let go of, for operators; ``None`` where there is none.
    ``sockets`` counts those that are open, with a session or without; ``log_answers`` is what was seen of it last.
    """

    def __init__(
        self, settings: Settings, log: SessionLog, outlets: Outlets = NOWHERE, *, archive: Archive | None = None
    ) -> None:
        self.settings = settings
        self.log = log
        self.outlets = outlets
        self.archive = archive
        self.readiness = Readiness(SERVING, LOG)
        self.readiness.passes(SERVING)
        self.sockets = 0
        self.log_answers = False
        self.gate = Gate(settings.admit_at_once, settings.admit_waiting, settings.admit_patience_s)
        self.leases = Leases(log, interval_s=settings.renew_interval_s, patience_s=settings.log_patience_s)
        self.connections: set[Departing] = set()
        self._sent_off: set[Departing] = set()
        self.stopping = False
        self.fault: str | None = "the log is not connected yet"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Connect the log, as often as it takes, and keep leases alive; give the connections back at the end.

        Enters at once: a gateway without its log answers, and says that it is not ready.
        """
        jobs = (self._connect(), self.leases.run(), self._watch_sockets(), Sweeper(self.log, self.settings).run())
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            async with Reporter(self).reporting():
                yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.log.close_connections()
            await asyncio.to_thread(self.outlets.tracer.close)

    async def _connect(self) -> None:
        while True:
            try:
                await self.log.connect()
            except (LogUnavailable, ConfigurationError) as error:
                self.fault = f"{type(error).__name__}: {error}"
                _log.warning("not ready: %s", self.fault)
                await asyncio.sleep(CONNECT_AGAIN_S)
            else:
                self.fault = None
                _log.info("ready: the log answers")
                return

    async def _watch_sockets(self) -> None:
        """Look now and then whether a client takes nothing any more: what is held for it is bounded, but held."""
        while True:
            await asyncio.sleep(min(WATCH_S, self.settings.stall_s / 4 or WATCH_S))
            for connection in list(self.connections):
                connection.drop_if_stalled()

    def liveness(self) -> Plain:
        """What an answer at all proves, and says."""
        return {"status": "ok", "gateway": self.settings.gateway, "sockets": len(self.connections)}

    async def why_not_ready(self) -> str | None:
        """Why no socket should be sent here now, ``None`` when it may. Asks the log; ``readiness`` says it in full."""
        fault = self.fault or await self._log_fault()
        self.log_answers = not fault
        if fault:
            self.readiness.fails(LOG, fault)
        else:
            self.readiness.passes(LOG)
        return self.readiness.reason or None

    async def _log_fault(self) -> str:
        """Why the log cannot be used, empty when it can."""
        try:
            async with asyncio.timeout(PROBE_S):
                await self.log.ping()
        except LogError as error:
            return f"{type(error).__name__}: {error}"
        except TimeoutError:
            return f"the log did not answer within {PROBE_S:g} s"
        return ""

    async def drain(self, hurry: Callable[[], bool] = lambda: False) -> None:
        """Stop: not ready from now on, tell every client, close each where its answer ends, after ``drain_s`` all.

        Everybody has ``NOTICE_S`` to move elsewhere without a gap first. Ends early when all have gone or ``hurry``
        says so. Sockets that hold no session are not waited for.
        """
        self.stopping = True
        self.readiness.fails(SERVING, "the gateway is stopping")
        loop = asyncio.get_running_loop()
        told_s = loop.time()
        for connection in list(self.connections):
            connection.announce_departure(int(self.settings.drain_s * 1000))
        while self.connections and loop.time() < told_s + self.settings.drain_s and not hurry():
            await asyncio.sleep(_TICK_S)
            for connection in list(self.connections):
                if loop.time() >= told_s + NOTICE_S and connection.at_turn_end:
                    self._send_off(connection, "at_turn_end")
        while self.connections:
            # Again and again: a socket may still have been opening its session when the others were told.
            for connection in list(self.connections):
                self._send_off(connection, "cut")
            if hurry():
                return
            await asyncio.sleep(_TICK_S)

    def _send_off(self, connection: Departing, how: str) -> None:
        if connection not in self._sent_off:
            self._sent_off.add(connection)
            self.outlets.metrics.count(catalogue.DEPARTURES, how)
        connection.depart()
