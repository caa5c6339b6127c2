"""``duplex-es up`` as a person runs it, for tests of what a person then does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import free_port
from tests.support.services import Service

READY_WORDS = "ready: connect to"


class Up:
    """A running ``duplex-es up``; ``urls`` are its gateways'."""

    def __init__(self, service: Service, ports: list[int]) -> None:
        self._service = service
        self.urls = [f"ws://127.0.0.1:{port}" for port in ports]

    @property
    def words(self) -> str:
        """What it has said so far."""
        return self._service.words

    def kill_gateway(self, url: str) -> None:
        """End the gateway behind ``url``, as a lost machine would. Raises: LookupError when there is none."""
        port = url.rsplit(":", 1)[1]
        pid = self._service.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
            if any("duplex-es-gateway" in word for word in words) and port in words:
                os.kill(int(child), signal.SIGKILL)
                return
        raise LookupError(f"no gateway at {url}:\n{self._service.words}")


def in_a_row(count: int) -> list[int]:
    """Free ports as the program takes them: each the one after the last."""
    ports = [free_port() for _ in range(count)]
    while ports[-1] != ports[0] + count - 1:
        ports = [*ports[1:], free_port()]
    return ports


@contextmanager
def up(model: str, *flags: str, gateways: int = 1) -> Iterator[Up]:
    """The service with a store of its own, once it says that it is ready.

    Raises: RuntimeError or AssertionError with its own words.
    """
    ports = in_a_row(gateways)
    first = ports[0]
    where = ("--port", str(first), "--gateways", str(gateways))
    service = Service("duplex-es", "up", "--model", model, *where, *flags, ready_port=first)
    try:
        service.wait_until_ready()
        while READY_WORDS not in service.words:  # the workers too
            assert service.process.poll() is None, service.words
            time.sleep(0.05)
        yield Up(service, ports)
    finally:
        service.stop()
