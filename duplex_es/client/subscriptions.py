"""Handing received events to any number of consumers, none of which can hold up the others."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from typing import Protocol

from .errors import DuplexSessionClosedError
from .events import DuplexEvent

QUEUE_EVENTS = 1024


class Subscription:
    """The events received since it was made, in order; async-iterable, by one consumer.

    It holds the newest 1,024 unread events; a consumer that falls further behind misses the oldest, counted in
    ``missed_count``. Iteration ends after an expected end of the session and raises DuplexSessionClosedError after
    any other, in both cases only once everything received before it was read.
    """

    def __init__(self) -> None:
        self.missed_count = 0
        self._queue: deque[DuplexEvent] = deque(maxlen=QUEUE_EVENTS)
        self._changed = asyncio.Event()
        self._is_over = False
        self._failure: str | None = None

    def put(self, event: DuplexEvent) -> None:
        """Add one event; never waits."""
        if len(self._queue) == QUEUE_EVENTS:
            self.missed_count += 1
        self._queue.append(event)
        self._changed.set()

    def end(self, failure: str | None) -> None:
        """Say that nothing follows; with ``failure``, that this was not expected."""
        self._is_over = True
        self._failure = failure
        self._changed.set()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> DuplexEvent:
        while not self._queue:
            if self._is_over:
                if self._failure is not None:
                    raise DuplexSessionClosedError(self._failure)
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._queue.popleft()


class Consumer(Protocol):
    """Anything that takes events without waiting."""

    def put(self, event: DuplexEvent) -> None:
        """Take one event."""

    def end(self, failure: str | None) -> None:
        """Nothing follows; with ``failure``, that was not expected."""


class Subscriptions:
    """All consumers of one client that somebody still holds. After ``end``, new ones are over from the start.

    With ``keeps_first``, what comes before there is any consumer is kept, newest 1,024, for those that are then made
    before the next event.
    """

    def __init__(self, *, keeps_first: bool = False) -> None:
        self._open: weakref.WeakSet[Consumer] = weakref.WeakSet()
        self._first: deque[DuplexEvent] | None = deque(maxlen=QUEUE_EVENTS) if keeps_first else None
        self._is_over = False
        self._failure: str | None = None

    def add(self) -> Subscription:
        """A new subscription, fed from now on while it is held."""
        subscription = Subscription()
        self.feed(subscription)
        return subscription

    def feed(self, consumer: Consumer) -> None:
        """Feed ``consumer`` from now on while it is held."""
        for event in self._first or ():
            consumer.put(event)
        if self._is_over:
            consumer.end(self._failure)
        self._open.add(consumer)

    def discard(self, consumer: Consumer) -> None:
        """Stop feeding a consumer."""
        self._open.discard(consumer)

    def put(self, event: DuplexEvent) -> None:
        """Hand ``event`` to every consumer."""
        consumers = list(self._open)
        if self._first is not None:
            if consumers:
                self._first = None
            else:
                self._first.append(event)
        for consumer in consumers:
            consumer.put(event)

    def end(self, failure: str | None) -> None:
        """Say to all, also to those that come later, that nothing follows. Only the first call counts."""
        if not self._is_over:
            self._is_over, self._failure = True, failure
            for consumer in list(self._open):
                consumer.end(failure)
