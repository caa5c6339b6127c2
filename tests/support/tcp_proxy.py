"""A TCP proxy on loopback that can be slow or deaf, for tests of what a network does to clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class TcpProxy:
    """Passes bytes between its clients and one server. Change the attributes while it runs.

    ``delay_s`` holds each piece of an answer back; ``is_deaf`` swallows answers, so that clients hear nothing more on a
    connection that looks healthy. ``connections`` counts those accepted.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self.port = 0
        self.delay_s = 0.0
        self.is_deaf = False
        self.connections = 0

    @property
    def url(self) -> str:
        """Where Redis clients reach the server through the proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close every connection."""
        if self._server is not None:
            self._server.close()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        server_reader, server_writer = await asyncio.open_connection(*self._target)
        for pump in (self._pump(reader, server_writer, answers=False), self._pump(server_reader, writer, answers=True)):
            task = asyncio.create_task(pump)
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        with suppress(OSError):
            try:
                while data := await reader.read(65_536):
                    if answers and self.is_deaf:
                        continue
                    if answers and self.delay_s:
                        await asyncio.sleep(self.delay_s)
                    writer.write(data)
                    await writer.drain()
            finally:
                writer.close()


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[TcpProxy]:
    """A running proxy to ``port`` of this machine."""
    proxy = TcpProxy("127.0.0.1", port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
