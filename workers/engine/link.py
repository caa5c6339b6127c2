"""The engine's end of the socket to its worker: never waits, so that whoever owns it decides when to."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from .wire import Message, Unpacker, pack

READ_BYTES = 1 << 20


class Link:
    """Messages over ``socket``, which it makes non-blocking. ``is_broken`` once the worker is gone."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._socket = link
        self._unpacker = Unpacker()
        self._outbox = bytearray()
        self.is_broken = False

    def fileno(self) -> int:
        """For ``select``."""
        return self._socket.fileno()

    @property
    def has_more(self) -> bool:
        """Whether something waits to be sent: ``flush`` once the socket takes it."""
        return bool(self._outbox)

    def tell(self, message: Message, blob: bytes = b"") -> None:
        """Send a message, or as much of it as goes; the rest waits for ``flush``."""
        self._outbox += pack(message, blob)
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes."""
        try:
            sent = self._socket.send(self._outbox)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            self.is_broken = True
            return
        del self._outbox[:sent]

    def received(self) -> Iterator[tuple[Message, bytes]]:
        """The messages that have arrived whole; a ``ping`` is none, it is answered here. Raises: WireBroken."""
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            data = b""
        if not data:
            self.is_broken = True
        for message, blob in self._unpacker.feed(data):
            if message.get("do") == "ping":
                self.tell({"is": "pong"})
            else:
                yield message, blob
