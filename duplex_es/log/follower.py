"""A live reader of one stream: the log for what was, notifications for what comes, and the log again for every hole."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

from .api import START, AttachmentRaised, Ended, Entry, EntryId, Opened
from .errors import PositionGone
from .feed import Feed
from .notifications import decode
from .observing import UNOBSERVED, LogObserver

CATCH_UP_ENTRIES = 200
"""The most that one step of catching up reads; ``CATCH_UP_BYTES`` is what it should not exceed by much."""
CATCH_UP_BYTES = 256 * 1024
FEWEST_ENTRIES = 8


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a session stands: what a follower needs to know after it may have missed something.

    ``generation`` is that of the followed stream's newest writer, ``attachment`` the newest attachment.
    ``written_under`` is the claim that wrote the seq which was looked after, 0 when that is not known.
    """

    state: str
    generation: int
    attachment: int
    first_seq: int
    read_after: EntryId
    reason: str
    opening: bytes | None
    written_under: int = 0


class RedisFollower(Feed):
    """A ``Follower`` over a subscription that its maker holds.

    ``read(after, limit)`` reads stored entries, ``look(after_seq)`` the standing. The buffer of live entries is
    bounded: beyond that they are dropped and read from the log when the reader gets there.
    """

    def __init__(
        self,
        read: Callable[[EntryId, int], Awaitable[list[Entry]]],
        look: Callable[[int], Awaitable[Standing]],
        *,
        output: bool,
        buffer_bytes: int,
        observer: LogObserver = UNOBSERVED,
    ) -> None:
        super().__init__()
        self._read = read
        self._look = look
        self._output = output
        self._stream = "output" if output else "input"
        self._buffer_bytes = buffer_bytes
        self._observer = observer
        self._wake = asyncio.Event()
        self._live: deque[Entry] = deque()
        self._came_s: deque[float] = deque()  # when each of these did
        self._live_bytes = 0
        self._after = START  # the id to go on reading after; at or above the last entry's
        self._seen = START  # the newest entry that is known of
        self._behind = False  # the log holds entries that are not in the buffer
        self._unsure = True  # something may have been missed: look before going on
        self._newest = 0  # the newest generation of the stream's writers
        self._raised = 0
        self._told_raised = 0
        self._opening: bytes | None = None
        self._told_opening = False
        self._ended: str | None = None
        self._step = CATCH_UP_ENTRIES
        self._vouched = False
        self.passed = 0
        """The newest fence whose entries were delivered, so that a seq used again before it would have been noticed."""

    def start(self, after: EntryId) -> None:
        """See ``Follower``."""
        self._vouched = after.generation > 0 or after.number == 0
        super().start(after)

    @property
    def position(self) -> EntryId:
        """The last entry that was delivered, else where it began."""
        return self._last

    # -- what the subscription and the renewal of leases report ----------------------------------------------------

    def received(self, data: bytes) -> None:
        """A notification arrived."""
        try:
            news = decode(data)
        except (ValueError, IndexError):
            return  # nobody of ours wrote this
        match news:
            case Entry(id=entry_id):
                if self._is_current(entry_id):
                    self._keep(news)
            case EntryId():
                if self._is_current(news):
                    self._behind = True
            case Opened(opening=opening):
                self._opening = opening
            case AttachmentRaised(generation=generation):
                self._raised = max(self._raised, generation)
            case Ended(reason=reason):
                # Nothing more will show a hole: see whether all that is left to be read is still there.
                self._ended, self._unsure = reason, True
        self._wake.set()

    def resumed(self) -> None:
        """The subscription was interrupted: look, and read what was missed."""
        self._unsure = True
        self._wake.set()

    def noticed(self, state: str, generation: int, attachment: int, last: EntryId, opened: bool) -> None:
        """Somebody looked at the head: go and see if it says more than the notifications did."""
        position_is_new = last.number > self._seen.number if self._output else last > self._seen
        if (
            position_is_new
            or generation > self._newest
            or state in ("closed", "gone")
            or (self._output and (attachment > self._raised or (opened and self._opening is None)))
        ):
            self.resumed()

    def _is_current(self, entry_id: EntryId) -> bool:
        if entry_id.generation < self._newest:
            return False  # a fenced writer's: its record was refused
        self._newest = entry_id.generation
        if self._output and entry_id.number == 0:
            return False  # a claim's own record; it counted for the generation
        self._seen = max(self._seen, entry_id)
        return True

    def _keep(self, entry: Entry) -> None:
        if self._behind:
            return  # the log is read anyway, and by then it holds this one
        self._live_bytes += len(entry.body) + len(entry.audio or b"")
        if self._live_bytes > self._buffer_bytes:
            self._drop_live()
            self._behind = True
            self._observer.fell_behind(self._stream)
        else:
            self._live.append(entry)
            self._came_s.append(time.monotonic())

    def _drop_live(self) -> None:
        self._live.clear()
        self._came_s.clear()
        self._live_bytes = 0

    # -- reading ---------------------------------------------------------------------------------------------------

    async def _advance(self) -> None:
        self._wake.clear()
        if self._unsure:
            await self._see_where_it_stands()
        if self._output and not self._told_opening and self._opening is not None:
            self._told_opening = True
            self._pending.append(Opened(self._opening))
        if self._output and self._raised > self._told_raised:
            self._told_raised = self._raised
            self._pending.append(AttachmentRaised(self._raised))
        if self._pending:
            return
        if self._behind:
            await self._catch_up()
        elif self._live:
            self._take_live()
        elif self._ended is not None:
            self._finished = True
            if self._output:
                self._pending.append(Ended(self._ended))
        elif not self._unsure:
            await self._wake.wait()

    async def _see_where_it_stands(self) -> None:
        """Take over what the head says, and from which id to go on reading."""
        self._unsure = False
        try:
            standing = await self._look(self._last.number)
        except BaseException:
            self._unsure = True
            raise
        self._newest = max(self._newest, standing.generation)
        self._raised = max(self._raised, standing.attachment)
        self._opening = self._opening if standing.opening is None else standing.opening
        self._behind = True
        if standing.state in ("closed", "past", "gone"):
            self._ended = standing.reason or standing.state
        if not self._output:
            self._after = self._last
            return
        self._after = standing.read_after
        if 0 < self._last.generation < standing.written_under:
            self._lose_position(self._last.number + 1)
        if standing.state != "gone" and self._last.number + 1 < standing.first_seq:
            self._unsure = True
            raise PositionGone(standing.first_seq)

    async def _catch_up(self) -> None:
        """Read the next stored entries. Live ones that arrive meanwhile are kept; those from before are read here."""
        self._behind = False
        self._drop_live()
        try:
            entries = await self._read(self._after, self._step)
        except BaseException:
            self._behind = True
            raise
        if len(entries) == self._step:
            self._behind = True
        if not entries and self._output and self._seen.number > self._last.number:
            self._seen, self._unsure = self._last, True  # trimmed, or lost by the store
        for entry in entries:
            self._after = entry.id
            self._seen = max(self._seen, entry.id)
            if self._is_later(entry.id):
                if self._output and entry.id.number > self._last.number + 1:
                    self._lose_position(entry.id.number)
                self._deliver(entry)
            elif self._is_used_again(entry.id):
                self._lose_position(self._last.number + 1)
        self._fit(entries)

    def _fit(self, entries: list[Entry]) -> None:
        """Read as many entries next time as make a reasonable amount of memory."""
        if entries:
            size = sum(len(entry.body) + len(entry.audio or b"") for entry in entries) // len(entries)
            self._step = max(FEWEST_ENTRIES, min(CATCH_UP_ENTRIES, CATCH_UP_BYTES // max(1, size)))

    def _take_live(self) -> None:
        entry, came_s = self._live.popleft(), self._came_s.popleft()
        self._live_bytes -= len(entry.body) + len(entry.audio or b"")
        if self._follows(entry.id):
            self._after = entry.id
            self._deliver(entry)
            self._observer.delivered(self._stream, time.monotonic() - came_s)
        elif self._is_later(entry.id):
            self._behind = True  # a hole: this entry and what is before it stand in the log
        elif self._is_used_again(entry.id):
            self._lose_position(self._last.number + 1)

    def _deliver(self, entry: Entry) -> None:
        self._last = entry.id
        self._pending.append(entry)
        if self._vouched:
            self.passed = max(self.passed, entry.id.generation)

    def _is_later(self, entry_id: EntryId) -> bool:
        if self._output:
            return entry_id.number > self._last.number  # number 0, a claim's record, never is
        return entry_id > self._last

    def _is_used_again(self, entry_id: EntryId) -> bool:
        """Whether a newer claim wrote a seq that was delivered already, because the store had lost it meanwhile."""
        return self._output and entry_id.number > 0 and entry_id.generation > self._last.generation > 0

    def _lose_position(self, first_available: int) -> NoReturn:
        self._unsure = True
        raise PositionGone(first_available)

    def _follows(self, entry_id: EntryId) -> bool:
        """Whether nothing can be missing between the last entry and this one."""
        if entry_id.number != self._last.number + 1:
            return False
        # Where the writer changes the log is read first: an input index restarts with each attachment, and a new claim
        # may have written seqs again that the store had lost, under notifications that never came.
        return entry_id.generation == self._last.generation
