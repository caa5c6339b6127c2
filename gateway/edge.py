"""The frames a gateway makes itself: for one socket only, in no sequence, never in the log."""

from __future__ import annotations

import os

from duplex_es.log.api import Attachment
from duplex_es.protocol import (
    Error,
    ErrorBody,
    Frame,
    Plain,
    ProtocolError,
    SessionCreated,
    SessionExpired,
    SessionGoingAway,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
    encode_frame,
    event_id_from,
    flat_error,
)


def unsequenced(frame: Frame) -> str:
    """The text of ``frame`` with a random ``event_id`` and no ``server_event_seq``."""
    return encode_frame(frame, event_id=event_id_from(os.urandom(16)))


def error_text(error: ProtocolError) -> str:
    """``error`` in the Realtime envelope."""
    body = ErrorBody(
        type=error.entry.type, code=error.code, message=error.message, event_id=error.event_id, param=error.param
    )
    return unsequenced(Error(error=body))


def flat_error_text(error: ProtocolError) -> str:
    """``error`` in the flat shape of a socket that holds no session yet."""
    return flat_error(error.code, error.message)


def created_text(session: Plain, attachment: Attachment, token: str) -> str:
    """``session.created``. What a resume needs is there only when the session can be resumed."""
    if not supports_resume(session):
        return unsequenced(SessionCreated(session=session))
    return unsequenced(
        SessionCreated(
            session=session,
            incarnation=attachment.ref.incarnation,
            attachment_generation=attachment.generation,
            resume_token=token,
        )
    )


def resumed_text(attachment: Attachment, token: str) -> str:
    """``session.resumed``, with the token of the next resume."""
    return unsequenced(
        SessionResumed(
            session_id=attachment.ref.session_id,
            incarnation=attachment.ref.incarnation,
            attachment_generation=attachment.generation,
            resume_token=token,
        )
    )


def replaced_text(attachment: Attachment) -> str:
    """``session.replaced`` for the socket of ``attachment``, which was superseded."""
    ref = attachment.ref
    return unsequenced(SessionReplaced(session_id=ref.session_id, attachment_generation=attachment.generation))


def expired_text(attachment: Attachment, reason: str) -> str:
    """``session.expired``: there is no session any more."""
    ref = attachment.ref
    return unsequenced(SessionExpired(session_id=ref.session_id, incarnation=ref.incarnation, reason=reason))


def resync_text(session_id: str) -> str:
    """``session.resync_required``: what the client asked for is not there without a gap."""
    return unsequenced(SessionResyncRequired(session_id=session_id, reason="journal_gap"))


def going_away_text(attachment: Attachment, grace_ms: int) -> str:
    """``session.going_away``: this gateway stops, the session does not."""
    return unsequenced(
        SessionGoingAway(session_id=attachment.ref.session_id, reason="gateway_stopping", grace_ms=grace_ms)
    )


def supports_resume(session: Plain) -> bool:
    """Whether the public session object ``session`` promises that the session can be resumed."""
    capabilities = session.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("supports_session_resume") is True
