"""How a metric is recorded, without saying who keeps it: every part that measures takes a ``Metrics``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .catalogue import Counter, Gauge, Histogram

Gather = Callable[[], None]


class Metrics(Protocol):
    """Takes measurements. Label values come in the order of the family's labels; every method returns at once."""

    def count(self, family: Counter, *labels: str, by: float = 1.0) -> None:
        """Add ``by``, which is not negative."""

    def set(self, family: Gauge, value: float, *labels: str) -> None:
        """The value from now on."""

    def observe(self, family: Histogram, value: float, *labels: str) -> None:
        """One observation, in the unit of the family's name."""

    def at_scrape(self, gather: Gather) -> None:
        """Call ``gather`` before every scrape: for gauges that are cheaper to look up then than to keep."""

    def exposition(self) -> bytes:
        """All of it, in the text format of Prometheus."""


class Unmeasured:
    """The ``Metrics`` of a process that nobody scrapes: forgets everything."""

    def count(self, family: Counter, *labels: str, by: float = 1.0) -> None:
        """See ``Metrics``."""

    def set(self, family: Gauge, value: float, *labels: str) -> None:
        """See ``Metrics``."""

    def observe(self, family: Histogram, value: float, *labels: str) -> None:
        """See ``Metrics``."""

    def at_scrape(self, gather: Gather) -> None:
        """See ``Metrics``."""

    def exposition(self) -> bytes:
        """See ``Metrics``."""
        return b""


UNMEASURED: Metrics = Unmeasured()
