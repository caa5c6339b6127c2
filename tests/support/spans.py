"""A tracer that keeps its spans for a test to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duplex_es.observability.tracing import TraceContext


@dataclass
class SeenSpan:
    """See ``duplex_es.observability.tracing.Span``."""

    name: str
    parent: TraceContext | None
    attributes: dict[str, Any]
    context: TraceContext
    events: list[str] = field(default_factory=list)
    ended: bool = False
    error: str = ""

    def put(self, attributes: Mapping[str, Any]) -> None:
        self.attributes |= attributes

    def event(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        self.events.append(name)

    def end(self, error: str = "") -> None:
        if not self.ended:
            self.ended, self.error = True, error


class SeenTracer:
    """See ``duplex_es.observability.tracing.Tracer``."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []

    def start(
        self,
        name: str,
        parent: TraceContext | None = None,
        attributes: Mapping[str, Any] | None = None,
        *,
        serves: bool = False,
        at_s: float | None = None,
    ) -> SeenSpan:
        made = TraceContext.new()
        context = TraceContext((parent or made).trace_id, made.span_id)
        self.spans.append(SeenSpan(name, parent, dict(attributes or {}), context))
        return self.spans[-1]

    def close(self) -> None:
        """Nothing is left."""
