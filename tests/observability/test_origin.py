"""The trace of a session, read from the record of its newest socket."""

from __future__ import annotations

import pytest

from duplex_es.log.api import SessionLog
from duplex_es.log.memory import MemoryLog
from duplex_es.observability.origin import trace_of
from duplex_es.observability.tracing import TraceContext
from duplex_es.protocol import SocketAttached, pack_input

pytestmark = pytest.mark.unit


async def attached(log: SessionLog, said: SocketAttached) -> TraceContext | None:
    """What is found of a session that was opened with ``said``."""
    ref = await log.next_incarnation("mine")
    record = pack_input(said, 1).body
    await log.create(ref, model="echo", token_digest=b"", gateway="g", record=record)
    return await trace_of(log, ref, 1)


async def test_the_newest_attachment_tells() -> None:
    context = TraceContext.new()
    said = SocketAttached(generation=1, gateway="g", traceparent=str(context))
    assert await attached(MemoryLog(), said) == context


async def test_an_attachment_without_a_trace_tells_nothing() -> None:
    assert await attached(MemoryLog(), SocketAttached(generation=1, gateway="g")) is None


async def test_what_is_not_there_any_more_tells_nothing() -> None:
    log = MemoryLog()
    ref = await log.next_incarnation("mine")
    assert await trace_of(log, ref, 1) is None
