"""uvicorn, set up for sockets that carry calls, and stopped so that the calls survive."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from .app import create_app
from .liveness import LivelySocket
from .service import Service
from .settings import Settings

TRANSPORT_MAX_BYTES = 32 * 1024 * 1024
"""A larger WebSocket message ends the connection with 1009. The limit on events is half of it, so that an event which
is too large is read and refused by name."""
ABANDON_S = 5
"""How long a stopping server waits for sockets that are closed already to be done."""

_log = logging.getLogger(__name__)


def server_config(service: Service) -> uvicorn.Config:
    """The one configuration that gateways run under."""
    settings: Settings = service.settings
    return uvicorn.Config(
        create_app(service),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        ws=LivelySocket,
        ws_max_size=TRANSPORT_MAX_BYTES,
        # Compression would cost each socket some 250 KiB and saves nothing on base64 of sound.
        ws_per_message_deflate=False,
        ws_ping_interval=settings.ping_interval_s,
        ws_ping_timeout=settings.ping_timeout_s,
        timeout_graceful_shutdown=ABANDON_S,
        lifespan="on",
        access_log=False,
        log_config=None,
    )


class GatewayServer(uvicorn.Server):
    """Serves one gateway. SIGTERM or SIGINT drains it, and ``run`` then returns; a second SIGINT hurries."""

    def __init__(self, service: Service) -> None:
        super().__init__(server_config(service))
        self._service = service

    @property
    def port(self) -> int:
        """The port it listens on; after ``startup``."""
        return int(self.servers[0].sockets[0].getsockname()[1])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn, then say where to connect."""
        await super().startup(sockets)
        settings = self._service.settings
        _log.info("gateway %s listens on ws://%s:%d/v1/realtime", settings.gateway, settings.host, self.port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain while still listening, so that probes and newcomers get an answer; then close everything."""
        _log.info("gateway %s stops: %d sockets", self._service.settings.gateway, len(self._service.connections))
        await self._service.drain(lambda: self.force_exit)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT. Unlike uvicorn's own, the signal is used up: a drained exit is a success."""
        loop = asyncio.get_running_loop()
        stops = (signal.SIGTERM, signal.SIGINT)
        for number in stops:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in stops:
                loop.remove_signal_handler(number)
