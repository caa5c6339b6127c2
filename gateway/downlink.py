"""Log → socket: reads the session's output after a seq, encodes it, sends it; ends when the session does.

A frame is sent before the next one is asked for: the log is the buffer of a slow reader, not this process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from duplex_es.log.api import Attachment, AttachmentRaised, Ended, Entry, EntryId, Follower, Opened
from duplex_es.log.errors import PositionGone
from duplex_es.protocol import (
    ERRORS,
    Error,
    ErrorCode,
    Frame,
    OpeningAnswer,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    ServerEvent,
    SessionClosed,
    SessionCreated,
    SessionExpired,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
    derive_event_id,
    given,
    unpack_opening,
    unpack_output,
)
from duplex_es.protocol.dialects import STOCK

from . import edge, endings
from .durability import is_irreversible
from .endings import Ending
from .peer import Peer
from .watching import SocketWatch

_UNSEQUENCED = (SessionCreated, SessionResumed, SessionReplaced, SessionExpired, SessionResyncRequired)


class SocketLost(Exception):
    """The peer takes nothing any more; the uplink hears of it, too, and says how."""


class Downlink:
    """One socket's way down: ``opening`` first where a session is being opened, then ``run``.

    ``after`` is the last frame the client has; its ``generation`` is the fence at which that was known to be so, or 0.
    ``keep`` is awaited before each frame that cannot be taken back. ``last_seq`` is the highest seq sent, or skipped
    because the client has it.
    """

    def __init__(
        self,
        peer: Peer,
        follower: Follower,
        attachment: Attachment,
        after: EntryId,
        keep: Callable[[], Awaitable[None]] | None = None,
        watch: SocketWatch | None = None,
    ) -> None:
        self.last_seq = after.number
        self._peer = peer
        self._follower = follower
        self._attachment = attachment
        self._keep = keep
        self._watch = watch or SocketWatch()
        self._early: list[Entry] = []
        self._fatal: ErrorCode | None = None
        self._overflowed = False
        self._answers: set[str] = set()
        self._head_seq = 0
        self._arrived: Callable[[], None] | None = None
        follower.start(after)
        self._items = aiter(follower)

    @property
    def answering(self) -> bool:
        """Whether the client has heard something of an answer, and not its end."""
        return bool(self._answers)

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

    async def run(self, head_seq: int = 0, arrived: Callable[[], None] = lambda: None) -> Ending:
        """Send every frame after ``last_seq``, once, in order, until the session ends or another socket has it.

        A client that was so slow that the log has dropped what it should hear next is told so once, and goes on with
        the first frame there is; from then on frames have no seq. Stock clients cannot be told. ``arrived`` is called
        as soon as everything up to ``head_seq`` was sent.
        Raises: SocketLost, PositionGone, RecordUnreadable, LogError.
        """
        self._head_seq, self._arrived = head_seq, arrived
        self._look_whether_arrived()
        early, self._early = self._early, []
        for entry in early:
            if (ending := await self._pass_on(entry)) is not None:
                return ending
        while True:
            try:
                return await self._follow()
            except PositionGone as gone:
                if gone.first_available <= self.last_seq + 1 or self._peer.dialect in STOCK:
                    raise  # Not dropped but lost, and written again differently; or nobody to tell.
                await self._skip_to(gone.first_available)

    async def _skip_to(self, seq: int) -> None:
        if not self._overflowed and not await self._peer.tell(edge.overflow(self._attachment.ref.session_id, seq)):
            raise SocketLost
        self._overflowed = True
        self.last_seq = seq - 1
        self._follower.start(EntryId(0, self.last_seq))

    async def _follow(self) -> Ending:
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
        if not isinstance(record.frame, ServerEvent):
            self._look_whether_arrived()
            return None
        if not await self._tell(record.frame):
            raise SocketLost
        self._watch.passed_on(record.at_ms, missed=self.last_seq <= self._head_seq)
        self._look_whether_arrived()
        return self._conclusion(record.frame)

    def _look_whether_arrived(self) -> None:
        if self._arrived is not None and self.last_seq >= self._head_seq:
            self._arrived()
            self._arrived = None
            self._watch.caught_up()

    async def _tell(self, frame: Frame) -> bool:
        if isinstance(frame, _UNSEQUENCED):
            return await self._peer.tell(frame)
        self._note_answer(frame)
        if self._keep is not None and is_irreversible(frame):
            await self._keep()
        ref = self._attachment.ref
        event_id = derive_event_id(ref.session_id, ref.incarnation, self.last_seq)
        return await self._peer.tell(frame, event_id=event_id, seq=None if self._overflowed else self.last_seq)

    def _note_answer(self, frame: Frame) -> None:
        if isinstance(frame, ResponseDone):
            self._answers.discard(given(frame.response.id, ""))
        elif isinstance(frame, ResponseCreated):
            self._answers.add(given(frame.response.id, ""))
        elif isinstance(frame, ResponseOutputAudioDelta):
            self._answers.add(frame.response_id)

    def _conclusion(self, frame: Frame) -> Ending | None:
        if isinstance(frame, SessionClosed):
            return endings.CLOSED if self._fatal is None else endings.closed_after(self._fatal)
        if isinstance(frame, SessionExpired):
            return endings.EXPIRED
        if isinstance(frame, Error) and (entry := ERRORS.get(frame.error.code)) is not None:
            self._fatal = entry if entry.closes else None
        return None
