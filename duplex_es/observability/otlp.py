"""Spans exported over OTLP/HTTP. Needs the extra ``tracing``; everything else works without it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from .tracing import Attributes, Span, TraceContext

SCOPE = "duplex_es"
TRACES_PATH = "/v1/traces"


class OtlpTracer:
    """The ``Tracer`` that exports to the collector at ``endpoint``, its base URL.

    Samplers, batches and headers are those of the usual ``OTEL_…`` variables. ``resource`` says what runs here.
    """

    def __init__(self, endpoint: str, resource: Mapping[str, str]) -> None:
        exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + TRACES_PATH)
        self._provider = TracerProvider(resource=Resource.create(dict(resource)), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(SCOPE)

    def start(
        self,
        name: str,
        parent: TraceContext | None = None,
        attributes: Attributes | None = None,
        *,
        serves: bool = False,
        at_s: float | None = None,
    ) -> Span:
        """See ``Tracer``."""
        span = self._tracer.start_span(
            name,
            context=None if parent is None else trace.set_span_in_context(_remote(parent)),
            kind=trace.SpanKind.SERVER if serves else trace.SpanKind.INTERNAL,
            attributes=dict(attributes or {}),
            start_time=None if at_s is None else int(at_s * 1e9),
        )
        return _Exported(span)

    def close(self) -> None:
        """See ``Tracer``."""
        self._provider.shutdown()


class _Exported:
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        known = span.get_span_context()
        self.context = TraceContext(f"{known.trace_id:032x}", f"{known.span_id:016x}", known.trace_flags.sampled)

    def put(self, attributes: Attributes) -> None:
        """See ``Span``."""
        self._span.set_attributes(dict(attributes))

    def event(self, name: str, attributes: Attributes | None = None) -> None:
        """See ``Span``."""
        self._span.add_event(name, dict(attributes or {}), time.time_ns())

    def end(self, error: str = "") -> None:
        """See ``Span``."""
        if not self._span.is_recording():
            return
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(trace.StatusCode.ERROR, error)
        self._span.end()


def _remote(parent: TraceContext) -> trace.Span:
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if parent.sampled else trace.TraceFlags.DEFAULT)
    ids = int(parent.trace_id, 16), int(parent.span_id, 16)
    return trace.NonRecordingSpan(trace.SpanContext(*ids, is_remote=True, trace_flags=flags))
