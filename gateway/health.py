"""The HTTP side: is this process alive, may it be sent sockets, and which models can they ask for."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse

from duplex_es.log.errors import LogError
from duplex_es.protocol import Plain

from .service import Service


class Health:
    """The three routes of one gateway. All answer JSON; none needs a session."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def alive(self, request: Request) -> JSONResponse:
        """200 while the process answers at all; says nothing about the log."""
        return JSONResponse(self._service.liveness())

    async def ready(self, request: Request) -> JSONResponse:
        """200 when sockets may be sent here, else 503; every check with its reason, and since when."""
        await self._service.why_not_ready()
        readiness = self._service.readiness
        return JSONResponse(readiness.report(), 200 if readiness.ready else 503)

    async def models(self, request: Request) -> JSONResponse:
        """The models of the workers that live, as OpenAI lists models; 503 when the log does not say."""
        try:
            if self._service.fault is not None:
                return _error(self._service.fault)
            cards = await self._service.log.fleet()
        except LogError as error:
            return _error(f"{type(error).__name__}: {error}")
        names = sorted({name for card in cards for name in card.models})
        listed: list[Plain] = [{"id": name, "object": "model", "created": 0, "owned_by": "duplex_es"} for name in names]
        return JSONResponse({"object": "list", "data": listed})


def _error(message: str) -> JSONResponse:
    body = {"error": {"type": "server_error", "code": "log_unavailable", "message": message, "param": None}}
    return JSONResponse(body, status_code=503)
