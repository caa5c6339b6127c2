"""The client's side of a session without any I/O: what to say next, what is new, and what can be resumed.

Feed every received frame to ``receive``, and send the ``acknowledgement`` of a numbered event once it was handed on.
Tell ``said`` what goes out; after a resume, ``undelivered`` is what has to go out again. Nothing here waits, sleeps or
draws a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from .config import SessionConfig
from .events import (
    DuplexEvent,
    ErrorEvent,
    SessionCreated,
    SessionEnded,
    SessionGoingAway,
    SessionResumed,
    SessionUpdated,
    parse_event,
)
from .outbox import Outbox, Said
from .ticket import ResumeTicket

FINAL_RESUME_CODES = frozenset(
    {
        "invalid_session_resume",
        "session_resume_expired",
        "unsupported_session_resume",
        "invalid_resume_token",
        "session_resume_conflict",
    }
)
"""Refusals of ``session.resume`` that another try cannot change."""


class Phase(Enum):
    """Where the session stands for this client. Only ``OPEN`` takes commands; ``ENDED`` is for good."""

    OPENING = auto()
    OPEN = auto()
    RESUMING = auto()
    CLOSING = auto()
    ENDED = auto()


class ResumeVerdict(Enum):
    """What a frame received during a resume means for it."""

    RESUMED = auto()
    PENDING = auto()
    TRY_AGAIN = auto()
    GIVE_UP = auto()


class ClientMachine:
    """One session as this client knows it.

    ``last_seq`` is the highest ``server_event_seq`` handed on, 0 before the first. ``session_info`` is the last public
    session object. ``end_reason`` is set once ``phase`` is ``ENDED``; ``ended_as_asked`` says that it was closed.
    With a ``ticket``, the session is one that somebody else opened.
    """

    def __init__(
        self, *, model: str, config: SessionConfig, session_id: str | None = None, ticket: ResumeTicket | None = None
    ) -> None:
        self.phase = Phase.OPENING
        self.session_id = session_id if ticket is None else ticket.session_id
        self.session_info: dict[str, Any] = {} if ticket is None else ticket.session_info
        self.incarnation: int | None = None if ticket is None else ticket.incarnation
        self.resume_token: str | None = None if ticket is None else ticket.resume_token
        self.last_seq = 0 if ticket is None else ticket.after_seq
        self.end_reason: str | None = None
        self.ended_as_asked = False
        self.is_taken_up = ticket is not None
        self._model = model
        self._config = config
        self._outbox = Outbox()

    # -- what to say -----------------------------------------------------------------------------------------------

    def opening_command(self) -> dict[str, Any]:
        """The first message on the first socket."""
        if self.is_taken_up:
            return self.resume_command()
        session = self._config.to_wire(model=self._model, session_id=self.session_id)
        return {"type": "session.update", "session": session}

    def resume_command(self) -> dict[str, Any]:
        """The first message on a socket that takes the session over."""
        named = {} if self.incarnation is None else {"incarnation": self.incarnation}
        return {
            "type": "session.resume",
            "session_id": self.session_id,
            **named,
            "resume_token": self.resume_token,
            "last_received_server_event_seq": self.last_seq,
        }

    def close_command(self) -> dict[str, Any]:
        """The last message; from now on a lost connection is an ordinary end."""
        if self.phase is not Phase.ENDED:
            self.phase = Phase.CLOSING
        return {"type": "session.close"}

    def said(self, event_id: str, message: str, *, type: str) -> None:
        """Note that ``message`` goes out under ``event_id``. Ids must differ."""
        self._outbox.add(Said(event_id, message, is_probe=type == "session.heartbeat"))

    def undelivered(self, event: SessionResumed) -> list[str] | None:
        """What was said and has not arrived, to be said again in this order; ``None`` when the server cannot tell.

        What cannot be told now is forgotten: nobody will ever be able to.
        """
        if not event.tells_what_arrived:
            self._outbox.clear()
            return None
        self._outbox.arrived(event.last_client_event_id)
        return self._outbox.messages()

    @property
    def unproven_count(self) -> int:
        """How many events were said so long ago that they are held no more, without proof that they arrived."""
        return self._outbox.forgotten_count

    # -- what was heard --------------------------------------------------------------------------------------------

    def receive(self, message: str | bytes) -> DuplexEvent | None:
        """The event in ``message`` if it is one and was not seen before, with the session's state moved along.

        Events without a number are always new; numbered ones at or below ``last_seq`` are repeats of a replay.
        """
        event = parse_event(message)
        if event is None or self._is_repeat(event):
            return None
        match event:
            case SessionResumed():
                self._adopt_credentials(event)
                self.session_info = event.session or self.session_info
                self.phase = Phase.OPEN
            case SessionCreated():
                self._adopt_credentials(event)
                self.session_info = event.session
                self.session_id = event.session_id or self.session_id
                self.phase = Phase.OPEN
            case SessionEnded():
                self._end(event.reason, as_asked=event.type == "session.closed")
            case SessionUpdated():
                self.session_info = event.session or self.session_info
            case SessionGoingAway():
                self.resume_token = event.resume_token or self.resume_token
            case DuplexEvent(type="session.resync_required"):
                # The server has lost what a resume would need; the session itself goes on while this socket lasts.
                self.resume_token = None
            case DuplexEvent(type="session.heartbeat_ack"):
                self._outbox.probe_answered()
        return event

    def settle_resume(self, event: DuplexEvent) -> ResumeVerdict:
        """What ``event``, received in answer to a ``session.resume``, means for it. Call after ``receive``.

        A refusal that no further try can change ends the session, with the refusal as its reason.
        """
        match event:
            case SessionResumed():
                return ResumeVerdict.RESUMED
            case SessionEnded():
                return ResumeVerdict.GIVE_UP
            case DuplexEvent(type="session.resync_required"):
                self._end(event.type, as_asked=False)
                return ResumeVerdict.GIVE_UP
            case ErrorEvent(code=code) if code in FINAL_RESUME_CODES:
                self._end(str(code), as_asked=False)
                return ResumeVerdict.GIVE_UP
            case ErrorEvent():
                return ResumeVerdict.TRY_AGAIN
        return ResumeVerdict.PENDING

    def connection_lost(self) -> bool:
        """Note that the socket is gone; ``True`` when a resume may bring the session back, else it has ended."""
        if self.phase is Phase.ENDED:
            return False
        if self.phase is Phase.CLOSING:
            self._end("connection closed", as_asked=True)
            return False
        if self.phase is Phase.OPENING or self.resume_token is None or self.session_id is None:
            self._end("connection lost", as_asked=False)
            return False
        self.phase = Phase.RESUMING
        return True

    def hang_up(self) -> None:
        """Note that this client leaves a session that goes on."""
        if self.phase is not Phase.ENDED:
            self._end("left", as_asked=True)

    def give_up(self) -> None:
        """Note that no resume succeeded."""
        if self.phase is not Phase.ENDED:
            self._end("connection lost", as_asked=False)

    def _is_repeat(self, event: DuplexEvent) -> bool:
        seq = event.server_event_seq
        if seq is None:
            return False
        if seq <= self.last_seq:
            return True
        self.last_seq = seq
        return False

    def _adopt_credentials(self, event: SessionCreated) -> None:
        self.resume_token = event.resume_token
        if event.incarnation is not None:
            self.incarnation = event.incarnation

    def _end(self, reason: str, *, as_asked: bool) -> None:
        self.phase = Phase.ENDED
        self.end_reason = reason
        self.ended_as_asked = as_asked


def acknowledgement(seq: int) -> Mapping[str, Any]:
    """The ``session.event_ack`` that lets the server forget every event up to ``seq``."""
    return {"type": "session.event_ack", "server_event_seq": seq}
