"""Archiving one life: segments first, then where it stood, its index, and last the manifest.

Every name follows from what it holds and every write is whole or not at all, so that a step done again, by this process
after a crash or by another one at the same time, finds what is there and goes on. What is in the manifest is there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from .. import __version__
from ..log.api import START, Entry, EntryId, Life
from ..observability import catalogue
from ..observability.recording import UNMEASURED, Metrics
from ..protocol.records import SCHEMA_VERSION
from ..reading.dxlog import HeadRecord
from ..reading.notes import Tombstone, tombstones_of
from ..reading.records import output_line
from ..reading.source import Source
from .callers import callers_of
from .contents import Contents, read_manifest
from .files import Files
from .index import build_index
from .keystore import KeyDestroyed, KeyStore
from .layout import OPEN, LifeName, Manifest, SegmentNote, pack_manifest
from .segments import NO_CHAIN, SEGMENT_BYTES, SEGMENT_ENTRIES, Standing, pack_segment, pack_standing


@dataclass
class Progress:
    """How far a stream is archived: after which entry, and with which link of its chain."""

    after: EntryId
    chain: bytes
    notes: list[SegmentNote]


class Archiver:
    """Writes lives into the archive at ``files``. Not shared between tasks; any number of processes may have one."""

    def __init__(
        self, files: Files, keys: KeyStore, *, clear_text: bool = False, metrics: Metrics = UNMEASURED
    ) -> None:
        self.files, self.keys, self._clear_text, self._metrics = files, keys, clear_text, metrics

    async def known(self, name: LifeName) -> Manifest | None:
        """The manifest of a life that is archived whole, or erased; one whose key is gone counts only when erased."""
        manifest = await asyncio.to_thread(read_manifest, self.files, name.manifest)
        if manifest is None or manifest.state == "erased":
            return manifest
        if not await self.keys.is_destroyed(name.session_id, name.name, manifest.generation):
            return manifest
        now = await asyncio.to_thread(read_manifest, self.files, name.manifest)
        if now is None or (now.state, now.generation) != (manifest.state, manifest.generation):
            return await self.known(name)  # It was sealed anew, or erased, since it was read.
        # Something of it was erased from the store while this was being written.
        await asyncio.to_thread(self.files.remove, name.manifest)
        return None

    async def archive(self, life: Life, source: Source) -> Manifest:
        """Archive what is there of ``life``; whole when it is closed, else what is new. A repeat changes nothing.

        Raises: ReadingError, LogError; KeyDestroyed when it was erased meanwhile: then again, with what is left.
        """
        name = LifeName.of(life)
        if (manifest := await self.known(name)) is not None:
            return manifest
        generation, key = await self._current_key(name)
        contents = Contents(self.files, name, generation, key)
        notes = await self._stream(contents, source, life, "input") + await self._stream(
            contents, source, life, "output"
        )
        said = await source.notes_on(name.session_id)
        manifest = await self._manifest(contents, life, notes, tombstones_of(said, name.ref, name.created_ms))
        if manifest.state == OPEN:
            await asyncio.to_thread(self.files.put, name.open_manifest, pack_manifest(manifest))
            return manifest
        standing = Standing(head=HeadRecord.of(life.head), snapshots=await source.snapshots(life.head))
        packed = pack_standing(key, name, generation, standing)
        await asyncio.to_thread(self.files.put_new, name.head(generation), packed)
        await self.write_index(contents, manifest)
        await self._finish(manifest)
        return manifest

    async def _finish(self, manifest: Manifest) -> None:
        """Write the manifest, unless the key was destroyed meanwhile, also just now. Raises: KeyDestroyed."""
        name, written = manifest.life, False
        try:
            await self._still_sealed(manifest)
            written = await asyncio.to_thread(self.files.put_new, name.manifest, pack_manifest(manifest))
            await self._still_sealed(manifest)
            if not written:
                await self._give_way(manifest)
        except KeyDestroyed:
            left = [name.index(manifest.generation), *([name.manifest] if written else [])]
            await asyncio.to_thread(self.files.remove, *left)
            raise
        await asyncio.to_thread(self.files.remove, name.open_manifest)

    async def _give_way(self, manifest: Manifest) -> None:
        """There was a manifest already: what this one would have named goes if the session was erased meanwhile."""
        name = manifest.life
        there = await self.known(name)
        if there is not None and there.state == "erased":
            await self.keys.destroy(name.session_id, name.name, manifest.generation)
            left = await asyncio.to_thread(self.files.names, f"{name.segments}/{manifest.generation}")
            await asyncio.to_thread(self.files.remove, *left)
            raise KeyDestroyed(f"{name.name} was erased while it was archived")

    async def _still_sealed(self, manifest: Manifest) -> None:
        name = manifest.life
        if await self.keys.is_destroyed(name.session_id, name.name, manifest.generation):
            raise KeyDestroyed(f"something of {name.name} was erased while it was archived")

    async def _current_key(self, name: LifeName) -> tuple[int, bytes]:
        generation = 1
        while True:
            try:
                return generation, await self.keys.obtain(name.session_id, name.name, generation)
            except KeyDestroyed:
                generation += 1

    async def _manifest(
        self, contents: Contents, life: Life, notes: list[SegmentNote], tombstones: list[Tombstone]
    ) -> Manifest:
        name, head, whole = contents.life, life.head, life.head.state == "closed"
        callers = await callers_of(head, contents.entries("input", notes))
        digests = [digest for caller in callers for digest in self.keys.operator.digests(caller)[:1]]
        firsts = [note.first for note in notes if note.stream == "output"]
        return Manifest(
            schema_version=SCHEMA_VERSION,
            made_by=f"duplex-es {__version__}",
            archived_ms=time.time_ns() // 1_000_000,
            session_id=name.session_id,
            incarnation=name.incarnation,
            created_ms=name.created_ms,
            state="closed" if whole else OPEN,
            generation=contents.generation,
            model=head.model,
            attachment=head.generation,
            fence=head.fence,
            gateway=head.gateway,
            worker=head.worker,
            input=str(head.input if whole else _last(notes, "input")),
            output=str(head.output if whole else EntryId(head.fence, _last(notes, "output").number)),
            first_seq=EntryId.parse(firsts[0]).number if firsts else head.output.number + 1,
            acknowledged_seq=head.acknowledged_seq,
            ended_ms=await _ended_ms(contents, notes),
            callers=digests,
            segments=notes,
            tombstones=tombstones,
        )

    async def write_index(self, contents: Contents, manifest: Manifest) -> None:
        """Write the index of what is archived of a life."""
        packed = await build_index(
            manifest,
            contents.key,
            contents.entries("input", manifest.segments),
            contents.entries("output", manifest.segments),
            clear_text=self._clear_text,
        )
        await asyncio.to_thread(self.files.put, contents.life.index(contents.generation), packed)

    # -- segments --------------------------------------------------------------------------------------------------

    async def _stream(self, contents: Contents, source: Source, life: Life, stream: str) -> list[SegmentNote]:
        progress = await self._progress(contents, stream)
        while not await self._go_on(contents, source, life, stream, progress):
            pass  # Another process wrote a segment meanwhile: on after that.
        return progress.notes

    async def _progress(self, contents: Contents, stream: str) -> Progress:
        progress = Progress(START, NO_CHAIN, [])
        # Listed once: what comes later is met when it is written.
        for path in await contents.paths(stream):
            there = await contents.segment(path)
            progress.after, progress.chain = there.last, there.after
            progress.notes.append(there.note)
        return progress

    async def _go_on(self, contents: Contents, source: Source, life: Life, stream: str, progress: Progress) -> bool:
        """Write the segments that are missing; whether none of them was there already."""
        pending: list[Entry] = []
        size = 0
        async for entry in _entries(source, life, stream, progress.after):
            pending.append(entry)
            size += len(entry.body) + len(entry.audio or b"")
            if size > SEGMENT_BYTES or len(pending) >= SEGMENT_ENTRIES:
                if not await self._write(contents, stream, pending, progress):
                    return False
                pending, size = [], 0
        return not pending or await self._write(contents, stream, pending, progress)

    async def _write(self, contents: Contents, stream: str, entries: list[Entry], progress: Progress) -> bool:
        path = contents.life.segment(contents.generation, stream, entries[0].id)
        packed, chain = pack_segment(contents.key, contents.life, contents.generation, stream, entries, progress.chain)
        written = await asyncio.to_thread(self.files.put_new, path, packed)
        if written:
            note = SegmentNote(
                stream=stream,
                first=str(entries[0].id),
                last=str(entries[-1].id),
                count=len(entries),
                sealed_bytes=len(packed),
            )
            progress.after, progress.chain = entries[-1].id, chain
            progress.notes.append(note)
            self._metrics.count(catalogue.ARCHIVE_SEGMENTS, stream)
            self._metrics.count(catalogue.ARCHIVE_BYTES, stream, by=note.sealed_bytes)
            return True
        there = await contents.segment(path)
        progress.after, progress.chain = there.last, there.after
        progress.notes.append(there.note)
        return False


async def _ended_ms(contents: Contents, notes: list[SegmentNote]) -> int:
    """When the last frame was written; 0 when there is none."""
    found = 0
    async for entry in contents.entries("output", notes[-1:], EntryId(0, _last(notes, "output").number - 1)):
        found = output_line(entry).at_ms or 0
    return found


def _last(notes: list[SegmentNote], stream: str) -> EntryId:
    """The last entry of a stream that is archived."""
    return max((EntryId.parse(note.last) for note in notes if note.stream == stream), default=START)


def _entries(source: Source, life: Life, stream: str, after: EntryId) -> AsyncIterator[Entry]:
    if stream == "input":
        return source.input(life.head, after, audio=True)
    return source.output(life.head, after.number, audio=True)
