"""Erasing: what is to go leaves the store, the archive and the exports that are known, and a tombstone stays.

The order makes a step that was interrupted harmless: keys are destroyed before what they seal is removed, and asking
again finishes what is left.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..log.api import Entry, Keeping, Life, SessionLog
from ..log.errors import SessionUnknown
from ..log.keeping import keeping_of
from ..reading.dxlog import FileSource, Manifest, Writer
from ..reading.errors import ReadingError
from ..reading.notes import Exported, Note, Tombstone, pack_note, tombstones_of, unpack_notes
from ..reading.source import LiveSource
from .callers import callers_of
from .layout import OPEN, LifeName
from .redaction import Redaction, Scope
from .resealing import destroy_keys, learn, put_away, reseal, tidy
from .source import ArchiveSource
from .writing import Archiver

REASON = "erased"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be erased of a session, and what its tombstone says: ``scope`` is ``None`` for all of it."""

    scope: Scope | None
    by: str = ""
    reason: str = ""

    def tombstone(self, name: LifeName, records: int = 0) -> Tombstone:
        """The tombstone of one life, made now."""
        scope = self.scope or Scope()
        what = "session" if self.scope is None else "audio" if scope.speaker else "span"
        return Tombstone(
            session_id=name.session_id,
            incarnation=name.incarnation,
            created_ms=name.created_ms,
            what=what,
            at_ms=time.time_ns() // 1_000_000,
            speaker=scope.speaker,
            from_ms=scope.from_ms,
            to_ms=scope.to_ms,
            records=records,
            by=self.by,
            reason=self.reason,
        )


@dataclass(frozen=True, slots=True)
class Done:
    """One thing that was erased, or would be: of which life (``ID#INCARNATION``), where, and what in words."""

    session: str
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Target:
    """Which sessions: an id, and with ``incarnation`` one life of it only."""

    session_id: str
    incarnation: int | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """``ID`` or ``ID#INCARNATION``."""
        session_id, mark, number = text.rpartition("#")
        return cls(session_id, int(number)) if mark and number.isdigit() else cls(text)

    def fits(self, incarnation: int) -> bool:
        """Whether this life is meant."""
        return self.incarnation in (None, incarnation)


class Eraser:
    """Erases from a store (``log``) and an archive, whichever are given. ``archiver`` writes what is left of a life."""

    def __init__(self, log: SessionLog | None, archiver: Archiver | None, *, closes: bool = False) -> None:
        self._log, self._archiver, self._closes = log, archiver, closes
        self._keeping: Keeping | None = None if log is None else keeping_of(log)
        self._source = None if archiver is None else ArchiveSource(archiver.files, archiver.keys)

    async def of_caller(self, caller: str) -> list[Target]:
        """Every life whose client said that this is its caller; reads the input of every session of the store."""
        found: dict[Target, None] = {}
        if self._log is not None and self._keeping is not None:
            live = LiveSource(self._log, "the store")
            for life in await self._keeping.lives():
                if caller in await callers_of(life.head, live.input(life.head)):
                    found[Target(life.head.ref.session_id, life.head.ref.incarnation)] = None
        if self._source is not None and self._archiver is not None:
            digests = set(self._archiver.keys.operator.digests(caller))
            for manifest in await self._source.manifests():
                if digests & set(manifest.callers):
                    found[Target(manifest.session_id, manifest.incarnation)] = None
        return list(found)

    async def erase(self, target: Target, wish: Wish, *, dry_run: bool = False) -> list[Done]:
        """Erase, or say what would be. A repeat does what was left over. Raises: ReadingError, LogError."""
        lives = await self._closed_lives(target, dry_run=dry_run)
        exports = await self._exports(target)
        done: list[Done] = []
        if not dry_run:
            await self._stop_archiving(lives)
        for life in lives:
            done.append(await self._erase_stored(life, wish, dry_run=dry_run))
        if not dry_run:
            # Whoever began again meanwhile may have read what was there before.
            await self._stop_archiving(lives)
        done += await self._erase_archived(target, wish, {LifeName.of(life) for life in lives}, dry_run=dry_run)
        for note in exports:
            done.append(await asyncio.to_thread(erase_export, note, wish, dry_run=dry_run))
        return done

    # -- the store -------------------------------------------------------------------------------------------------

    async def _closed_lives(self, target: Target, *, dry_run: bool) -> list[Life]:
        if self._keeping is None:
            return []
        lives = [one for one in await self._keeping.lives(target.session_id) if target.fits(one.head.ref.incarnation)]
        for life in lives:
            if life.head.state != "closed" and not dry_run:
                if not self._closes:
                    raise ReadingError(
                        f"session {target.session_id!r} is still going on, and its owner would write what is erased "
                        "again: --close ends it first"
                    )
                await self._keeping.terminate(life.head.ref, REASON)
        if any(life.head.state != "closed" for life in lives) and not dry_run:
            return await self._closed_lives(target, dry_run=False)
        return lives

    async def _erase_stored(self, life: Life, wish: Wish, *, dry_run: bool) -> Done:
        assert self._log is not None and self._keeping is not None
        head, name = life.head, LifeName.of(life)
        label, where = f"{name.session_id}#{name.incarnation}", "store"
        if wish.scope is None:
            if not dry_run:
                await self._keeping.note(name.session_id, pack_note(wish.tombstone(name)))
                try:
                    await self._keeping.erase(head.ref)
                except SessionUnknown:
                    return Done(label, where, "had expired")
            return Done(label, where, "everything")
        live = LiveSource(self._log, where)
        redaction = Redaction(wish.scope)
        await learn(redaction, live.input(head), live.output(head))
        kept = redaction.begin(head.first_seq, await live.snapshots(head))
        left = Life(replace(head, opening=redaction.opening(head.opening)), life.created_ms)
        said = _given_back(live.input(head, audio=True), redaction, is_input=True)
        shown = _given_back(live.output(head, audio=True), redaction, is_input=False)
        if dry_run:
            async for _ in said:
                pass
            async for _ in shown:
                pass
            return Done(label, where, f"parts of {redaction.changed} records")
        await self._keeping.replace(left, said, shown, kept)
        await self._keeping.note(name.session_id, pack_note(wish.tombstone(name, redaction.changed)))
        return Done(label, where, f"parts of {redaction.changed} records")

    # -- the archive -----------------------------------------------------------------------------------------------

    async def _stop_archiving(self, lives: list[Life]) -> None:
        """What is being archived right now, with what is to be erased, is made unreadable; it is archived again."""
        if self._archiver is None:
            return
        for life in lives:
            name = LifeName.of(life)
            manifest = await self._archiver.known(name)
            if manifest is None:
                await destroy_keys(self._archiver.keys, name)
                left = await asyncio.to_thread(self._archiver.files.names, name.segments)
                await asyncio.to_thread(self._archiver.files.remove, *left, name.open_manifest)

    async def _erase_archived(self, target: Target, wish: Wish, stored: set[LifeName], *, dry_run: bool) -> list[Done]:
        if self._archiver is None or self._source is None:
            return []
        done: list[Done] = []
        found = [one for one in await self._source.manifests(target.session_id) if target.fits(one.incarnation)]
        for manifest in found:
            name = manifest.life
            label = f"{name.session_id}#{name.incarnation}"
            if manifest.state == "erased":
                if not dry_run:
                    await tidy(self._archiver.files, self._archiver.keys, manifest)
                continue
            if wish.scope is None:
                if not dry_run:
                    tombstone = wish.tombstone(name)
                    await put_away(self._archiver.files, self._archiver.keys, manifest, tombstone)
                done.append(Done(label, "archive", "everything"))
            elif manifest.state != OPEN or name not in stored:
                changed = 0
                if not dry_run:
                    changed = await reseal(self._archiver, manifest, Redaction(wish.scope), wish.tombstone(name))
                what = "parts of its records" if dry_run else f"parts of {changed} records"
                done.append(Done(label, "archive", what))
        return done

    # -- exports ---------------------------------------------------------------------------------------------------

    async def _exports(self, target: Target) -> list[Exported]:
        notes: list[Note] = []
        if self._keeping is not None:
            notes += unpack_notes(await self._keeping.notes(target.session_id))
        if self._source is not None:
            notes += await self._source.exports(target.session_id)
        found = {(note.host, note.path): note for note in notes if isinstance(note, Exported)}
        return [note for note in found.values() if target.fits(note.incarnation)]


