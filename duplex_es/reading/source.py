"""Where a session's log is read from: a live store or an exported file, through one interface.

Everything is read as of a ``Head``: what came later is not shown, so that a session that goes on is read as one moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from ..log.api import START, Entry, EntryId, Head, SessionLog
from ..log.errors import LogError, LogUnavailable, PositionGone, SessionUnknown
from ..log.keeping import keeping_of
from ..protocol.upcasts import readable
from .errors import ReadingError, SessionMissing
from .notes import Note, check_erased, pack_note, unpack_notes

PAGE = 1_000
SOUND_PAGE = 200
FIRST_PAGE = 8
"""Many a reader wants only the next entry; the pages grow with what is wanted."""
GROWTH = 8


class Source(Protocol):
    """Sessions that can be read. ``name`` says in words where they lie."""

    name: str

    async def sessions(self) -> list[Head]:
        """All sessions there are, by id."""

    async def find(self, session: str | None) -> Head:
        """The session of this id, or of ``ID#INCARNATION``; without one, the only one. Raises: ReadingError."""

    def input(self, head: Head, after: EntryId = START, *, audio: bool = False) -> AsyncIterator[Entry]:
        """What is left of the input above ``after`` as of ``head``, ascending."""

    def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> AsyncIterator[Entry]:
        """What is left of the output above ``after_seq`` as of ``head``, ascending, records of claims left out."""

    async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
        """The snapshots that are kept and stand for a position up to ``head``, ascending by seq."""

    async def notes_on(self, session_id: str) -> list[Note]:
        """What is known of the sessions of this id beside their records, oldest first."""

    async def note(self, note: Note) -> None:
        """Keep a note beside the sessions, where there is a place for it."""

    async def broken(self, head: Head) -> str | None:
        """What was changed since it was written, in words, where that can be told; reads everything."""


class LiveSource:
    """The sessions of a store, in pages of up to ``page`` records, of ``sound_page`` with their sound."""

    def __init__(self, log: SessionLog, url: str, *, page: int = PAGE, sound_page: int = SOUND_PAGE) -> None:
        self.log = log
        self._page, self._sound_page = page, sound_page
        self.name = f"the store at {url}"

    async def sessions(self) -> list[Head]:
        """See ``Source``."""
        return _sorted(await self.log.sessions())

    async def find(self, session: str | None) -> Head:
        """See ``Source``."""
        heads = [] if session is not None and "#" not in session else await self.sessions()
        if heads or session is None:
            return chosen(heads, session, self.name)
        try:
            return await self.log.head(session)
        except SessionUnknown as error:
            check_erased(session, await self.notes_on(session))
            raise SessionMissing(f"no session {session!r} in this store") from error

    async def input(self, head: Head, after: EntryId = START, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        limit, most = FIRST_PAGE, self._sound_page if audio else self._page
        started = False
        while after < head.input:
            try:
                entries = await self.log.read_input(head.ref, after, limit=limit, audio=audio)
            except PositionGone as gone:
                after = _passed(gone, started).trimmed or after
                continue
            for entry in entries:
                if entry.id > head.input:
                    return
                yield _upcast("input", entry)
            if not entries:
                return
            after, started, limit = entries[-1].id, True, min(most, limit * GROWTH)

    async def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        limit, most = FIRST_PAGE, self._sound_page if audio else self._page
        started = False
        while after_seq < head.output.number:
            try:
                entries = await self.log.read_output(head.ref, after_seq, limit=limit, audio=audio)
            except PositionGone as gone:
                after_seq = _passed(gone, started).first_available - 1
                continue
            for entry in entries:
                if entry.id.number > head.output.number:
                    return
                yield _upcast("output", entry)
            if not entries:
                return
            after_seq, started, limit = entries[-1].id.number, True, min(most, limit * GROWTH)

    async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
        """See ``Source``."""
        found: list[tuple[int, bytes]] = []
        below = head.output.number + 1
        while (kept := await self.log.read_snapshot(head.ref, below_seq=below)) is not None:
            found.append(kept)
            below = kept[0]
        return found[::-1]

    async def notes_on(self, session_id: str) -> list[Note]:
        """See ``Source``."""
        try:
            return unpack_notes(await keeping_of(self.log).notes(session_id))
        except LogUnavailable:
            raise
        except LogError:
            return []  # A log of another kind.

    async def note(self, note: Note) -> None:
        """See ``Source``."""
        await keeping_of(self.log).note(note.session_id, pack_note(note))

    async def broken(self, head: Head) -> str | None:
        """See ``Source``: a store cannot tell."""
        return None


def _upcast(stream: str, entry: Entry) -> Entry:
    """The entry as this build would have written it, if an older one did."""
    body = readable(stream, entry.body)
    return entry if body is entry.body else Entry(entry.id, body, entry.audio)


def _passed(gone: PositionGone, started: bool) -> PositionGone:
    """What was trimmed before reading began is passed over; a hole in the middle is not."""
    if started:
        raise ReadingError("the session was trimmed while it was read: read it again") from gone
    return gone


def _sorted(heads: Iterable[Head]) -> list[Head]:
    return sorted(heads, key=lambda head: (head.ref.session_id, head.ref.incarnation))


def chosen(heads: list[Head], session: str | None, name: str) -> Head:
    """The one of ``heads`` that ``session`` names (``ID``: its newest life, ``ID#N``), or the only one of all.

    Raises: SessionMissing; ReadingError when nobody says which of several.
    """
    if session is None:
        if len(heads) == 1:
            return heads[0]
        raise ReadingError(f"{len(heads)} sessions in {name}: say which one")
    session_id, mark, incarnation = session.rpartition("#")
    found = [head for head in heads if head.ref.session_id == session]
    if mark and incarnation.isdigit():
        found += [h for h in heads if (h.ref.session_id, h.ref.incarnation) == (session_id, int(incarnation))]
    if not found:
        raise SessionMissing(f"no session {session!r} in {name}")
    return max(found, key=lambda head: head.ref.incarnation)
