"""``traceparent`` as W3C writes it, and processes that only pass it on."""

from __future__ import annotations

import pytest

from duplex_es.observability.tracing import UNTRACED, TraceContext

pytestmark = pytest.mark.unit

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_header_is_read_and_written_again() -> None:
    context = TraceContext.read(HEADER)
    assert context == TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", True)
    assert str(context) == HEADER
    unsampled = TraceContext.read(HEADER[:-1] + "0")
    assert unsampled is not None and not unsampled.sampled


@pytest.mark.parametrize(
    "header",
    [
        *("", "nonsense", None, 7, HEADER.upper(), HEADER + "-more", HEADER.replace("00-", "ff-", 1)),
        *(HEADER[:-1], "00-" + "0" * 32 + HEADER[35:], HEADER[:36] + "0" * 16 + "-01"),
    ],
)
def test_what_is_no_header_begins_a_new_trace(header: object) -> None:
    assert TraceContext.read(header) is None


def test_a_later_version_may_say_more() -> None:
    assert TraceContext.read("01" + HEADER[2:] + "-more") == TraceContext.read(HEADER)


def test_new_traces_differ() -> None:
    assert TraceContext.new().trace_id != TraceContext.new().trace_id


def test_a_process_that_exports_nothing_passes_the_trace_on() -> None:
    parent = TraceContext.new()
    span = UNTRACED.start("x", parent, {"a": 1}, serves=True, at_s=1.0)
    span.put({"b": 2})
    span.event("c")
    span.end("failed")
    assert span.context == parent
    assert UNTRACED.start("y").context.sampled
    UNTRACED.close()
