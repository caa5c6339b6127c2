"""What operators read of a whole worker: the figures that no session keeps, and those of the model's engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from duplex_es.model import Model
from duplex_es.observability import catalogue
from duplex_es.observability.recording import Metrics

from .host import Host

BEGINNINGS: Mapping[catalogue.Counter, tuple[tuple[str, ...], ...]] = {
    catalogue.CLAIMS: (("new",), ("handed_over",), ("lost",)),
    catalogue.ENDED: (("closed",), ("handed_over",), ("cut",), ("fenced",), ("given_back",), ("failed",)),
    catalogue.ANSWERS: (("completed",), ("cancelled",), ("failed",)),
    catalogue.CONTINUED: ((),),
    catalogue.TOOL_CALLS: ((),),
    catalogue.UNDERRUNS: ((),),
    catalogue.DROPPED: ((),),
}
"""What is told as zero from the start, so that the first time it happens is seen as an increase."""


class Tick(Protocol):
    """One tick, or unit, of an engine: milliseconds of work, those since it was due, and how many took part."""

    work_ms: float
    after_ms: float
    sessions: int


class Reporter:
    """Reports on ``host``: at every scrape, and at every tick of an engine if the model has one."""

    def __init__(self, host: Host, model: Model, metrics: Metrics) -> None:
        self._host, self._name, self._metrics = host, model.info.name, metrics
        # Only models that step, or work in units, have one; it is no part of the contract.
        self._engine: Any = getattr(model, "engine", None)
        self._restarts = 0
        for family, values in BEGINNINGS.items():
            for value in values:
                metrics.count(family, self._name, *value, by=0)
        metrics.at_scrape(self.gather)
        if self._engine is not None:
            self._engine.heard_tick = self.ticked
            metrics.count(catalogue.LATE_TICKS, self._name, by=0)

    def ticked(self, tick: Tick, late: bool) -> None:
        """The engine did one tick."""
        self._metrics.observe(catalogue.TICK, tick.work_ms / 1000, self._name)
        self._metrics.observe(catalogue.TICK_DELAY, tick.after_ms / 1000, self._name)
        self._metrics.set(catalogue.TICK_SESSIONS, tick.sessions, self._name)
        if late:
            self._metrics.count(catalogue.LATE_TICKS, self._name)

    def loaded(self, seconds: float) -> None:
        """Loading the model and warming it up took so long."""
        self._metrics.set(catalogue.MODEL_LOAD, seconds, self._name)

    def gather(self) -> None:
        """Look up what changes by itself."""
        host, metrics, name = self._host, self._metrics, self._name
        metrics.set(catalogue.READY, host.ready, "worker")
        metrics.set(catalogue.DRAINING, host.is_stopping, "worker")
        metrics.set(catalogue.LOG_UP, host.log_answers)
        metrics.set(catalogue.MODEL_UP, host.model_is_up, name)
        metrics.set(catalogue.SLOTS, host.used, name, "used")
        metrics.set(catalogue.SLOTS, host.free, name, "free")
        attached = host.attached
        metrics.set(catalogue.SESSIONS, attached, name, "attached")
        metrics.set(catalogue.SESSIONS, host.used - attached, name, "detached")
        if self._engine is not None:
            restarts = max(0, self._engine.starts - 1)
            metrics.count(catalogue.ENGINE_RESTARTS, name, by=restarts - self._restarts)
            self._restarts = restarts
