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
from duplex_es.protocol.dialects import DUPLEX, GA

from . import endings
from .calls import Calls
from .dialects import Voice, asked_dialect
from .endings import Ending
from .handshake import Handshake
from .health import Health
from .opening import open_session
from .operators import Operators
from .pages import Pages, listed
from .peer import Peer
from .query import read_query
from .resuming import resume_session
from .service import Service
from .watching import SocketWatch

_log = logging.getLogger(__name__)


class Sockets:
    """The WebSocket routes of one gateway."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one socket from its upgrade to its close, in the dialect that its request asks for."""
        if (peer := await self._accepted(websocket)) is None:
            return
        self._service.sockets += 1
        try:
            await self._serve(peer, websocket)
        finally:
            self._service.sockets -= 1

    async def _serve(self, peer: Peer, websocket: WebSocket) -> None:
        try:
            ending = await self._converse(peer, websocket)
        except Exception:
            _log.exception("a socket failed outside any session")
            ending = endings.failed()
        if ending is not None:
            await endings.conclude(peer, ending)

    async def refuse(self, websocket: WebSocket) -> None:
        """Say that there are no sockets here."""
        message = f"No sockets at {websocket.url.path}; connect to /v1/realtime."
        refusal = {"error": {"type": "invalid_request_error", "code": "not_found", "message": message, "param": None}}
        await websocket.send_denial_response(JSONResponse(refusal, 404))

    async def _accepted(self, websocket: WebSocket) -> Peer | None:
        """The peer after its upgrade, ``None`` when the gateway takes no more."""
        if self._service.stopping:
            refusal = {"error": {"type": "server_error", "message": "The gateway is stopping; connect to another."}}
            await websocket.send_denial_response(JSONResponse(refusal, 503, {"Retry-After": "1"}))
            return None
        watch = SocketWatch(self._service.outlets, websocket.headers.get("traceparent"))
        peer = Peer(websocket, watch)
        await peer.accept()
        return peer

    async def _converse(self, peer: Peer, websocket: WebSocket) -> Ending | None:
        service, settings = self._service, self._service.settings
        query = read_query(websocket.query_params)
        try:
            # A model in the query is how stock clients begin; without one, the first event decides.
            peer.voice = Voice(asked_dialect(websocket), GA if query.model else DUPLEX)
        except ProtocolError as unknown:
            return endings.refused_at_the_door(unknown)
        if service.fault is not None:
            return endings.unavailable_at_the_door()
        handshake = Handshake(
            peer, query, timeout_s=settings.config_timeout_s, max_event_bytes=settings.max_event_bytes
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

    health, sockets, settings = Health(service), Sockets(service), service.settings
    calls = Calls(service, Operators(settings.operator_secret()))
    pages = None
    if settings.pages == "on":
        pages = Pages(gateways=listed(settings.page_gateways), default_model=settings.default_model)
    return Starlette(
        routes=[
            Route("/healthz", health.alive),
            Route("/readyz", health.ready),
            Route("/v1/models", health.models),
            WebSocketRoute("/v1/realtime", sockets.serve),
            WebSocketRoute("/v1/duplex", sockets.serve),
            *calls.routes(),
            *(pages.routes if pages else []),
            *(_call_pages(pages) if pages else []),
            WebSocketRoute("/{path:path}", sockets.refuse),
        ],
        lifespan=lifespan,
    )


def _call_pages(pages: Pages) -> list[Route]:
    """The pages of recorded calls; what they show they ask ``Calls`` for."""
    return [
        Route("/sessions", pages.document("timeline/index.html")),
        Route("/sessions/{session}", pages.document("timeline/session.html")),
    ]
