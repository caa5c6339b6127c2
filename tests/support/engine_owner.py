"""The other end of an engine's socket, for tests of the loops that run in the engine's process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from workers.engine.wire import Message, Unpacker, pack

PATIENCE_S = 30.0


class Owner:
    """Says what a worker says, and keeps what it is told until somebody asks for it."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._unpacker = Unpacker()
        self._told: list[tuple[Message, bytes]] = []

    def do(self, do: str, blob: bytes = b"", **more: object) -> None:
        """Ask for one thing."""
        self.send({"do": do, **more}, blob)

    def send(self, message: Message, blob: bytes = b"") -> None:
        """Ask for what is packed already."""
        self._link.sendall(pack(message, blob))

    def do_together(self, *asked: tuple[Message, bytes]) -> None:
        """Ask for several things in one piece: the loop finds all of them when it looks next."""
        self._link.sendall(b"".join(pack(message, blob) for message, blob in asked))

    def told(self, kind: str) -> tuple[Message, bytes]:
        """The next message of this kind; those before it are left out."""
        while True:
            while self._told:
                message, blob = self._told.pop(0)
                self.passed(message, blob)
                if message["is"] == kind:
                    return message, blob
            self._told += self._unpacker.feed(self._link.recv(65_536))

    def passed(self, message: Message, blob: bytes) -> None:
        """Every message goes by here, in order."""


Owning = TypeVar("Owning", bound=Owner)


@contextmanager
def owned(loop: Callable[[socket.socket], Callable[[], None]], owner: type[Owning]) -> Iterator[Owning]:
    """Within it a loop runs in a thread: ``loop`` makes its ``run`` for one end, ``owner`` holds the other."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    running = threading.Thread(target=loop(theirs))
    running.start()
    yield owner(ours)
    ours.close()
    running.join(PATIENCE_S)
    assert not running.is_alive(), "a closed link ends the loop"
    theirs.close()
