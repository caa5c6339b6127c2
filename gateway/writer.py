"""One socket's right to write: numbers its input records and appends them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from duplex_es.log.api import Attachment, Record, SessionLog
from duplex_es.protocol import Said, SocketDetached, pack_input


def record_of(said: Said) -> Record:
    """The input record of ``said``, heard now."""
    body, audio = pack_input(said, time.time_ns() // 1_000_000)
    return Record(body, audio)


class InputWriter:
    """Appends what was said under one attachment, in order, from index 1. One task at a time.

    An append that fails or is cancelled uses up its indexes: whether it landed is not known, so nothing else may
    take them.
    """

    def __init__(self, log: SessionLog, attachment: Attachment) -> None:
        self.attachment = attachment
        self._log = log
        self._next_index = 1

    async def append(self, records: Sequence[Record]) -> None:
        """Returning means: in the log, in this order. Raises: LogError as ``append_input``."""
        first, self._next_index = self._next_index, self._next_index + len(records)
        await self._log.append_input(self.attachment, first, records)

    async def say(self, *said: Said) -> None:
        """Append each of ``said``, in one call."""
        await self.append([record_of(one) for one in said])

    async def detach(self, cause: str) -> None:
        """Write that the socket is gone, and leave the session. Raises: LogError as ``detach``."""
        left = SocketDetached(generation=self.attachment.generation, reason=cause)
        await self._log.detach(self.attachment, record_of(left).body)
