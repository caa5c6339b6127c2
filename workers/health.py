"""``/healthz`` and ``/readyz`` of a worker: alive as long as its loop turns, ready when it can take sessions."""

from __future__ import annotations

import asyncio
import json

from .host import Host

_REASONS = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


class Health:
    """Answers two fixed paths on one port, one request per connection. Nothing a caller sends is kept."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._server: asyncio.Server | None = None

    async def start(self, address: str, port: int) -> None:
        """Listen. Raises: OSError when the port is taken."""
        self._server = await asyncio.start_server(self._serve, address, port, limit=8192)

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def answer(self, path: str) -> tuple[int, dict[str, object]]:
        """Status and body for ``path``."""
        if path == "/healthz":
            return 200, {"status": "alive"}
        if path == "/readyz":
            if self._host.ready:
                return 200, {"status": "ready", "used": self._host.used}
            return 503, {"status": "not ready", "reason": self._host.reason}
        return 404, {"error": "only /healthz and /readyz are served here"}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
            path = head.split(b" ", 2)[1].decode("latin-1").partition("?")[0]
            status, body = self.answer(path)
            payload = json.dumps(body).encode()
            writer.write(
                f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n".encode()
                + payload
            )
            await writer.drain()
        except (TimeoutError, IndexError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # A caller that sends no request gets no answer; the next one does.
        finally:
            writer.close()
