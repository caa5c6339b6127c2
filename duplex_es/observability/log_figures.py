"""What the log goes through, as metrics."""

from __future__ import annotations

from duplex_es.log.errors import LogUnavailable

from . import catalogue
from .recording import Metrics


class LogFigures:
    """The ``LogObserver`` of a process whose figures are scraped."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        for kind in ("LogUnavailable", "TailLost", "Fenced"):
            metrics.count(catalogue.LOG_ERRORS, kind, by=0)
        for purpose in ("append", "call", "read", "subscribe", "vouch"):
            metrics.count(catalogue.LOG_RECONNECTS, purpose, by=0)
        for stream in ("input", "output"):
            metrics.count(catalogue.LOG_BEHIND, stream, by=0)

    def appended(self, stream: str, seconds: float, records: int, size_bytes: int) -> None:
        """See ``LogObserver``."""
        self._metrics.observe(catalogue.LOG_APPEND, seconds, stream)
        self._metrics.count(catalogue.LOG_RECORDS, stream, by=records)
        self._metrics.count(catalogue.LOG_BYTES, stream, by=size_bytes)

    def piped(self) -> None:
        """See ``LogObserver``."""
        self._metrics.count(catalogue.LOG_PIPELINES)

    def called(self, name: str, seconds: float) -> None:
        """See ``LogObserver``."""
        self._metrics.observe(catalogue.LOG_CALL, seconds, name)

    def persisted(self, seconds: float) -> None:
        """See ``LogObserver``."""
        self._metrics.observe(catalogue.LOG_PERSIST, seconds)

    def failed(self, error: Exception) -> None:
        """See ``LogObserver``."""
        kind = LogUnavailable if isinstance(error, LogUnavailable) else type(error)
        self._metrics.count(catalogue.LOG_ERRORS, kind.__name__)

    def healed(self, records: int) -> None:
        """See ``LogObserver``."""
        self._metrics.count(catalogue.LOG_HEALED, by=records)

    def reconnected(self, purpose: str) -> None:
        """See ``LogObserver``."""
        self._metrics.count(catalogue.LOG_RECONNECTS, purpose)

    def delivered(self, stream: str, seconds: float) -> None:
        """See ``LogObserver``."""
        self._metrics.observe(catalogue.LOG_DELIVERY, seconds, stream)

    def fell_behind(self, stream: str) -> None:
        """See ``LogObserver``."""
        self._metrics.count(catalogue.LOG_BEHIND, stream)
