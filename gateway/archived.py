"""Calls that the store has let go of: an archive beside it, read as one with it, for operators.

What the store has counts; the archive is asked for the rest. Nothing here writes. An archive that does not answer takes
nothing from what the store has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar

from duplex_es.log.api import START, Entry, EntryId, Head, SessionLog, SessionRef
from duplex_es.log.errors import SessionUnknown
from duplex_es.reading.errors import ReadingError, SessionMissing
from duplex_es.reading.notes import Erased, Note, tombstones_of
from duplex_es.reading.source import LiveSource, Source, chosen

from .settings import Settings

if TYPE_CHECKING:
    from duplex_es.archive.files import Files
    from duplex_es.archive.keystore import KeyStore
    from duplex_es.archive.listing import Listed, Listing
    from duplex_es.archive.source import ArchiveSource

FRESH_S = 2.0
"""How long what was found of a session is taken for so: a page asks for many pieces of one call."""
PATIENCE_S = 10.0
"""How long the archive may take for one answer: whoever reads it keeps a place from readers of live calls."""
REMEMBERED = 32

Name = TypeVar("Name")
Known = TypeVar("Known")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive that can be read: its files, its keys, and the list of what is in it."""

    files: Files
    keys: KeyStore
    listing: Listing


def open_archive(settings: Settings, log: SessionLog) -> Archive:
    """The archive that the settings name. Raises: ReadingError for what is not installed, or keys that are none."""
    from duplex_es.archive.files import Files
    from duplex_es.archive.keystore import key_store
    from duplex_es.archive.listing import Listing
    from duplex_es.archive.sealing import OperatorKeys, check_installed

    check_installed()
    files = Files(settings.archive, patience_s=PATIENCE_S)
    path = settings.archive_key_file
    operator = OperatorKeys.of_file(path) if path else OperatorKeys.parse(settings.archive_key)
    keys = key_store(settings.archive_keys, operator, log, patience_s=PATIENCE_S)
    return Archive(files, keys, Listing(files))


_HEAD = tuple(one.name for one in fields(Head))


@dataclass(frozen=True, slots=True)
class ArchivedHead(Head):
    """A head that came from the archive: never equal to one of the store, whose ids may come around again.

    ``ended_ms`` is when the last frame was written, where that is known without opening it.
    """

    created_ms: int = 0
    ended_ms: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, head: Head, created_ms: int, ended_ms: int | None = None) -> ArchivedHead:
        """The head of the life that was made then."""
        return cls(**{name: getattr(head, name) for name in _HEAD}, created_ms=created_ms, ended_ms=ended_ms)


def life_of(head: Head) -> tuple[SessionRef, int]:
    """What tells the lives apart that are read here: 0 stands for the one that the store has."""
    return head.ref, head.created_ms if isinstance(head, ArchivedHead) else 0


