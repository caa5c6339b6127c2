"""Moves the acknowledged seq of one session: many acknowledgements of a client, few writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from duplex_es.log.api import Attachment, SessionLog
from duplex_es.log.errors import SessionUnknown

INTERVAL_S = 0.25
"""How long after a write the next one waits; the boundary it moves is not urgent."""


class Acknowledger:
    """Takes in acknowledged seqs and writes the highest one now and then.

    ``known_seq`` returns the highest seq that this socket's client can have received.
    """

    def __init__(self, log: SessionLog, attachment: Attachment, known_seq: Callable[[], int]) -> None:
        self._log = log
        self._attachment = attachment
        self._known_seq = known_seq
        self._noted = 0
        self._written = 0
        self._something = asyncio.Event()

    def covers(self, seq: int) -> bool:
        """Whether a frame of ``seq`` was sent; one that was not is the session's to refuse."""
        return seq <= self._known_seq()

    def note(self, seq: int) -> None:
        """The client has everything up to ``seq``."""
        if seq > self._noted:
            self._noted = seq
            self._something.set()

    async def run(self) -> None:
        """Write what is noted, as long as the session lasts. Raises: LogError as ``acknowledge``."""
        while True:
            await self._something.wait()
            self._something.clear()
            try:
                await self.flush()
            except SessionUnknown:
                return  # The session is over; its end reaches the client another way.
            await asyncio.sleep(INTERVAL_S)

    async def flush(self) -> None:
        """Write what is noted and not yet written. Raises: LogError as ``acknowledge``."""
        if self._noted > self._written:
            seq = self._noted
            await self._log.acknowledge(self._attachment, seq)
            self._written = seq
