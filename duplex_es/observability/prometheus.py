"""The ``Metrics`` that Prometheus scrapes: a registry of its own, the process's figures, and the catalogue.

Children are looked up once per label set and kept, so that a measurement costs a dictionary access and the client
library's own addition.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable

import prometheus_client as client
from prometheus_client import gc_collector, process_collector

from duplex_es import __version__

from . import catalogue
from .catalogue import FAMILIES, Counter, Family, Gauge, Histogram
from .recording import Gather

_OWN = {"gateway": ("duplex_gateway_", "duplex_fleet_"), "worker": ("duplex_worker_",)}


def families_of(component: str) -> tuple[Family, ...]:
    """What ``component``, ``gateway`` or ``worker``, records: its own families and those that both have."""
    others = tuple(prefix for name, prefixes in _OWN.items() if name != component for prefix in prefixes)
    return tuple(family for family in FAMILIES if not family.name.startswith(others))


class PrometheusMetrics:
    """See ``Metrics``. Families that are not of ``component`` are refused with a KeyError: that is a defect."""

    def __init__(self, component: str) -> None:
        # One more series for each, of which nobody asks anything.
        client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = client.CollectorRegistry()
        process_collector.ProcessCollector(registry=self._registry)
        gc_collector.GCCollector(registry=self._registry)
        self._made = {family: _made(family, self._registry) for family in families_of(component)}
        self._children: dict[tuple[Family, tuple[str, ...]], client.Counter | client.Gauge | client.Histogram] = {}
        self._gathers: list[Gather] = []
        self.set(catalogue.BUILD_INFO, 1, component, __version__, platform.python_version())

    def count(self, family: Counter, *labels: str, by: float = 1.0) -> None:
        """See ``Metrics``."""
        self._child(family, labels).inc(by)

    def set(self, family: Gauge, value: float, *labels: str) -> None:
        """See ``Metrics``."""
        self._child(family, labels).set(value)

    def observe(self, family: Histogram, value: float, *labels: str) -> None:
        """See ``Metrics``. A clock that was set back gives no negative time."""
        self._child(family, labels).observe(max(0.0, value))

    def at_scrape(self, gather: Gather) -> None:
        """See ``Metrics``."""
        self._gathers.append(gather)

    def exposition(self) -> bytes:
        """See ``Metrics``."""
        for gather in self._gathers:
            gather()
        return client.generate_latest(self._registry)

    def _child(self, family: Family, labels: tuple[str, ...]):  # type: ignore[no-untyped-def]
        key = (family, labels)
        child = self._children.get(key)
        if child is None:
            made = self._made[family]
            child = self._children[key] = made.labels(*labels) if labels else made
        return child


def _made(family: Family, registry: client.CollectorRegistry) -> client.Counter | client.Gauge | client.Histogram:
    text = family.text[0].upper() + family.text[1:] + "."
    if isinstance(family, Histogram):
        return client.Histogram(family.name, text, family.labels, buckets=family.buckets, registry=registry)
    kind = client.Counter if isinstance(family, Counter) else client.Gauge
    return kind(family.name, text, family.labels, registry=registry)


def documented(families: Iterable[Family] = FAMILIES) -> str:
    """Every family as a Markdown table, for the reference."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{family.name}` | {type(family).__name__.lower()} | {labels} | {family.text} |")
    return "\n".join(rows) + "\n"
