"""How connections end: the last frame, the close code and reason, and what becomes of the session."""

from __future__ import annotations

from dataclasses import dataclass

from duplex_es.log.api import Attachment
from duplex_es.log.errors import Fenced, LogError, LogUnavailable, PositionGone, SessionUnknown, TailLost
from duplex_es.protocol import Error, ErrorCode, ProtocolError, SessionResyncRequired
from duplex_es.protocol.dialects import STOCK

from . import edge
from .dialects import Told
from .peer import Gone, Peer
from .watching import error_code

NORMAL, LEAVING, UNREADABLE, BROKEN, RESTART, LATER = 1000, 1001, 1003, 1011, 1012, 1013


@dataclass(frozen=True, slots=True)
class Ending:
    """One way a connection ends.

    ``last`` is what the peer is told before the close. ``cause`` is what the session's log says of the lost socket;
    without one there is nothing to say, because the session is over or belongs to another socket.
    Stock clients decide by the close code alone whether to come back: ``stock_code`` and ``stock_last`` are theirs
    where they get others than seed clients.
    """

    code: int = NORMAL
    reason: str = ""
    last: Told | None = None
    cause: str | None = None
    stock_code: int | None = None
    stock_last: Told | None = None


async def conclude(peer: Peer, ending: Ending) -> None:
    """Tell ``peer`` the last word and close, both as its dialect has them."""
    code, last = ending.code, ending.last
    if peer.dialect in STOCK:
        code = code if ending.stock_code is None else ending.stock_code
        last = last if ending.stock_last is None else ending.stock_last
    error = error_code(last) or (last.reason if isinstance(last, SessionResyncRequired) else None)
    peer.watch.ended(code, ending.cause or ending.reason or error or "session_closed", error)
    await peer.close(code, ending.reason, last)


HUNG_UP = "client_closed"
"""The cause of an ending by the client's own close."""
CLOSED = Ending()
"""The session said ``session.closed``; nothing follows."""
EXPIRED = Ending(reason="session_expired")
"""The session said ``session.expired``."""
STALLED = Ending(LATER, "client_stalled", cause="client_stalled")
"""The client takes nothing of what it is sent; it may resume when it does again."""
STOPPING = Ending(RESTART, "gateway_stopping", cause="gateway_stopping", stock_code=LEAVING)
"""This gateway stops; the client may resume elsewhere."""


def closed_after(error: ErrorCode) -> Ending:
    """The session is over because of an error that the client has heard."""
    return Ending(stock_code=_stock_code(error))


def lost(gone: Gone) -> Ending:
    """The peer closed or vanished."""
    return Ending(cause=HUNG_UP if gone.said_goodbye else "connection_lost")


def refused_at_the_door(error: ProtocolError) -> Ending:
    """A handshake failed before any session was bound: the flat shape for seed clients."""
    return Ending(last=error, stock_code=_stock_code(error.entry))


def refused(error: ProtocolError, cause: str | None = None) -> Ending:
    """An opening was refused, in the Realtime envelope."""
    return Ending(last=Error.of(error), cause=cause, stock_code=_stock_code(error.entry))


def replaced(attachment: Attachment) -> Ending:
    """Another socket took the session."""
    return Ending(reason="session_replaced", last=edge.replaced(attachment))


def gone_from_log(attachment: Attachment, reason: str) -> Ending:
    """The session ended without a word to its client."""
    return Ending(reason="session_expired", last=edge.expired(attachment, reason))


OUT_OF_STEP = ProtocolError("internal_error", "The session cannot be followed without a gap; start a new one.")


def out_of_step(session_id: str, cause: str | None = None, first_available: int | None = None) -> Ending:
    """What the peer would hear next is not there; stock clients know no resync, only a failure."""
    resync = edge.resync(session_id, first_available)
    return Ending(last=resync, cause=cause, stock_code=BROKEN, stock_last=Error.of(OUT_OF_STEP))


def binary_frame() -> Ending:
    """A binary frame: nothing here reads those, and what followed it cannot be trusted. Resumable like any loss."""
    error = ProtocolError("realtime_input_failed", "A binary frame arrived; every event is one JSON text frame.")
    return Ending(UNREADABLE, last=Error.of(error), cause="binary_frame")


LOG_UNAVAILABLE = ProtocolError("log_unavailable", "The session log does not answer; come back in a moment.")


def crowded(error: ProtocolError, *, bound: bool) -> Ending:
    """Too many come at once: this client may come again in ``retry_after_ms``. ``bound``: in the Realtime envelope."""
    return Ending(LATER, error.code, Error.of(error) if bound else error)


def unavailable() -> Ending:
    """The log does not answer: the client is told, and may come back."""
    return Ending(LATER, LOG_UNAVAILABLE.code, Error.of(LOG_UNAVAILABLE), cause=LOG_UNAVAILABLE.code)


def unavailable_at_the_door() -> Ending:
    """As ``unavailable``, for a socket that holds no session."""
    return Ending(LATER, LOG_UNAVAILABLE.code, LOG_UNAVAILABLE)


def failed() -> Ending:
    """A defect of this gateway."""
    error = ProtocolError("internal_error", "The gateway failed; resume the session.")
    return Ending(last=Error.of(error), cause="gateway_failed", stock_code=BROKEN)


def for_log_error(error: LogError, attachment: Attachment) -> Ending:
    """The ending that ``error`` from a log call of this attachment means."""
    match error:
        case Fenced():
            return replaced(attachment)
        case SessionUnknown():
            return gone_from_log(attachment, "session_gone")
        case PositionGone(first_available=first):
            return out_of_step(attachment.ref.session_id, cause="journal_gap", first_available=first)
        case TailLost():
            return out_of_step(attachment.ref.session_id, cause="journal_gap")
        case LogUnavailable():
            return unavailable()
        case _:
            return failed()


def _stock_code(error: ErrorCode) -> int | None:
    """``None``: as for everybody. Whose fault it was says whether coming back may help."""
    return {"capacity": LATER, "server": BROKEN}.get(error.fault)
