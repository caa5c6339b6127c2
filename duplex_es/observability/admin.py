"""The port for those who operate a process: probes and metrics, never clients.

Small on purpose: GET, a fixed set of paths, one request per connection. Nothing a caller sends is kept.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from .readiness import Readiness
from .recording import Metrics

JSON = "application/json"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_S = 5.0
"""How long a caller may take to send its request."""
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error", 503: "Unavailable"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """One answer."""

    status: int
    body: bytes
    content_type: str = JSON

    @classmethod
    def of(cls, said: Mapping[str, object], status: int = 200) -> Page:
        """``said`` as JSON."""
        return cls(status, json.dumps(said).encode())


Answer = Callable[[], Awaitable[Page]]


class AdminServer:
    """Serves ``pages`` by their paths, ``/metrics`` and the like."""

    def __init__(self, pages: Mapping[str, Answer]) -> None:
        self._pages = dict(pages)
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens; after ``start``."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any that is free. Raises: OSError when the port is taken."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=8192)

    async def stop(self) -> None:
        """Stop listening. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            await server.wait_closed()

    async def answer(self, path: str, method: str = "GET") -> Page:
        """The page at ``path``; its query is left out of account."""
        page = self._pages.get(path.partition("?")[0])
        if page is None:
            return Page.of({"error": f"served here are {', '.join(sorted(self._pages))}"}, 404)
        if method not in ("GET", "HEAD"):
            return Page.of({"error": "only GET is served here"}, 405)
        try:
            return await page()
        except Exception as error:
            _log.exception("%s cannot be answered", path)
            return Page.of({"error": type(error).__name__}, 500)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_S)
            method, path = (part.decode("latin-1") for part in head.split(b" ", 2)[:2])
            page = await self.answer(path, method)
            writer.write(
                f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.content_type}\r\n"
                f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n".encode()
                + (page.body if method != "HEAD" else b"")
            )
            await writer.drain()
        except (TimeoutError, ValueError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # A caller that sends no request gets no answer; the next one does.
        finally:
            writer.close()


def exposed(metrics: Metrics) -> Page:
    """``/metrics``: every figure, in the text format of Prometheus."""
    return Page(200, metrics.exposition(), METRICS_TYPE)


def reported(readiness: Readiness) -> Page:
    """``/readyz``: 200 when new work may be sent here, else 503; every check with its reason and since when."""
    return Page.of(readiness.report(), 200 if readiness.ready else 503)


def started(readiness: Readiness) -> Page:
    """``/startupz``: 200 once it was ready for the first time, whatever came later."""
    return Page.of({"started": readiness.started}, 200 if readiness.started else 503)
