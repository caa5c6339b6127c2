"""Log → socket: reads the session's output after a seq, encodes it, sends it; ends when the session does.

A frame is sent before the next one is asked for: the log is the buffer of a slow reader, not this process.
"""

from __future__ import annotations

from duplex_es.log.api import Attachment, AttachmentRaised, Ended, Entry, EntryId, Follower, Opened
from duplex_es.protocol import (
    ERRORS,
    Error,
    ErrorCode,
    Frame,
    OpeningAnswer,
    ServerEvent,
    SessionClosed,
    SessionCreated,
    SessionExpired,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
    derive_event_id,
    unpack_opening,
    unpack_output,
)

from . import endings
from .endings import Ending
from .peer import Peer

_UNSEQUENCED = (SessionCreated, SessionResumed, SessionReplaced, SessionExpired, SessionResyncRequired)


class SocketLost(Exception):
    """The peer takes nothing any more; the uplink hears of it, too, and says how."""


class Downlink:
    """One socket's way down: ``opening`` first where a session is being opened, then ``run``.

    ``last_seq`` is the highest seq sent, or skipped because the client has it.
    """

    def __init__(self, peer: Peer, follower: Follower, attachment: Attachment, after_seq: int) -> None:
        self.last_seq = after_seq
        self._peer = peer
        self._attachment = attachment
        self._early: list[Entry] = []
        self._fatal: ErrorCode | None = None
        follower.start(EntryId(0, after_seq))
        self._items = aiter(follower)

    async def opening(self) -> OpeningAnswer | Ending:
        """The worker's answer to the opening. Records that are there before it wait for ``run``.

        Raises: RecordUnreadable, LogError.
        """
        async for item in self._items:
            match item:
                case Entry():
                    self._early.append(item)
                case Opened(opening=packed):
                    return unpack_opening(packed)
                case AttachmentRaised(generation=generation) if generation > self._attachment.generation:
                    return endings.replaced(self._attachment)
                case Ended(reason=reason):
                    return endings.gone_from_log(self._attachment, reason)
        return endings.gone_from_log(self._attachment, "session_gone")

    async def run(self) -> Ending:
        """Send every frame after ``last_seq``, once, in order, until the session ends or another socket has it.

        Raises: SocketLost, PositionGone, RecordUnreadable, LogError.
        """
        early, self._early = self._early, []
        for entry in early:
            if (ending := await self._pass_on(entry)) is not None:
                return ending
        async for item in self._items:
            match item:
                case Entry():
                    if (ending := await self._pass_on(item)) is not None:
                        return ending
                case AttachmentRaised(generation=generation) if generation > self._attachment.generation:
                    return endings.replaced(self._attachment)
                case Ended(reason=reason):
                    return self._ended(reason)
        return self._ended("session_gone")

    def _ended(self, reason: str) -> Ending:
        """The session is over without a closing frame: an error that closes was word enough, silence is not."""
        if self._fatal is not None:
            return endings.closed_after(self._fatal)
        return endings.gone_from_log(self._attachment, reason)

    async def _pass_on(self, entry: Entry) -> Ending | None:
        record = unpack_output(entry.body, entry.audio)
        self.last_seq = entry.id.number
        if isinstance(record.frame, ServerEvent):
            if not await self._tell(record.frame):
                raise SocketLost
            return self._conclusion(record.frame)
        return None

    async def _tell(self, frame: Frame) -> bool:
        if isinstance(frame, _UNSEQUENCED):
            return await self._peer.tell(frame)
        ref = self._attachment.ref
        event_id = derive_event_id(ref.session_id, ref.incarnation, self.last_seq)
        return await self._peer.tell(frame, event_id=event_id, seq=self.last_seq)

    def _conclusion(self, frame: Frame) -> Ending | None:
        if isinstance(frame, SessionClosed):
            return endings.CLOSED if self._fatal is None else endings.closed_after(self._fatal)
        if isinstance(frame, SessionExpired):
            return endings.EXPIRED
        if isinstance(frame, Error) and (entry := ERRORS.get(frame.error.code)) is not None:
            self._fatal = entry if entry.closes else None
        return None
