"""Opening a session: admit, name, subscribe, create, and only then speak."""

from __future__ import annotations

import logging
import os

from duplex_es.log.errors import LogError, LogUnavailable, SessionExists
from duplex_es.protocol import OpenSession, ProtocolError, Said, SocketAttached, session_id_from

from . import endings
from .admission import admit, chosen_model
from .connection import Connection
from .endings import Ending
from .gate import Ticket
from .handshake import OpenWish
from .peer import Peer
from .query import Query
from .service import Service
from .tokens import mint_token, token_digest
from .watching import OPEN
from .writer import record_of

_log = logging.getLogger(__name__)


async def open_session(service: Service, peer: Peer, query: Query, wish: OpenWish) -> Ending | None:
    """Open the session of ``wish`` and serve it to its end; an ``Ending`` is still to be told when it was refused."""
    ticket = service.gate.ticket()
    peer.watch.wishes(OPEN)
    try:
        if (gone := await peer.while_here(ticket.admitted())) is not None:
            return endings.lost(gone)
        peer.watch.admitted()
        return await _open(service, peer, query, wish, ticket)
    except ProtocolError as crowded:
        return endings.crowded(crowded.with_event_id(wish.event_id), bound=True)
    finally:
        ticket.release()


async def _open(service: Service, peer: Peer, query: Query, wish: OpenWish, ticket: Ticket) -> Ending | None:
    model, param = chosen_model(wish.session, query, service.settings.default_model)
    session_id = wish.session_id or session_id_from(os.urandom(16))
    try:
        await admit(service.log, model, param)
        await _create(service, peer, query, wish, session_id, model, ticket)
    except ProtocolError as error:
        return endings.refused(error.with_event_id(wish.event_id))
    except SessionExists:
        message = f"Session {session_id!r} already exists and is open; choose another id or resume it."
        return endings.refused(ProtocolError("internal_error", message, "session.session_id", wish.event_id))
    except LogUnavailable as error:
        _log.warning("session=%s not opened: %s", session_id, error)
        return endings.unavailable()
    except LogError as error:
        _log.error("session=%s not opened: %s: %s", session_id, type(error).__name__, error)
        return endings.failed()
    return None


async def _create(
    service: Service, peer: Peer, query: Query, wish: OpenWish, session_id: str, model: str, ticket: Ticket
) -> None:
    log, settings = service.log, service.settings
    ref = await log.next_incarnation(session_id)
    async with log.follow_output(ref) as follower:
        token = mint_token()
        attached = SocketAttached.traced(
            generation=1, gateway=settings.gateway, dialect=peer.dialect, traceparent=peer.watch.traceparent
        )
        attachment = await log.create(
            ref,
            model=model,
            token_digest=token_digest(token),
            gateway=settings.gateway,
            record=record_of(attached).body,
        )
        _log.info("session=%s incarnation=%d model=%s opening", session_id, ref.incarnation, model)
        connection = Connection(
            service,
            peer,
            attachment,
            follower,
            model=model,
            token=token,
            arrived=ticket.release,
            durable=query.durable,
        )
        await connection.open(first_inputs(wish, model, peer.dialect))


def first_inputs(wish: OpenWish, model: str, dialect: str) -> list[Said]:
    """What stands first in the session's input: its opening, then what started it, if that was something else."""
    opening = OpenSession(session=wish.session, model=model, updated=wish.updated, dialect=dialect)
    if wish.event_id is not None:
        opening = OpenSession(
            session=wish.session, model=model, updated=wish.updated, dialect=dialect, event_id=wish.event_id
        )
    return [opening] if wish.first is None else [opening, wish.first]
