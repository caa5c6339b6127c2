"""A TLS door before a plain port, for clients that speak nothing else; its certificate is made on the spot."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def tls_front(port: int, folder: Path) -> Iterator[tuple[int, Path]]:
    """Serves ``localhost`` over TLS in front of ``port``: yields its own port and the certificate to trust."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    front = Front(port)
    opening = asyncio.start_server(front.serve, "127.0.0.1", 0, ssl=context)
    server = asyncio.run_coroutine_threadsafe(opening, loop).result(10)
    try:
        yield server.sockets[0].getsockname()[1], certificate
    finally:
        asyncio.run_coroutine_threadsafe(front.close(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


class Front:
    """Carries bytes between the clients of a TLS server and one plain port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks: set[asyncio.Task[object]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        plain_reader, plain_writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            ways = [_carry(reader, plain_writer), _carry(plain_reader, writer)]
            await asyncio.wait([asyncio.ensure_future(way) for way in ways], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in (writer, plain_writer):
                one.close()
            self._tasks.discard(task)

    async def close(self, server: asyncio.Server) -> None:
        """Take no more connections and drop those there are."""
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
