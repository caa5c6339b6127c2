"""From an accepted socket to a wish: open a session, resume one, or an ending.

Nothing here touches the log. The socket has one window to say what it wants; what it says wrong may be corrected
inside it only where the error table says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from duplex_es.protocol import (
    Command,
    Plain,
    ProtocolError,
    RefuseCommand,
    ResumeSession,
    Said,
    UpdateSession,
    read_config,
)
from duplex_es.protocol.dialects import GA, dialect_of, opening_settings, rewrite_command

from . import edge, endings
from .endings import Ending
from .peer import Gone, Peer
from .query import Query
from .reading import read_event


@dataclass(frozen=True, slots=True)
class OpenWish:
    """Open a session with these settings, as the client wrote them; then take in ``first``, if there is one.

    ``updated``: the settings came as a ``session.update``. ``session_id`` is the client's choice or empty.
    """

    session: Plain
    updated: bool
    session_id: str = ""
    event_id: str | None = None
    first: Said | None = None


class Handshake:
    """One socket's first messages. Use once."""

    def __init__(
        self, peer: Peer, query: Query, dialect: str | None, *, timeout_s: float, max_event_bytes: int
    ) -> None:
        self._peer = peer
        self._query = query
        self._settled = dialect is not None
        if dialect is not None:
            peer.speaks(dialect)
        self._timeout_s = timeout_s
        self._max_event_bytes = max_event_bytes

    async def run(self) -> OpenWish | ResumeSession | Ending:
        """What the client wants. Errors that leave the window open are sent from here; the rest are endings."""
        if self._query.autostarts:
            self._settle(None)
            return self._default_session(None)
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    if (outcome := await self._hear()) is not None:
                        return outcome
        except TimeoutError:
            return _ended("config_timeout", f"No opening event within {self._timeout_s:g} s; connect and send one.")

    async def _hear(self) -> OpenWish | ResumeSession | Ending | None:
        """Take in one frame; ``None`` when the client may try again."""
        heard = await self._peer.receive()
        if isinstance(heard, Gone):
            return endings.lost(heard)
        if isinstance(heard, bytes):
            return _ended("internal_error", "A binary frame arrived; every event is one JSON text frame.")
        try:
            command = read_event(heard, self._max_event_bytes, self._peer.dialect)
        except ProtocolError as error:
            return await self._misheard(error)
        self._settle(command)
        command = rewrite_command(command, self._peer.dialect, opening=True)
        if isinstance(command, ResumeSession):
            return command
        if isinstance(command, UpdateSession):
            return await self._update(command)
        return self._anything_else(command)

    async def _misheard(self, error: ProtocolError) -> OpenWish | Ending | None:
        if error.code == "event_too_large":
            # It may have been the opening itself: starting another session in its place would be a guess.
            await self._peer.tell(error)
            return None
        if error.entry.closes_in_handshake:
            return endings.refused_at_the_door(error)
        self._settle(None)
        return self._anything_else(RefuseCommand.of(error))

    async def _update(self, command: UpdateSession) -> OpenWish | Ending | None:
        event_id = command.event_id if isinstance(command.event_id, str) else None
        try:
            config = read_config(command.session)
        except ProtocolError as error:
            error = error.with_event_id(event_id)
            if error.entry.closes_in_handshake:
                return endings.refused(error)
            await self._peer.tell(edge.refusal(error))
            return None
        session_id = config.session_id if isinstance(config.session_id, str) else ""
        return OpenWish(command.session, updated=True, session_id=session_id, event_id=event_id)

    def _anything_else(self, said: Said) -> OpenWish | Ending:
        """An event that opens nothing starts a default session and is its first input, unless that was ruled out."""
        if self._query.resume_only:
            return _ended("bad_event", "The first event must be session.update or session.resume.", "type")
        return self._default_session(said)

    def _settle(self, first: Command | None) -> None:
        """Speak the dialect that ``first``, or opening without a word, tells; unless the upgrade said it already."""
        if not self._settled:
            self._peer.speaks(GA if first is None else dialect_of(first))
            self._settled = True

    def _default_session(self, first: Said | None) -> OpenWish:
        session: Plain = opening_settings(self._peer.dialect)
        if self._query.native_duplex:
            extra_body = session.get("extra_body")
            session["extra_body"] = {**(extra_body if isinstance(extra_body, dict) else {}), "native_duplex": True}
        return OpenWish(session, updated=False, session_id=self._query.session_id, first=first)


def _ended(code: str, message: str, param: str | None = None) -> Ending:
    return endings.refused_at_the_door(ProtocolError(code, message, param))
