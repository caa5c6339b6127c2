"""One socket's figures and spans, told in the order in which a socket goes through them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from duplex_es.log.api import Attachment, SessionRef
from duplex_es.observability.lines import SPOT
from duplex_es.observability.outlets import Outlets
from duplex_es.observability.prometheus import PrometheusMetrics
from duplex_es.observability.tracing import TraceContext
from duplex_es.protocol import Error, ProtocolError, SessionClosed
from gateway.watching import OPEN, RESUME, SocketWatch, error_code
from tests.support.spans import SeenTracer

pytestmark = pytest.mark.unit

ATTACHMENT = Attachment(SessionRef("mine", 0), 2, "g1")


@pytest.fixture(autouse=True)
def _elsewhere_as_before() -> Iterator[None]:
    yield
    SPOT.set(None)


class Watched:
    """A socket whose figures and spans can be looked at."""

    def __init__(self, traceparent: str | None = None) -> None:
        self.metrics, self.tracer = PrometheusMetrics("gateway"), SeenTracer()
        self.watch = SocketWatch(Outlets(self.metrics, self.tracer), traceparent)

    def shows(self, *lines: str) -> None:
        """All of these are scraped."""
        text = self.metrics.exposition().decode()
        assert [line for line in lines if line not in text] == []

    def span(self, name: str) -> Any:
        """The span of this name that has ended."""
        return next(span for span in self.tracer.spans if span.name == name and span.ended)


def test_an_opening_that_goes_well() -> None:
    seen = Watched()
    seen.watch.wishes(OPEN)
    seen.watch.admitted()
    seen.watch.holds(ATTACHMENT, "echo", "duplex", lambda: 41)
    spot = SPOT.get()
    assert spot is not None and spot.seq is not None
    assert (spot.session, spot.seq(), spot.trace_id) == ("mine", 41, seen.watch.traceparent.split("-")[1])
    seen.watch.welcomed()
    seen.watch.received(10)
    seen.watch.sent(20)
    seen.watch.passed_on(int(time.time() * 1000) - 30, missed=False)
    seen.watch.caught_up()
    seen.watch.ended(1000, "client_closed", None)
    seen.shows(
        "duplex_gateway_accepted_total 1.0",
        'duplex_gateway_openings_total{outcome="opened"} 1.0',
        'duplex_gateway_admission_wait_seconds_count{kind="open"} 1.0',
        'duplex_gateway_opening_seconds_count{model="echo"} 1.0',
        "duplex_gateway_received_bytes_total 10.0",
        "duplex_gateway_sent_bytes_total 20.0",
        "duplex_gateway_delivery_seconds_count 1.0",
        "duplex_gateway_resume_seconds_count 0.0",
        'duplex_gateway_closes_total{cause="client_closed",code="1000"} 1.0',
    )
    span = seen.span("duplex.socket")
    assert span.attributes["gen_ai.conversation.id"] == "mine"
    assert (span.attributes["duplex.open.outcome"], span.error) == ("opened", "")


def test_a_refusal_counts_under_its_code() -> None:
    seen = Watched()
    seen.watch.wishes(OPEN)
    seen.watch.told(Error.of(ProtocolError("duplex_session_busy", "full")))
    seen.watch.ended(1000, "duplex_session_busy", "duplex_session_busy")
    seen.shows(
        'duplex_gateway_openings_total{outcome="duplex_session_busy"} 1.0',
        'duplex_gateway_errors_total{code="duplex_session_busy"} 1.0',
    )
    assert seen.span("duplex.socket").events == ["duplex.error"]


def test_a_resume_belongs_to_the_trace_of_its_session() -> None:
    seen, origin = Watched(), TraceContext.new()
    assert seen.watch.needs_origin
    seen.watch.wishes(RESUME)
    seen.watch.joins(origin)
    assert TraceContext.read(seen.watch.traceparent).trace_id == origin.trace_id  # type: ignore[union-attr]
    seen.watch.holds(ATTACHMENT, "echo", "duplex", lambda: 0)
    seen.watch.welcomed()
    seen.watch.passed_on(1, missed=True)
    seen.watch.caught_up()
    seen.watch.caught_up()
    seen.watch.ended(1000, "session_replaced", None)
    seen.shows(
        'duplex_gateway_resumes_total{outcome="resumed"} 1.0',
        "duplex_gateway_replayed_frames_total 1.0",
        "duplex_gateway_resume_seconds_count 1.0",
        "duplex_gateway_fenced_total 1.0",
    )
    assert seen.span("duplex.resume").attributes["duplex.replayed_frames"] == 1
    assert seen.span("duplex.resume").parent.trace_id == origin.trace_id


def test_the_trace_of_the_request_goes_before_that_of_the_session() -> None:
    seen = Watched("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert not seen.watch.needs_origin
    seen.watch.wishes(RESUME)
    seen.watch.joins(None)
    assert seen.watch.traceparent.split("-")[1] == "0af7651916cd43dd8448eb211c80319c"


def test_a_session_that_is_over_is_replayed() -> None:
    seen = Watched()
    seen.watch.wishes(RESUME)
    seen.watch.replays()
    seen.watch.ended(1000, "session_closed", None)
    seen.shows('duplex_gateway_resumes_total{outcome="replayed"} 1.0')


def test_a_gateway_that_failed_is_an_error_of_the_span() -> None:
    seen = Watched()
    seen.watch.ended(1011, "gateway_failed", "internal_error")
    assert seen.span("duplex.socket").error == "gateway_failed"


def test_only_errors_have_a_code() -> None:
    assert error_code(ProtocolError("bad_event", "no")) == "bad_event"
    assert error_code(SessionClosed(session_id="s", reason="x")) is None
    assert error_code(None) is None
