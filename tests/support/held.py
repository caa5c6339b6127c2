"""A process that owns memory, as a thread of the test: engines come and go, what they left is there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workers.engine.holding import Holding
from workers.engine.holding_process import Holder

Lines = Callable[[], Holding]


@contextmanager
def holder() -> Iterator[Lines]:
    """Makes lines to one holder, each as for an engine's process of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    running = threading.Thread(target=Holder(theirs, linger_s=0.0).run)
    running.start()

    def line() -> Holding:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with one:
            socket.send_fds(ours, [b"+"], [one.fileno()])
        return Holding(other)

    try:
        yield line
    finally:
        ours.close()
        running.join(10)
        assert not running.is_alive()