class WithArchive:
    """The ``Source`` of a store and an archive: each session once, from the store as long as it is there."""

    def __init__(
        self,
        live: LiveSource,
        archive: Archive,
        *,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"{live.name} and the archive at {archive.files.url}"
        self.trouble = ""
        """Why the last list is without the archive's sessions; empty when it is not."""
        self._live, self._archive, self._fresh_s, self._clock = live, archive, fresh_s, clock
        self._listed: tuple[list[Listed], list[ArchivedHead]] = ([], [])
        self._found: OrderedDict[str, tuple[float, Head]] = OrderedDict()
        self._opened: OrderedDict[Head, tuple[ArchiveSource, Head]] = OrderedDict()
        self._notes: OrderedDict[str, tuple[float, list[Note]]] = OrderedDict()

    def has(self, head: Head) -> bool:
        """Whether this head came from the archive."""
        return isinstance(head, ArchivedHead)

    async def sessions(self) -> list[Head]:
        """See ``Source``. An archive that does not answer is told in ``trouble``."""
        heads = await self._live.sessions()
        try:
            newest = await self._archive.listing.newest()
        except ReadingError as error:
            if self.trouble != str(error):  # A page that watches asks again and again.
                _log.warning("archived calls are not listed: %s", error)
            self.trouble = str(error)
            return heads
        self.trouble = ""
        if newest is not self._listed[0]:
            self._listed = newest, await asyncio.to_thread(_heads, newest)
        taken = {head.ref for head in heads}
        return [*heads, *(head for head in self._listed[1] if head.ref not in taken)]

    async def find(self, session: str | None) -> Head:
        """See ``Source``."""
        if session is None:
            return chosen(await self.sessions(), None, self.name)
        try:
            return await self._live.find(session)
        except ReadingError as missing:
            try:
                return await self._archived(session)
            except Erased:
                raise
            except ReadingError as error:
                if isinstance(missing, Erased) or isinstance(error, SessionMissing):
                    raise missing from None
                raise

    async def _archived(self, session: str) -> Head:
        """Where an archived session stood. Raises: SessionMissing, Erased, ReadingError."""
        known = self._found.get(session)
        if known is not None and self._clock() - known[0] < self._fresh_s and known[1] in self._opened:
            return known[1]
        from duplex_es.archive.keystore import KeyDestroyed
        from duplex_es.archive.source import ArchiveSource

        source = ArchiveSource(self._archive.files, self._archive.keys)
        try:
            inner = await source.find(session)
        except KeyDestroyed:
            # Just now: its manifest still says what it was.
            for manifest in await source.manifests(session):
                await self._check_erased(session, manifest.life.ref, manifest.created_ms)
            raise
        head = ArchivedHead.of(inner, source.manifest_of(inner).created_ms)
        await self._check_erased(session, head.ref, head.created_ms)
        _remember(self._opened, head, (source, inner))
        _remember(self._found, session, (self._clock(), head))
        return head

    async def _check_erased(self, session: str, ref: SessionRef, created_ms: int) -> None:
        """What was erased whole is not shown, also where only the store was told. Raises: Erased."""
        told = tombstones_of(await self._live.notes_on(ref.session_id), ref, created_ms)
        if whole := [tombstone for tombstone in told if tombstone.what == "session"]:
            raise Erased(session, whole)

    async def input(self, head: Head, after: EntryId = START, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        async for entry in self._entries(head, lambda source, at: source.input(at, after, audio=audio)):
            yield entry

    async def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        async for entry in self._entries(head, lambda source, at: source.output(at, after_seq, audio=audio)):
            yield entry

    async def _entries(self, head: Head, read: Callable[[Source, Head], AsyncIterator[Entry]]) -> AsyncIterator[Entry]:
        if not self.has(head):
            begun = False
            try:
                async for entry in read(self._live, head):
                    begun = True
                    yield entry
                return
            except SessionUnknown:
                if begun:
                    raise ReadingError("the store let the session go while it was read: read it again") from None
        source, at = await self._of(head)
        async for entry in read(source, at):
            yield entry

    async def _of(self, head: Head) -> tuple[ArchiveSource, Head]:
        """Who reads this session from the archive, and the head that it knows it by."""
        if head not in self._opened:
            # Opened long ago; or found in the store, which has let go of it since.
            name = f"{head.ref.session_id}#{head.ref.incarnation}"
            if isinstance(head, ArchivedHead):
                name = f"{head.ref.session_id}@{head.ref.incarnation}-{head.created_ms}"
            head = await self._archived(name)
        return self._opened[head]

    async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
        """See ``Source``."""
        if not self.has(head):
            return await self._live.snapshots(head)
        source, at = await self._of(head)
        return await source.snapshots(at)

    async def notes_on(self, session_id: str) -> list[Note]:
        """See ``Source``; of both, and of the store alone while the archive does not answer."""
        known = self._notes.get(session_id)
        if known is None or self._clock() - known[0] >= self._fresh_s:
            from duplex_es.archive.source import ArchiveSource

            try:
                kept = await ArchiveSource(self._archive.files, self._archive.keys).notes_on(session_id)
            except ReadingError:
                kept = []
            known = (self._clock(), kept)
            _remember(self._notes, session_id, known)
        return await self._live.notes_on(session_id) + known[1]

    async def note(self, note: Note) -> None:
        """See ``Source``: into the store."""
        await self._live.note(note)

    async def broken(self, head: Head) -> str | None:
        """See ``Source``."""
        if not self.has(head):
            return await self._live.broken(head)
        source, at = await self._of(head)
        return await source.broken(at)


def _heads(listed: list[Listed]) -> list[ArchivedHead]:
    """One for each ref: an id may have come around again from its first life, and the newest counts."""
    found: dict[SessionRef, ArchivedHead] = {}
    for one in listed:
        if one.head.ref not in found:
            found[one.head.ref] = ArchivedHead.of(one.head, one.created_ms, one.ended_ms)
    return list(found.values())


def _remember(kept: OrderedDict[Name, Known], name: Name, value: Known) -> None:
    """Keep ``value``, and of all only the last ``REMEMBERED``."""
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
