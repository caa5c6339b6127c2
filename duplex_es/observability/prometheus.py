"""The ``Metrics`` that Prometheus scrapes: the catalogue's families, and the figures of the process.

Numbers are kept in plain dictionaries and only made into Prometheus's samples when somebody scrapes: all recording is
done by one thread, that of the event loop, and pays for no lock.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

import prometheus_client as client
from prometheus_client import gc_collector, process_collector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from duplex_es import __version__

from . import catalogue
from .catalogue import FAMILIES, Counter, Family, Gauge, Histogram
from .recording import Gather

_OWN = {
    "gateway": ("duplex_gateway_", "duplex_fleet_"),
    "worker": ("duplex_worker_",),
    "archive": ("duplex_archive_",),
}


def families_of(component: str) -> tuple[Family, ...]:
    """What ``component``, ``gateway``, ``worker`` or ``archive``, records: its own families and those that all have."""
    others = tuple(prefix for name, prefixes in _OWN.items() if name != component for prefix in prefixes)
    return tuple(family for family in FAMILIES if not family.name.startswith(others))


class _Spread:
    """The observations of one label set: how many in each bucket, the one above all included, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class PrometheusMetrics(Collector):
    """See ``Metrics``. Families that are not of ``component`` are refused with a KeyError: that is a defect."""

    def __init__(self, component: str) -> None:
        families = families_of(component)
        self._numbers: dict[Family, dict[tuple[str, ...], float]] = {
            family: {} if family.labels else {(): 0.0} for family in families if not isinstance(family, Histogram)
        }
        self._spreads: dict[Histogram, dict[tuple[str, ...], _Spread]] = {
            family: {} if family.labels else {(): _Spread(len(family.buckets))}
            for family in families
            if isinstance(family, Histogram)
        }
        self._gathers: list[Gather] = []
        self._registry = client.CollectorRegistry()
        process_collector.ProcessCollector(registry=self._registry)
        gc_collector.GCCollector(registry=self._registry)
        self._registry.register(self)
        self.set(catalogue.BUILD_INFO, 1, component, __version__, platform.python_version())

    def count(self, family: Counter, *labels: str, by: float = 1.0) -> None:
        """See ``Metrics``."""
        numbers = self._numbers[family]
        numbers[labels] = numbers.get(labels, 0.0) + by

    def set(self, family: Gauge, value: float, *labels: str) -> None:
        """See ``Metrics``."""
        self._numbers[family][labels] = value

    def observe(self, family: Histogram, value: float, *labels: str) -> None:
        """See ``Metrics``. A clock that was set back gives no negative time."""
        spreads = self._spreads[family]
        spread = spreads.get(labels)
        if spread is None:
            spread = spreads[labels] = _Spread(len(family.buckets))
        spread.counts[bisect_left(family.buckets, value)] += 1
        spread.total += max(0.0, value)

    def at_scrape(self, gather: Gather) -> None:
        """See ``Metrics``."""
        self._gathers.append(gather)

    def exposition(self) -> bytes:
        """See ``Metrics``."""
        for gather in self._gathers:
            gather()
        return client.generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Every family as Prometheus's library has it."""
        for family, numbers in self._numbers.items():
            yield _numbered(family, numbers)
        for histogram, spreads in self._spreads.items():
            yield _spread(histogram, spreads)


def _numbered(family: Family, numbers: dict[tuple[str, ...], float]) -> Metric:
    kind = CounterMetricFamily if isinstance(family, Counter) else GaugeMetricFamily
    made: CounterMetricFamily | GaugeMetricFamily = kind(family.name, _sentence(family), labels=family.labels)
    for labels, value in numbers.items():
        made.add_metric(labels, value)
    return made


def _spread(family: Histogram, spreads: dict[tuple[str, ...], _Spread]) -> Metric:
    made = HistogramMetricFamily(family.name, _sentence(family), labels=family.labels)
    bounds = [*map(str, family.buckets), "+Inf"]
    for labels, spread in spreads.items():
        buckets = [(bound, float(count)) for bound, count in zip(bounds, accumulate(spread.counts), strict=True)]
        made.add_metric(labels, buckets, spread.total)
    return made


def _sentence(family: Family) -> str:
    return family.text[0].upper() + family.text[1:] + "."


def documented(families: Iterable[Family] = FAMILIES) -> str:
    """Every family as a Markdown table, for the reference."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{family.name}` | {type(family).__name__.lower()} | {labels} | {family.text} |")
    return "\n".join(rows) + "\n"
