"""The memory log's live reader: it looks at the lists themselves, the log is its buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .api import AttachmentRaised, Ended, Entry, EntryId, Opened, SessionRef
from .errors import SessionUnknown
from .feed import Feed
from .memory_session import MemorySession


class StoredEntries(Protocol):
    """What a follower reads from; see ``SessionLog``."""

    async def read_output(self, ref: SessionRef, after_seq: int) -> list[Entry]:
        """Entries of ``output``."""

    async def read_input(self, ref: SessionRef, after: EntryId) -> list[Entry]:
        """Entries of ``input``."""


class MemoryFollower(Feed):
    """A ``Follower``. ``session_of`` looks a session up, and raises SessionUnknown when it is gone."""

    def __init__(
        self, stored: StoredEntries, session_of: Callable[[SessionRef], MemorySession], ref: SessionRef, *, output: bool
    ) -> None:
        super().__init__()
        self._stored = stored
        self._session_of = session_of
        self._ref = ref
        self._output = output
        self._opened = False
        self._raised = 0

    async def _advance(self) -> None:
        try:
            session = self._session_of(self._ref)
        except SessionUnknown:
            self._finish("gone")
            return
        wake = session.wake
        if self._output and not self._opened and session.opening is not None:
            self._opened = True
            self._pending.append(Opened(session.opening))
        if self._output and session.generation > self._raised:
            self._raised = session.generation
            self._pending.append(AttachmentRaised(session.generation))
        entries = await self._next_entries()
        if entries:
            self._last = entries[-1].id
            self._pending.extend(entries)
        elif session.state == "closed":
            self._finish(session.reason)
        elif not self._pending:
            await wake.wait()

    def _finish(self, reason: str) -> None:
        self._finished = True
        if self._output:
            self._pending.append(Ended(reason))

    async def _next_entries(self) -> list[Entry]:
        if self._output:
            return await self._stored.read_output(self._ref, self._last.number)
        return await self._stored.read_input(self._ref, self._last)
