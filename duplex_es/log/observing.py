"""Who is told what the log goes through: an operator's measurements, taken without the log knowing how."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

from .api import Record
from .errors import LogError

T = TypeVar("T")


class LogObserver(Protocol):
    """Hears of a log's work. Every method returns at once and never raises; ``stream`` is ``input`` or ``output``."""

    def appended(self, stream: str, seconds: float, records: int, size_bytes: int) -> None:
        """``records`` of ``size_bytes`` are in the log, ``seconds`` after they were handed over."""

    def piped(self) -> None:
        """One pipeline of appends went out."""

    def called(self, name: str, seconds: float) -> None:
        """The rare operation ``name`` was answered."""

    def persisted(self, seconds: float) -> None:
        """The store said that what was written would survive."""

    def failed(self, error: Exception) -> None:
        """A call ended in ``error``."""

    def healed(self, records: int) -> None:
        """The store had lost these records and was given them again."""

    def reconnected(self, purpose: str) -> None:
        """A connection was made anew."""

    def delivered(self, stream: str, seconds: float) -> None:
        """A live record was taken by its reader, ``seconds`` after its notification came."""

    def fell_behind(self, stream: str) -> None:
        """A reader let so much come together that it goes on from the stored stream."""


class Unobserved:
    """The ``LogObserver`` of a log that nobody watches."""

    def appended(self, stream: str, seconds: float, records: int, size_bytes: int) -> None:
        """See ``LogObserver``."""

    def piped(self) -> None:
        """See ``LogObserver``."""

    def called(self, name: str, seconds: float) -> None:
        """See ``LogObserver``."""

    def persisted(self, seconds: float) -> None:
        """See ``LogObserver``."""

    def failed(self, error: Exception) -> None:
        """See ``LogObserver``."""

    def healed(self, records: int) -> None:
        """See ``LogObserver``."""

    def reconnected(self, purpose: str) -> None:
        """See ``LogObserver``."""

    def delivered(self, stream: str, seconds: float) -> None:
        """See ``LogObserver``."""

    def fell_behind(self, stream: str) -> None:
        """See ``LogObserver``."""


UNOBSERVED: LogObserver = Unobserved()


async def append_observed(
    observer: LogObserver, stream: str, records: Sequence[Record], landing: Awaitable[None]
) -> None:
    """Await ``landing`` of ``records`` and tell how it went. Raises: whatever it raises."""
    _, seconds = await _timed(observer, landing)
    size = sum(len(record.body) + len(record.audio or b"") for record in records)
    observer.appended(stream, seconds, len(records), size)


async def call_observed(observer: LogObserver, name: str, call: Awaitable[T]) -> T:
    """Await the rare operation ``name`` and tell how it went. Raises: whatever it raises."""
    reply, seconds = await _timed(observer, call)
    observer.called(name, seconds)
    return reply


async def persisted_observed(observer: LogObserver, asked: Awaitable[None]) -> None:
    """Await the store's word and tell how long it took. Raises: whatever it raises."""
    _, seconds = await _timed(observer, asked)
    observer.persisted(seconds)


async def _timed(observer: LogObserver, work: Awaitable[T]) -> tuple[T, float]:
    began_s = time.monotonic()  # An event loop's own clock may be as coarse as a millisecond.
    try:
        outcome = await work
    except LogError as error:
        observer.failed(error)
        raise
    return outcome, time.monotonic() - began_s
