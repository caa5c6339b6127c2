"""An engine's process as the worker starts it, and one more of it that waits for the first to die."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .wire import Message, Unpacker, pack

READ_BYTES = 1 << 20
REST_S = 1.0
LONGEST_REST_S = 60.0
DROP_S = 0.5
"""One that waits has nothing to finish."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Child:
    """One process and the socket to it. What it says is for whoever has it."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended yet, as far as is known."""
        return self.process.returncode is None

    @property
    def can_hear(self) -> bool:
        """Whether its end of the socket is open."""
        return not self.writer.is_closing()

    def say(self, message: Message, blob: bytes = b"") -> None:
        """Send a message."""
        self.writer.write(pack(message, blob))

    async def end(self, patience_s: float = 5.0) -> None:
        """Hang up, wait for its end, and kill it if that takes longer. Idempotent."""
        self.writer.close()
        try:
            async with asyncio.timeout(patience_s):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


class Standby:
    """Keeps one process that has prepared all it can and waits to be told to load.

    ``spawn`` starts one. One that ends while it waits is started again, each time after a longer rest.
    """

    def __init__(self, spawn: Callable[[], Awaitable[Child]]) -> None:
        self._spawn = spawn
        self._child: Child | None = None
        self._keeping: asyncio.Task[None] | None = None
        self.prepared = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The number of the process that waits, if one does."""
        return self._child.process.pid if self._child is not None and self._child.is_running else None

    def begin(self, *, after_s: float = 0.0) -> None:
        """From ``after_s`` seconds on have one that waits. Idempotent."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(after_s), name="duplex-es-standby")

    async def take(self) -> Child | None:
        """The one that waits, or is about to, to be told to load; none is kept until the next ``begin``."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])
        child, self._child = self._child, None
        self.prepared.clear()
        return child if child is not None and child.is_running else None

    async def drop(self) -> None:
        """End the one that waits; none is kept until the next ``begin``. Idempotent."""
        if child := await self.take():
            await child.end(DROP_S)

    async def _keep(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        rest_s = REST_S
        while True:
            try:
                self._child = child = await self._spawn()
                await self._hear(child)
                _log.warning("a waiting engine ended with status %s", await child.process.wait())
            except OSError as error:
                _log.warning("a waiting engine cannot be started: %s", error)
            self._child = None
            self.prepared.clear()
            await asyncio.sleep(rest_s)
            rest_s = min(LONGEST_REST_S, 2 * rest_s)

    async def _hear(self, child: Child) -> None:
        """Until it has said that it is prepared; what comes after that is for others."""
        unpacker = Unpacker()
        while data := await child.reader.read(READ_BYTES):
            if any(message["is"] == "prepared" for message, _ in unpacker.feed(data)):
                self.prepared.set()
                return
