"""The Starlette application: its routes, and the life of what they share."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from duplex_es.protocol import ProtocolError, ResumeSession

from . import endings
from .dialects import asked_dialect
from .endings import Ending
from .handshake import Handshake
from .health import Health
from .opening import open_session
from .peer import Peer
from .query import Query, read_query
from .resuming import resume_session
from .service import Service

POLICY = 1008
_log = logging.getLogger(__name__)


class Sockets:
    """The WebSocket routes of one gateway."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def realtime(self, websocket: WebSocket) -> None:
        """Serve one socket of ``/v1/realtime`` from its upgrade to its close."""
        if (peer := await self._accepted(websocket)) is None:
            return
        try:
            ending = await self._converse(peer, read_query(websocket.query_params), websocket)
        except Exception:
            _log.exception("a socket failed outside any session")
            ending = endings.failed()
        if ending is not None:
            await peer.close(ending.code, ending.reason, ending.last)

    async def duplex(self, websocket: WebSocket) -> None:
        """Refuse ``/v1/duplex``: the native dialect is not spoken here."""
        if (peer := await self._accepted(websocket)) is not None:
            error = ProtocolError("unsupported", "The native dialect is not served; use /v1/realtime.")
            ending = endings.refused_at_the_door(error, POLICY)
            await peer.close(ending.code, ending.reason, ending.last)

    async def _accepted(self, websocket: WebSocket) -> Peer | None:
        """The peer after its upgrade, ``None`` when the gateway takes no more."""
        if self._service.stopping:
            refusal = {"error": {"type": "server_error", "message": "The gateway is stopping; connect to another."}}
            await websocket.send_denial_response(JSONResponse(refusal, 503, {"Retry-After": "1"}))
            return None
        peer = Peer(websocket)
        await peer.accept()
        return peer

    async def _converse(self, peer: Peer, query: Query, websocket: WebSocket) -> Ending | None:
        service = self._service
        try:
            dialect = asked_dialect(websocket)
        except ProtocolError as unknown:
            return endings.refused_at_the_door(unknown)
        if not query.duplex:
            error = ProtocolError("unsupported", "Only the duplex session API is served here; leave out duplex=.")
            return endings.refused_at_the_door(error)
        if service.fault is not None:
            return endings.unavailable_at_the_door()
        settings = service.settings
        handshake = Handshake(
            peer, query, dialect, timeout_s=settings.config_timeout_s, max_event_bytes=settings.max_event_bytes
        )
        wish = await handshake.run()
        if isinstance(wish, Ending):
            return wish
        if isinstance(wish, ResumeSession):
            return await resume_session(service, peer, query, wish)
        return await open_session(service, peer, query, wish)


def create_app(service: Service) -> Starlette:
    """The application of one gateway; ``service`` lives as long as it does."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield

    health, sockets = Health(service), Sockets(service)
    return Starlette(
        routes=[
            Route("/healthz", health.alive),
            Route("/readyz", health.ready),
            Route("/v1/models", health.models),
            WebSocketRoute("/v1/realtime", sockets.realtime),
            WebSocketRoute("/v1/duplex", sockets.duplex),
        ],
        lifespan=lifespan,
    )
