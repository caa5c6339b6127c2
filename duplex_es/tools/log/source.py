"""Where a session's log is read from: a live store or an exported file, through one interface.

Everything is read as of a ``Head``: what came later is not shown, so that a session that goes on is read as one moment.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

from ...log.api import START, Entry, EntryId, Head, SessionLog
from ...log.errors import LogUnavailable, PositionGone, SessionUnknown
from ..errors import ToolError
from ..show import opened

PAGE = 1_000
SOUND_PAGE = 200


class Source(Protocol):
    """Sessions that can be read. ``name`` says in words where they lie."""

    name: str

    async def sessions(self) -> list[Head]:
        """All sessions there are, by id."""

    async def find(self, session: str | None) -> Head:
        """The session of this id, or of ``ID#INCARNATION``; without one, the only one there is. Raises: ToolError."""

    def input(self, head: Head, after: EntryId = START, *, audio: bool = False) -> AsyncIterator[Entry]:
        """What is left of the input above ``after`` as of ``head``, ascending."""

    def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> AsyncIterator[Entry]:
        """What is left of the output above ``after_seq`` as of ``head``, ascending, records of claims left out."""

    async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
        """The snapshots that are kept and stand for a position up to ``head``, ascending by seq."""


class LiveSource:
    """The sessions of a store."""

    def __init__(self, log: SessionLog, url: str) -> None:
        self.log = log
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
            raise ToolError(f"no session {session!r} in this store") from error

    async def input(self, head: Head, after: EntryId = START, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        limit = SOUND_PAGE if audio else PAGE
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
                yield entry
            if not entries:
                return
            after, started = entries[-1].id, True

    async def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        limit = SOUND_PAGE if audio else PAGE
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
                yield entry
            if not entries:
                return
            after_seq, started = entries[-1].id.number, True

    async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
        """See ``Source``."""
        found: list[tuple[int, bytes]] = []
        below = head.output.number + 1
        while (kept := await self.log.read_snapshot(head.ref, below_seq=below)) is not None:
            found.append(kept)
            below = kept[0]
        return found[::-1]


def _passed(gone: PositionGone, started: bool) -> PositionGone:
    """What was trimmed before reading began is passed over; a hole in the middle is not."""
    if started:
        raise ToolError("the session was trimmed while it was read: read it again") from gone
    return gone


def _sorted(heads: Iterable[Head]) -> list[Head]:
    return sorted(heads, key=lambda head: (head.ref.session_id, head.ref.incarnation))


def chosen(heads: list[Head], session: str | None, name: str) -> Head:
    """The one of ``heads`` that ``session`` names (``ID``: its newest life, ``ID#N``), or the only one of all.

    Raises: ToolError.
    """
    if session is None:
        if len(heads) == 1:
            return heads[0]
        raise ToolError(f"{len(heads)} sessions in {name}: say which one")
    session_id, mark, incarnation = session.rpartition("#")
    found = [head for head in heads if head.ref.session_id == session]
    if mark and incarnation.isdigit():
        found += [h for h in heads if (h.ref.session_id, h.ref.incarnation) == (session_id, int(incarnation))]
    if not found:
        raise ToolError(f"no session {session!r} in {name}")
    return max(found, key=lambda head: head.ref.incarnation)


@asynccontextmanager
async def opened_source(args: argparse.Namespace) -> AsyncIterator[Source]:
    """What ``--file`` or else ``--redis-url`` names, closed at the end. Raises: ToolError when it cannot be read."""
    if args.file is not None:
        from .dxlog import FileSource

        with FileSource(args.file) as source:
            yield source
        return
    async with opened(args.redis_url) as log:
        try:
            yield LiveSource(log, args.redis_url)
        except SessionUnknown as error:
            raise ToolError(f"the session is gone from the store: {error}") from error
        except LogUnavailable as error:
            raise ToolError(f"the store at {args.redis_url} does not answer: {error}") from error
