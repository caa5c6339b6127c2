"""The frames a gateway makes itself: for one socket only, in no sequence, never in the log."""

from __future__ import annotations

from typing import Any

from duplex_es.log.api import Attachment
from duplex_es.protocol import (
    Plain,
    SessionCreated,
    SessionDurable,
    SessionExpired,
    SessionGoingAway,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
)

from .heard import UNKNOWN, Heard


def created(session: Plain, attachment: Attachment, token: str | None, durability: str | None = None) -> SessionCreated:
    """``session.created``. What a resume needs is there only with a ``token``, and when the session can be resumed."""
    level: dict[str, Any] = {} if durability is None else {"durability": durability}
    if token is None or not supports_resume(session):
        return SessionCreated(session=session, **level)
    return SessionCreated(
        session=session,
        incarnation=attachment.ref.incarnation,
        attachment_generation=attachment.generation,
        resume_token=token,
        **level,
    )


def resumed(
    attachment: Attachment, token: str, heard: Heard = UNKNOWN, durability: str | None = None
) -> SessionResumed:
    """``session.resumed``, with the token of the next resume and what is known of what the client said before."""
    known: dict[str, Any] = {"last_client_event_id": heard.event_id} if heard.known else {}
    level: dict[str, Any] = {} if durability is None else {"durability": durability}
    return SessionResumed(
        session_id=attachment.ref.session_id,
        incarnation=attachment.ref.incarnation,
        attachment_generation=attachment.generation,
        resume_token=token,
        **known,
        **level,
    )


def replaced(attachment: Attachment) -> SessionReplaced:
    """``session.replaced`` for the socket of ``attachment``, which was superseded."""
    ref = attachment.ref
    return SessionReplaced(session_id=ref.session_id, attachment_generation=attachment.generation)


def expired(attachment: Attachment, reason: str) -> SessionExpired:
    """``session.expired``: there is no session any more."""
    ref = attachment.ref
    return SessionExpired(session_id=ref.session_id, incarnation=ref.incarnation, reason=reason)


def resync(session_id: str, first_available: int | None = None) -> SessionResyncRequired:
    """``session.resync_required``: what the client asked for is not there without a gap."""
    if first_available is None:
        return SessionResyncRequired(session_id=session_id, reason="journal_gap")
    return SessionResyncRequired(session_id=session_id, reason="journal_gap", first_available=first_available)


def overflow(session_id: str, first_available: int) -> SessionResyncRequired:
    """``session.resync_required`` for a client that was too far behind: it goes on at ``first_available``."""
    return SessionResyncRequired(session_id=session_id, reason="journal_overflow", first_available=first_available)


def going_away(attachment: Attachment, grace_ms: int, token: str | None = None) -> SessionGoingAway:
    """``session.going_away``: this gateway stops, the session does not; ``token`` takes it up elsewhere."""
    session_id, reason = attachment.ref.session_id, "gateway_stopping"
    if token is None:
        return SessionGoingAway(session_id=session_id, reason=reason, grace_ms=grace_ms)
    return SessionGoingAway(session_id=session_id, reason=reason, grace_ms=grace_ms, resume_token=token)


def durable(attachment: Attachment, seq: int) -> SessionDurable:
    """``session.durable``: up to ``seq`` nothing is lost with one node."""
    return SessionDurable(session_id=attachment.ref.session_id, durable_seq=seq)


def supports_resume(session: Plain) -> bool:
    """Whether the public session object ``session`` promises that the session can be resumed."""
    capabilities = session.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("supports_session_resume") is True
