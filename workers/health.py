"""A worker's port for those who operate it: ``/healthz``, ``/readyz``, ``/startupz`` and ``/metrics``.

Alive as long as its loop turns; ready when it can take sessions, else it says why not and since when.
"""

from __future__ import annotations

from duplex_es.observability.admin import AdminServer, Page, exposed, reported, started
from duplex_es.observability.recording import UNMEASURED, Metrics

from .host import Host


class Health:
    """The pages of one worker."""

    def __init__(self, host: Host, metrics: Metrics = UNMEASURED) -> None:
        self._host, self._metrics = host, metrics
        self._server = AdminServer(
            {"/healthz": self._alive, "/readyz": self._ready, "/startupz": self._started, "/metrics": self._exposed}
        )

    async def start(self, address: str, port: int) -> None:
        """Listen. Raises: OSError when the port is taken."""
        await self._server.start(address, port)

    async def stop(self) -> None:
        """Stop listening. Idempotent."""
        await self._server.stop()

    async def _alive(self) -> Page:
        return Page.of({"status": "alive", "used": self._host.used})

    async def _ready(self) -> Page:
        self._host.look_at_model()
        return reported(self._host.readiness)

    async def _started(self) -> Page:
        return started(self._host.readiness)

    async def _exposed(self) -> Page:
        return exposed(self._metrics)
