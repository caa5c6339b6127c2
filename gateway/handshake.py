"""From an accepted socket to a wish: open a session, resume one, or an ending.

Nothing here touches the log. The socket has one window to say what it wants; what it says wrong may be corrected
inside it only where the error table says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from duplex_es.protocol import (
    Error,
    Plain,
    ProtocolError,
    RefuseCommand,
    ResumeSession,
    Said,
    UpdateSession,
    read_config,
)
from duplex_es.protocol.dialects import GA, NATIVE, STOCK, opening_settings, rewrite_command

from . import endings
from .endings import Ending
from .peer import Gone, Peer
from .query import Query
from .reading import read_event

UNASKED_S = 0.7
"""How long a socket whose upgrade does not say what it speaks may take to say anything. Then it counts as a stock
client, which itself waits to be told, within a second, that its session is there."""


@dataclass(frozen=True, slots=True)
class OpenWish:
    """Open a session with these settings, as the client wrote them; then take in ``first``, if there is one.

    ``updated``: they came as a ``session.update``, to be answered as one. ``session_id`` is the client's choice or
    empty.
    """

    session: Plain
    updated: bool
    session_id: str = ""
    event_id: str | None = None
    first: Said | None = None


class Handshake:
    """One socket's first messages. Use once."""

    def __init__(self, peer: Peer, query: Query, *, timeout_s: float, max_event_bytes: int) -> None:
        self._peer = peer
        self._query = query
        self._timeout_s = timeout_s
        self._max_event_bytes = max_event_bytes

    async def run(self) -> OpenWish | ResumeSession | Ending:
        """What the client wants. Errors that leave the window open are sent from here; the rest are endings."""
        if self._opens_unasked():
            return self._default_session(None)
        try:
            async with asyncio.timeout(self._timeout_s):
                if (heard := await self._first_words()) is None:
                    return self._default_session(None)
                while (outcome := await self._take(heard)) is None:
                    heard = await self._peer.receive()
                return outcome
        except TimeoutError:
            return _ended("config_timeout", f"No opening event within {self._timeout_s:g} s; connect and send one.")

    def _opens_unasked(self) -> bool:
        """Stock clients wait for their session whatever the query says; only a resume may keep it from them."""
        voice = self._peer.voice
        if voice.settled and voice.dialect in STOCK:
            return not self._query.resume
        return self._query.autostarts

    async def _first_words(self) -> str | bytes | Gone | None:
        """The first frame; ``None`` when a client that may be a stock one leaves it to us to speak first."""
        if self._peer.voice.settled:
            return await self._peer.receive()
        try:
            async with asyncio.timeout(UNASKED_S):
                return await self._peer.receive()
        except TimeoutError:
            return None

    async def _take(self, heard: str | bytes | Gone) -> OpenWish | ResumeSession | Ending | None:
        """Take in one frame; ``None`` when the client may try again."""
        if isinstance(heard, Gone):
            return endings.lost(heard)
        if isinstance(heard, bytes):
            return _ended("internal_error", "A binary frame arrived; every event is one JSON text frame.")
        try:
            command = read_event(heard, self._max_event_bytes, self._peer.dialect)
        except ProtocolError as error:
            return await self._misheard(error)
        self._peer.voice.settle(command)
        command = rewrite_command(command, self._peer.dialect, opening=True)
        if isinstance(command, ResumeSession):
            return command if self._peer.dialect != NATIVE else _not_natively()
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
        return self._anything_else(RefuseCommand.of(error))

    async def _update(self, command: UpdateSession) -> OpenWish | Ending | None:
        event_id = command.event_id if isinstance(command.event_id, str) else None
        try:
            config = read_config(command.session)
        except ProtocolError as error:
            error = error.with_event_id(event_id)
            if error.entry.closes_in_handshake:
                return endings.refused(error)
            await self._peer.tell(Error.of(error))
            return None
        session_id = config.session_id if isinstance(config.session_id, str) else ""
        # Native clients create a session, which is no update of it.
        updated = self._peer.dialect != NATIVE
        return OpenWish(command.session, updated=updated, session_id=session_id, event_id=event_id)

    def _anything_else(self, said: Said) -> OpenWish | Ending:
        """An event that opens nothing starts a default session and is its first input, unless that was ruled out."""
        if self._query.resume_only:
            return _ended("bad_event", "The first event must be session.update or session.resume.", "type")
        return self._default_session(said)

    def _default_session(self, first: Said | None) -> OpenWish:
        self._peer.voice.speak(GA)
        session: Plain = opening_settings(self._peer.dialect)
        if self._query.native_duplex:
            extra_body = session.get("extra_body")
            session["extra_body"] = {**(extra_body if isinstance(extra_body, dict) else {}), "native_duplex": True}
        return OpenWish(session, updated=False, session_id=self._query.session_id, first=first)


def _not_natively() -> Ending:
    return _ended("unsupported_session_resume", "Native sessions cannot be resumed; use /v1/realtime for that.", "type")


def _ended(code: str, message: str, param: str | None = None) -> Ending:
    return endings.refused_at_the_door(ProtocolError(code, message, param))