async def _given_back(entries: AsyncIterator[Entry], redaction: Redaction, *, is_input: bool) -> AsyncIterator[Entry]:
    async for entry in entries:
        yield redaction.input(entry) if is_input else redaction.output(entry)


def erase_export(note: Exported, wish: Wish, *, dry_run: bool) -> Done:
    """Erase from an exported file, if it can be reached from here and is still that session's."""
    label, path = f"{note.session_id}#{note.incarnation}", Path(note.path)
    if not path.exists():
        away = note.host != socket.gethostname()
        what = f"not reachable from here: it was written on {note.host}" if away else "is not there any more"
        return Done(label, note.path, what)
    with FileSource(path) as source:
        ref = source.head.ref
        if (ref.session_id, ref.incarnation) != (note.session_id, note.incarnation):
            return Done(label, note.path, "holds another session by now")
        if wish.scope is not None:
            changed = asyncio.run(_rewrite(source, path, wish, dry_run=dry_run))
            return Done(label, note.path, f"parts of {changed} records")
    if not dry_run:
        path.unlink()
    return Done(label, note.path, "the file")


async def _rewrite(source: FileSource, path: Path, wish: Wish, *, dry_run: bool) -> int:
    assert wish.scope is not None
    head, redaction = source.head, Redaction(wish.scope)
    await learn(redaction, source.input(head), source.output(head))
    kept = redaction.begin(head.first_seq, await source.snapshots(head))
    said = [redaction.input(entry) async for entry in source.input(head, audio=True)]
    shown = [redaction.output(entry) async for entry in source.output(head, audio=True)]
    if dry_run:
        return redaction.changed
    name = LifeName(head.ref.session_id, head.ref.incarnation, 0)
    known = tombstones_of(source.manifest.tombstones, head.ref)
    left = replace(head, opening=redaction.opening(head.opening), checkpoint=None)
    manifest = Manifest.now(left, [*known, wish.tombstone(name, redaction.changed)])
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        writer = Writer(file, manifest)
        writer.snapshots([] if kept is None else [kept])
        for stream, entries in (("input", said), ("output", shown)):
            for entry in entries:
                writer.add(stream, entry)
        writer.finish()
    part.replace(path)
    return redaction.changed
