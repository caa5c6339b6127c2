"""Resuming a session on this socket, whatever gateway held it before: the checks in their order, then the attach."""

from __future__ import annotations

import logging

from duplex_es.log.api import Head, SessionLog
from duplex_es.log.errors import IncarnationMismatch, LogError, LogUnavailable, SessionUnknown, TokenRefused
from duplex_es.protocol import Plain, ProtocolError, ResumeSession, SocketAttached, given, unpack_opening

from . import edge, endings
from .connection import Connection
from .endings import Ending
from .peer import Peer
from .service import Service
from .tokens import mint_token, token_digest
from .writer import record_of

_log = logging.getLogger(__name__)


class JournalGap(Exception):
    """What the client asks for is not there without a gap; its token stays good and the session lives on."""


async def resume_session(service: Service, peer: Peer, command: ResumeSession) -> Ending | None:
    """Take the session up and serve it. An ``Ending`` is a refusal still to be told; nothing has changed then."""
    try:
        head, session = await _resumable(service.log, command)
        await _attach(service, peer, command, head, session)
    except ProtocolError as error:
        return endings.refused_at_the_door(error)
    except JournalGap:
        return endings.out_of_step(command.session_id)
    except SessionUnknown:
        return endings.refused_at_the_door(_expired(command))
    except IncarnationMismatch:
        return endings.refused_at_the_door(_conflict("The session was opened again since."))
    except TokenRefused:
        message = "The resume_token is not the session's current one; use the newest you were given."
        return endings.refused_at_the_door(ProtocolError("invalid_resume_token", message, "resume_token"))
    except LogUnavailable as error:
        _log.warning("session=%s not resumed: %s", command.session_id, error)
        return endings.unavailable_at_the_door()
    except LogError as error:
        _log.error("session=%s not resumed: %s: %s", command.session_id, type(error).__name__, error)
        return endings.refused_at_the_door(ProtocolError("runtime_resume_failed", "The session cannot be resumed now."))
    return None


async def _resumable(log: SessionLog, command: ResumeSession) -> tuple[Head, Plain]:
    """The head and the public object of the session, if it can be resumed at all, apart from the token."""
    head = await log.head(command.session_id)
    opening = unpack_opening(head.opening) if head.opening is not None else None
    if head.state == "closed" or opening is None or not isinstance(opening.session, dict):
        raise SessionUnknown(command.session_id)
    if not edge.supports_resume(opening.session):
        raise ProtocolError("unsupported_session_resume", "The model of this session cannot be resumed.")
    if given(command.incarnation, head.ref.incarnation) != head.ref.incarnation:
        raise IncarnationMismatch(command.session_id)
    return head, opening.session


def check_position(head: Head, after_seq: int) -> None:
    """Return when all frames after ``after_seq`` can be replayed.

    Raises: JournalGap below what is kept or was acknowledged, ProtocolError ``session_resume_conflict`` above the
    last frame.
    """
    if after_seq + 1 < head.first_seq or after_seq < head.acknowledged_seq:
        raise JournalGap
    if after_seq > head.output.number:
        raise _conflict(f"The session has no frame {after_seq} yet; its last one is {head.output.number}.")


async def _attach(service: Service, peer: Peer, command: ResumeSession, head: Head, session: Plain) -> None:
    log, gateway = service.log, service.settings.gateway
    check_position(head, command.after_seq)
    async with log.follow_output(head.ref) as follower:
        token = mint_token()
        attached = SocketAttached(generation=head.generation + 1, gateway=gateway, dialect=peer.dialect)
        attachment, head = await log.attach(
            head.ref,
            presented_digest=token_digest(command.resume_token),
            next_digest=token_digest(token),
            gateway=gateway,
            record=record_of(attached).body,
        )
        _log.info(
            "session=%s generation=%d resumes after %d of %d",
            *(command.session_id, attachment.generation, command.after_seq, head.output.number),
        )
        connection = Connection(
            service,
            peer,
            attachment,
            follower,
            token=token,
            after_seq=command.after_seq,
            head_seq=head.output.number,
        )
        await connection.resume(session)


def _expired(command: ResumeSession) -> ProtocolError:
    message = f"No session {command.session_id!r} is open; it ended or never was. Start a new one."
    return ProtocolError("session_resume_expired", message, "session_id")


def _conflict(message: str) -> ProtocolError:
    return ProtocolError("session_resume_conflict", message)
