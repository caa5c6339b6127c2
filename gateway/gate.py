"""The one door through which sessions are opened and taken up: a few at a time, the rest in order, a crowd later.

When a gateway dies, all its clients come at once. Each of them costs the log some calls and a catch-up; let in
together they would slow down everybody who is talking, and each other most.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque

from duplex_es.protocol import ProtocolError

AGAIN_MS = (1_000, 3_000)
"""When one who found no place should come again; drawn, so that a crowd does not come back as one."""


def again_ms() -> int:
    """A time to come again after."""
    return random.randint(*AGAIN_MS)


class Gate:
    """Lets ``at_once`` in. Up to ``waiting`` more wait their turn, in order, each at most ``patience_s``."""

    def __init__(self, at_once: int, waiting: int, patience_s: float) -> None:
        self._free = at_once
        self._waiting = waiting
        self._patience_s = patience_s
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._queue)

    def ticket(self) -> Ticket:
        """One passage; nothing is taken yet."""
        return Ticket(self)

    async def enter(self) -> None:
        """Return when it is this caller's turn; ``leave`` once for each. Raises: ProtocolError as ``Ticket``."""
        if self._free > 0:
            self._free -= 1
            return
        if len(self._queue) >= self._waiting:
            raise self._crowded()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(self._patience_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave()  # The turn came while this caller was already giving up.
            with contextlib.suppress(ValueError):
                self._queue.remove(turn)
            if isinstance(error, TimeoutError):
                raise self._crowded() from None
            raise

    def leave(self) -> None:
        """Make room for the next one."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _crowded(self) -> ProtocolError:
        wait_ms = again_ms()
        message = f"Too many clients connect at once; try again in {wait_ms} ms, here or at another gateway."
        return ProtocolError("duplex_session_busy", message, retry_after_ms=wait_ms)


class Ticket:
    """One passage through the gate. ``release`` may be called at any time, and more than once."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._inside = False

    async def admitted(self) -> None:
        """Return when it is this one's turn.

        Raises: ProtocolError ``duplex_session_busy`` when too many wait already, or it took too long.
        """
        await self._gate.enter()
        self._inside = True

    def release(self) -> None:
        """Let the next one in, if this one was."""
        if self._inside:
            self._inside = False
            self._gate.leave()
