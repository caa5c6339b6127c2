"""Frames about the session itself: opened, changed, resumed, ended, and what went wrong."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import ProtocolError
from ..objects import ErrorBody, Plain
from .frame import ServerEvent


class SessionCreated(ServerEvent, frozen=True, kw_only=True, tag="session.created"):
    """The session is open. Unsequenced. The fields beside ``session`` belong to one socket only.

    ``durability`` is there for clients that asked for it: the level their session is kept at.
    """

    TIER: ClassVar[int] = 2

    session: Plain
    incarnation: int | UnsetType = UNSET
    attachment_generation: int | UnsetType = UNSET
    resume_token: str | UnsetType = UNSET
    durability: str | UnsetType = UNSET


class SessionUpdated(ServerEvent, frozen=True, kw_only=True, tag="session.updated"):
    """The settings that hold from now on, whole."""

    TIER: ClassVar[int] = 2

    session: Plain


class SessionHeartbeatAck(ServerEvent, frozen=True, kw_only=True, tag="session.heartbeat_ack"):
    """A heartbeat arrived."""

    TIER: ClassVar[int] = 3

    session_id: str


class SessionClosed(ServerEvent, frozen=True, kw_only=True, tag="session.closed"):
    """The session is over; nothing follows. ``event`` repeats the two fields for clients that look there."""

    TIER: ClassVar[int] = 3

    session_id: str
    reason: str
    event: Plain | UnsetType = UNSET


class SessionResumed(ServerEvent, frozen=True, kw_only=True, tag="session.resumed"):
    """This socket holds the session now; what it missed follows. Unsequenced. The presented token is dead.

    ``last_client_event_id`` is the id of the last client event that arrived and bears one: all up to it arrived, all
    after it did not. ``None`` when none did, absent when that cannot be said.
    """

    TIER: ClassVar[int] = 3

    session_id: str
    incarnation: int
    attachment_generation: int
    resume_token: str
    last_client_event_id: str | UnsetType | None = UNSET
    durability: str | UnsetType = UNSET


class SessionReplaced(ServerEvent, frozen=True, kw_only=True, tag="session.replaced"):
    """Another socket took the session over; this one, of ``attachment_generation``, is closed. Unsequenced."""

    TIER: ClassVar[int] = 3

    session_id: str
    attachment_generation: int


class SessionExpired(ServerEvent, frozen=True, kw_only=True, tag="session.expired"):
    """The session's lease ran out. Unsequenced."""

    TIER: ClassVar[int] = 3

    session_id: str
    incarnation: int
    reason: str


class SessionResyncRequired(ServerEvent, frozen=True, kw_only=True, tag="session.resync_required"):
    """A replay without a gap is impossible: ``journal_gap`` or ``journal_overflow``. Unsequenced.

    ``first_available`` is the lowest seq that could still be had, where it is known.
    """

    TIER: ClassVar[int] = 3

    session_id: str
    reason: str
    first_available: int | UnsetType = UNSET


class RuntimeControl(ServerEvent, frozen=True, kw_only=True, tag="runtime.control"):
    """A control signal was only partly carried out; diagnostic."""

    TIER: ClassVar[int] = 3

    session_id: str
    epoch: int
    result: Plain


class Error(ServerEvent, frozen=True, kw_only=True, tag="error"):
    """Something was refused or failed; the session goes on unless the code says otherwise."""

    TIER: ClassVar[int] = 2

    error: ErrorBody

    @classmethod
    def of(cls, error: ProtocolError) -> Error:
        """The frame that says what ``error`` says, its class taken from the table."""
        body = ErrorBody(
            type=error.entry.type,
            code=error.code,
            message=error.message,
            event_id=UNSET if error.event_id is None else error.event_id,
            param=UNSET if error.param is None else error.param,
            retry_after_ms=UNSET if error.retry_after_ms is None else error.retry_after_ms,
        )
        return cls(error=body)


class FlatError(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="error"):
    """An error in the shape of the handshake, before a session is bound to the socket. Never sequenced."""

    error: str
    code: str
    retry_after_ms: int | UnsetType = UNSET

    @classmethod
    def of(cls, error: ProtocolError) -> FlatError:
        """The frame that says what ``error`` says."""
        again = UNSET if error.retry_after_ms is None else error.retry_after_ms
        return cls(error=error.message, code=error.code, retry_after_ms=again)


class SessionGoingAway(ServerEvent, frozen=True, kw_only=True, tag="session.going_away"):
    """An extension: this server will close the socket in ``grace_ms``; the session can be resumed elsewhere.

    ``resume_token`` is the one to do it with, where there is one.
    """

    TIER: ClassVar[int] = 3

    session_id: str
    reason: str
    grace_ms: int
    resume_token: str | UnsetType = UNSET


class SessionDurable(ServerEvent, frozen=True, kw_only=True, tag="session.durable"):
    """An extension: no frame up to ``durable_seq`` is lost with one node of the log's store. Unsequenced.

    Only for clients that asked for it.
    """

    TIER: ClassVar[int] = 3

    session_id: str
    durable_seq: int
