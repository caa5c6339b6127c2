"""The frames a gateway makes itself: for one socket only, in no sequence, never in the log."""

from __future__ import annotations

from duplex_es.log.api import Attachment
from duplex_es.protocol import (
    Plain,
    SessionCreated,
    SessionExpired,
    SessionGoingAway,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
)


def created(session: Plain, attachment: Attachment, token: str | None) -> SessionCreated:
    """``session.created``. What a resume needs is there only with a ``token``, and when the session can be resumed."""
    if token is None or not supports_resume(session):
        return SessionCreated(session=session)
    return SessionCreated(
        session=session,
        incarnation=attachment.ref.incarnation,
        attachment_generation=attachment.generation,
        resume_token=token,
    )


def resumed(attachment: Attachment, token: str) -> SessionResumed:
    """``session.resumed``, with the token of the next resume."""
    return SessionResumed(
        session_id=attachment.ref.session_id,
        incarnation=attachment.ref.incarnation,
        attachment_generation=attachment.generation,
        resume_token=token,
    )


def replaced(attachment: Attachment) -> SessionReplaced:
    """``session.replaced`` for the socket of ``attachment``, which was superseded."""
    ref = attachment.ref
    return SessionReplaced(session_id=ref.session_id, attachment_generation=attachment.generation)


def expired(attachment: Attachment, reason: str) -> SessionExpired:
    """``session.expired``: there is no session any more."""
    ref = attachment.ref
    return SessionExpired(session_id=ref.session_id, incarnation=ref.incarnation, reason=reason)


def resync(session_id: str) -> SessionResyncRequired:
    """``session.resync_required``: what the client asked for is not there without a gap."""
    return SessionResyncRequired(session_id=session_id, reason="journal_gap")


def going_away(attachment: Attachment, grace_ms: int) -> SessionGoingAway:
    """``session.going_away``: this gateway stops, the session does not."""
    return SessionGoingAway(session_id=attachment.ref.session_id, reason="gateway_stopping", grace_ms=grace_ms)


def supports_resume(session: Plain) -> bool:
    """Whether the public session object ``session`` promises that the session can be resumed."""
    capabilities = session.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("supports_session_resume") is True
