"""Spans as a collector gets them, over real HTTP."""

from __future__ import annotations

import pytest

from duplex_es.observability.otlp import OtlpTracer
from duplex_es.observability.tracing import TraceContext
from tests.support.collector import Collector

pytestmark = pytest.mark.unit


def test_a_span_arrives_with_all_that_was_said_of_it() -> None:
    parent = TraceContext.new()
    with Collector() as collector:
        tracer = OtlpTracer(collector.url, {"service.name": "duplex-es-worker"})
        outer = tracer.start("outer", parent, {"gen_ai.request.model": "m"}, serves=True, at_s=1_900_000_000.5)
        inner = tracer.start("inner", outer.context)
        inner.event("cut", {"reaction_s": 0.25})
        inner.put({"reasons": ("completed",)})
        inner.end("worker_lost")
        outer.end()
        outer.end("too late")
        tracer.close()
    found = {span.name: span for span in collector.spans}
    assert {span.trace_id for span in collector.spans} == {parent.trace_id}
    assert found["outer"].parent_id == parent.span_id and found["inner"].parent_id == found["outer"].span_id
    assert found["outer"].attributes["gen_ai.request.model"] == "m"
    assert found["outer"].began_s == pytest.approx(1_900_000_000.5)
    assert (found["outer"].is_error, found["inner"].is_error) == (False, True)
    assert found["inner"].attributes == {"reasons": ["completed"], "error.type": "worker_lost"}
    assert found["inner"].events == ["cut"]
    assert found["outer"].service == "duplex-es-worker"


def test_what_the_client_does_not_sample_is_not_exported() -> None:
    with Collector() as collector:
        tracer = OtlpTracer(collector.url, {})
        tracer.start("quiet", TraceContext("a" * 32, "b" * 16, sampled=False)).end()
        tracer.close()
    assert collector.spans == []
