"""Resuming a session on this socket, whatever gateway held it before: the checks in their order, then the attach.

The token goes before the position: who cannot prove that the session is theirs learns nothing of it. A session that
said ``session.closed`` can be read to its end while its log is kept; nothing is taken then, so the token stays good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from duplex_es.log.api import Attachment, EntryId, Head
from duplex_es.log.errors import (
    IncarnationMismatch,
    LogError,
    LogUnavailable,
    PositionAhead,
    PositionGone,
    SessionUnknown,
    TokenRefused,
)
from duplex_es.observability.origin import trace_of
from duplex_es.protocol import (
    Plain,
    ProtocolError,
    RecordUnreadable,
    ResumeSession,
    SessionClosed,
    SocketAttached,
    given,
    unpack_opening,
    unpack_output,
)
from duplex_es.protocol.dialects import STOCK

from . import edge, endings
from .connection import Connection
from .downlink import Downlink, SocketLost
from .endings import Ending
from .heard import last_heard
from .peer import Gone, Peer
from .query import Query
from .service import Service
from .tokens import mint_token, token_digest
from .watching import RESUME
from .writer import record_of

CATCH_UP_S = 2.0
"""How long a catch-up keeps others waiting at most; a client that reads slowly is its own problem."""

HEALED_WITHIN_S = 1.0
"""How long a position that the store does not know is asked for again: it may have lost its last moments, and whoever
wrote them writes them again on seeing that."""

ASKED_EVERY_S = 0.1

_log = logging.getLogger(__name__)


async def resume_session(service: Service, peer: Peer, query: Query, command: ResumeSession) -> Ending | None:
    """Take the session up and serve it. An ``Ending`` is still to be told; a refusal has changed nothing."""
    ticket = service.gate.ticket()
    timer: asyncio.TimerHandle | None = None
    peer.watch.wishes(RESUME)
    try:
        if (gone := await peer.while_here(ticket.admitted())) is not None:
            return endings.lost(gone)
        peer.watch.admitted()
        timer = asyncio.get_running_loop().call_later(CATCH_UP_S, ticket.release)
        return await _resume(service, peer, query, command, ticket.release)
    except ProtocolError as crowded:
        return endings.crowded(crowded, bound=False)
    finally:
        ticket.release()
        if timer is not None:
            timer.cancel()


async def _resume(
    service: Service, peer: Peer, query: Query, command: ResumeSession, arrived: Callable[[], None]
) -> Ending | None:
    try:
        head, session = await _resumable(service, command)
        known = await trace_of(service.log, head.ref, head.generation) if peer.watch.needs_origin else None
        peer.watch.joins(known)
        if head.state == "closed":
            return await _replay_closed(service, peer, command, head, session)
        await _attach(service, peer, query, command, head, session, arrived)
    except ProtocolError as error:
        return endings.refused_at_the_door(error)
    except SessionUnknown:
        return endings.refused_at_the_door(_expired(command))
    except IncarnationMismatch:
        return endings.refused_at_the_door(_conflict("The session was opened again since."))
    except TokenRefused:
        message = "The resume_token is not the session's current one; use the newest you were given."
        return endings.refused_at_the_door(ProtocolError("invalid_resume_token", message, "resume_token"))
    except PositionGone as gone:
        return endings.out_of_step(command.session_id, first_available=gone.first_available)
    except PositionAhead as ahead:
        return endings.refused_at_the_door(
            _conflict(f"The session has no frame {command.after_seq} yet; its last one is {ahead.last}.")
        )
    except LogUnavailable as error:
        _log.warning("session=%s not resumed: %s", command.session_id, error)
        return endings.unavailable_at_the_door()
    except LogError as error:
        _log.error("session=%s not resumed: %s: %s", command.session_id, type(error).__name__, error)
        return endings.refused_at_the_door(ProtocolError("runtime_resume_failed", "The session cannot be resumed now."))
    return None


async def _resumable(service: Service, command: ResumeSession) -> tuple[Head, Plain]:
    """The head and the public object of the session, if it can be resumed at all, apart from token and position."""
    head = await service.log.head(command.session_id)
    opening = unpack_opening(head.opening) if head.opening is not None else None
    if opening is None or not isinstance(opening.session, dict):
        raise SessionUnknown(command.session_id)
    if head.state == "closed" and not await _said_goodbye(service, head):
        raise SessionUnknown(command.session_id)
    if not edge.supports_resume(opening.session):
        raise ProtocolError("unsupported_session_resume", "The model of this session cannot be resumed.")
    if given(command.incarnation, head.ref.incarnation) != head.ref.incarnation:
        raise IncarnationMismatch(command.session_id)
    return head, opening.session


async def _attach(
    service: Service,
    peer: Peer,
    query: Query,
    command: ResumeSession,
    head: Head,
    session: Plain,
    arrived: Callable[[], None],
) -> None:
    log, gateway = service.log, service.settings.gateway
    async with log.follow_output(head.ref) as follower:
        token = mint_token()
        attached = SocketAttached.traced(
            generation=head.generation + 1,
            gateway=gateway,
            dialect=peer.dialect,
            traceparent=peer.watch.traceparent,
        )
        attach = partial(
            log.attach,
            head.ref,
            presented_digest=token_digest(command.resume_token),
            next_digest=token_digest(token),
            gateway=gateway,
            record=record_of(attached).body,
            after_seq=command.after_seq,
        )
        attachment, head = await _once_healed(attach)
        _log.info(
            "session=%s generation=%d resumes after %d of %d",
            *(command.session_id, attachment.generation, command.after_seq, head.output.number),
        )
        connection = Connection(
            service,
            peer,
            attachment,
            follower,
            model=head.model,
            token=token,
            after=EntryId(head.output.generation, command.after_seq),
            head_seq=head.output.number,
            arrived=arrived,
            durable=query.durable,
        )
        await connection.resume(session)


async def _once_healed(attach: Callable[[], Coroutine[Any, Any, tuple[Attachment, Head]]]) -> tuple[Attachment, Head]:
    """What ``attach`` returns, once the position it asks for is there. Raises: whatever it raises."""
    until_s = asyncio.get_running_loop().time() + HEALED_WITHIN_S
    while True:
        try:
            return await attach()
        except PositionAhead:
            if asyncio.get_running_loop().time() >= until_s:
                raise
            await asyncio.sleep(ASKED_EVERY_S)


# -- sessions that are over ----------------------------------------------------------------------------------------


async def _said_goodbye(service: Service, head: Head) -> bool:
    """Whether the last word of a closed session is ``session.closed``: one that was given up has expired instead."""
    try:
        last = await service.log.read_output(head.ref, head.output.number - 1, limit=1, audio=False)
        return bool(last) and isinstance(unpack_output(last[0].body).frame, SessionClosed)
    except (PositionGone, RecordUnreadable):
        return False


async def _replay_closed(
    service: Service, peer: Peer, command: ResumeSession, head: Head, session: Plain
) -> Ending | None:
    """Send what the client has not heard of a session that is over, to its last word. Its token is not used up.

    Raises: SessionUnknown when nothing is left to send, PositionGone, PositionAhead, TokenRefused, LogError.
    """
    log = service.log
    head = await log.admit(head.ref, token_digest(command.resume_token))
    if command.after_seq > head.output.number:
        raise PositionAhead(head.output.number)
    if command.after_seq == head.output.number:
        raise SessionUnknown(f"{command.session_id} is over, and this client has all of it")
    if command.after_seq + 1 < head.first_seq or command.after_seq < head.acknowledged_seq:
        raise PositionGone(max(head.first_seq, head.acknowledged_seq + 1))
    _log.info("session=%s is over; replayed after %d of %d", command.session_id, command.after_seq, head.output.number)
    seat = Attachment(head.ref, head.generation, service.settings.gateway)
    async with log.follow_output(head.ref) as follower:
        after = EntryId(head.output.generation, command.after_seq)
        downlink = Downlink(peer, follower, seat, after, watch=peer.watch)
        peer.watch.replays()
        if peer.dialect in STOCK:
            welcome = await peer.tell(edge.created(session, seat, command.resume_token))
        else:
            heard = await last_heard(log, Attachment(head.ref, head.generation + 1, seat.gateway))
            welcome = await peer.tell(edge.resumed(seat, command.resume_token, heard))
        try:
            return await downlink.run(head.output.number) if welcome else endings.lost(Gone(1006))
        except SocketLost:
            return endings.lost(Gone(1006))


def _expired(command: ResumeSession) -> ProtocolError:
    message = f"No session {command.session_id!r} is open; it ended or never was. Start a new one."
    return ProtocolError("session_resume_expired", message, "session_id")


def _conflict(message: str) -> ProtocolError:
    return ProtocolError("session_resume_conflict", message)
