"""How connections end: the last frame, the close code and reason, and what becomes of the session."""

from __future__ import annotations

from dataclasses import dataclass

from duplex_es.log.api import Attachment
from duplex_es.log.errors import Fenced, LogError, LogUnavailable, PositionGone, SessionUnknown, TailLost
from duplex_es.protocol import ProtocolError

from . import edge
from .peer import Gone

NORMAL, UNREADABLE, RESTART, LATER = 1000, 1003, 1012, 1013


@dataclass(frozen=True, slots=True)
class Ending:
    """One way a connection ends.

    ``last`` is the text of the frame before the close. ``cause`` is what the session's log says of the lost socket;
    without one there is nothing to say, because the session is over or belongs to another socket.
    """

    code: int = NORMAL
    reason: str = ""
    last: str | None = None
    cause: str | None = None


CLOSED = Ending()
"""The session said ``session.closed``; nothing follows."""
EXPIRED = Ending(reason="session_expired")
"""The session said ``session.expired``."""
STOPPING = Ending(RESTART, "gateway_stopping", cause="gateway_stopping")
"""This gateway stops; the client may resume elsewhere."""


def lost(gone: Gone) -> Ending:
    """The peer closed or vanished."""
    return Ending(cause="client_closed" if gone.said_goodbye else "connection_lost")


def refused_at_the_door(error: ProtocolError, code: int = NORMAL) -> Ending:
    """A handshake failed before any session was bound: the flat shape."""
    return Ending(code, last=edge.flat_error_text(error))


def refused(error: ProtocolError, cause: str | None = None) -> Ending:
    """An opening was refused, in the Realtime envelope."""
    return Ending(last=edge.error_text(error), cause=cause)


def replaced(attachment: Attachment) -> Ending:
    """Another socket took the session."""
    return Ending(reason="session_replaced", last=edge.replaced_text(attachment))


def gone_from_log(attachment: Attachment, reason: str) -> Ending:
    """The session ended without a word to its client."""
    return Ending(reason="session_expired", last=edge.expired_text(attachment, reason))


def binary_frame() -> Ending:
    """A binary frame: nothing here reads those, and what followed it cannot be trusted. Resumable like any loss."""
    error = ProtocolError("realtime_input_failed", "A binary frame arrived; every event is one JSON text frame.")
    return Ending(UNREADABLE, last=edge.error_text(error), cause="binary_frame")


LOG_UNAVAILABLE = ProtocolError("log_unavailable", "The session log does not answer; come back in a moment.")


def unavailable() -> Ending:
    """The log does not answer: the client is told, and may come back."""
    return Ending(LATER, LOG_UNAVAILABLE.code, edge.error_text(LOG_UNAVAILABLE), cause=LOG_UNAVAILABLE.code)


def unavailable_at_the_door() -> Ending:
    """As ``unavailable``, for a socket that holds no session."""
    return Ending(LATER, LOG_UNAVAILABLE.code, edge.flat_error_text(LOG_UNAVAILABLE))


def failed() -> Ending:
    """A defect of this gateway."""
    error = ProtocolError("internal_error", "The gateway failed; resume the session.")
    return Ending(last=edge.error_text(error), cause="gateway_failed")


def for_log_error(error: LogError, attachment: Attachment) -> Ending:
    """The ending that ``error`` from a log call of this attachment means."""
    match error:
        case Fenced():
            return replaced(attachment)
        case SessionUnknown():
            return gone_from_log(attachment, "session_gone")
        case PositionGone() | TailLost():
            return Ending(last=edge.resync_text(attachment.ref.session_id), cause="journal_gap")
        case LogUnavailable():
            return unavailable()
        case _:
            return failed()
