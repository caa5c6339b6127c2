"""Which trace a session belongs to, read from its log."""

from __future__ import annotations

from duplex_es.log.api import EntryId, SessionLog, SessionRef
from duplex_es.log.errors import LogError
from duplex_es.protocol import RecordUnreadable, SocketAttached, unpack_input

from .tracing import TraceContext

_LAST = 2**62


async def trace_of(log: SessionLog, ref: SessionRef, generation: int) -> TraceContext | None:
    """The trace of the socket that attached under ``generation``; ``None`` when the log does not tell any more."""
    try:
        entries = await log.read_input(ref, EntryId(generation - 1, _LAST), limit=1, audio=False)
        said = unpack_input(entries[0].body).said if entries else None
    except (LogError, RecordUnreadable):
        return None
    return TraceContext.read(said.traceparent) if isinstance(said, SocketAttached) else None
