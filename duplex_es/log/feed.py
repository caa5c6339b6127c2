"""What followers of every backend share: iteration whose pending step may be cancelled without losing anything."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque

from .api import START, Entry, EntryId, Notice


class Feed(ABC):
    """An async iterator that is started once and then filled step by step.

    A generator would be finished by the first cancelled ``anext``; here the next one goes on where it was.
    """

    def __init__(self) -> None:
        self._started = asyncio.Event()
        self._last: EntryId = START
        self._pending: deque[Entry | Notice] = deque()
        self._finished = False

    def start(self, after: EntryId) -> None:
        """Begin after ``after``. See ``Follower``."""
        self._last = after
        self._started.set()

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> Entry | Notice:
        await self._started.wait()
        while not self._pending:
            if self._finished:
                raise StopAsyncIteration
            await self._advance()
        return self._pending.popleft()

    @abstractmethod
    async def _advance(self) -> None:
        """Add to ``_pending``, set ``_finished``, or wait until there is something to do. Safe to cancel."""
