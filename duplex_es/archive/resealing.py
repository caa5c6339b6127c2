"""What is archived of a life, put in the place of itself without a part, under a new key; or put away altogether.

The manifest is the turning point: until it is replaced the old generation is read, from then on the new one. Then the
old key is destroyed, so that copies of the old segments say nothing any more, and what it sealed is removed. Each step
may be done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec

from ..log.api import Entry
from ..reading.dxlog import HeadRecord
from ..reading.notes import Tombstone
from .contents import Contents
from .files import Files
from .keystore import KeyDestroyed, KeyStore
from .layout import OPEN, LifeName, Manifest, SegmentNote, pack_manifest
from .redaction import Redaction
from .segments import NO_CHAIN, SEGMENT_BYTES, SEGMENT_ENTRIES, Standing, pack_segment, pack_standing
from .writing import Archiver


async def reseal(archiver: Archiver, manifest: Manifest, redaction: Redaction, tombstone: Tombstone) -> int:
    """Take out of an archived life what ``redaction`` says; how many records changed. Raises: ReadingError."""
    files, keys, name = archiver.files, archiver.keys, manifest.life
    key = await keys.read(name.session_id, name.name, manifest.generation)
    old = Contents(files, name, manifest.generation, key)
    new = await _next_contents(archiver, manifest)
    standing = await old.standing()
    await learn(redaction, old.entries("input", manifest.segments), old.entries("output", manifest.segments))
    kept = redaction.begin(manifest.first_seq, [] if standing is None else standing.snapshots)
    notes = await _written(new, "input", _through(redaction, old.entries("input", manifest.segments), "input"))
    notes += await _written(new, "output", _through(redaction, old.entries("output", manifest.segments), "output"))
    if standing is not None:
        head = replace(standing.head.head(), opening=redaction.opening(standing.head.opening), checkpoint=None)
        after = Standing(head=HeadRecord.of(head), snapshots=[] if kept is None else [kept])
        packed = pack_standing(new.key, name, new.generation, after)
        await asyncio.to_thread(files.put, name.head(new.generation), packed)
    tombstone = msgspec.structs.replace(tombstone, records=redaction.changed)
    changed = msgspec.structs.replace(
        manifest, generation=new.generation, segments=notes, tombstones=[*manifest.tombstones, tombstone]
    )
    path = name.manifest
    if manifest.state == OPEN:
        path = name.open_manifest
    else:
        await archiver.write_index(new, changed)
    await asyncio.to_thread(files.put, path, pack_manifest(changed))
    await tidy(files, keys, changed)
    return redaction.changed


async def learn(redaction: Redaction, said: AsyncIterator[Entry], shown: AsyncIterator[Entry]) -> None:
    """Let ``redaction`` learn from all entries."""
    async for entry in said:
        redaction.learn_input(entry)
    async for entry in shown:
        redaction.learn_output(entry)


async def _through(redaction: Redaction, entries: AsyncIterator[Entry], stream: str) -> AsyncIterator[Entry]:
    async for entry in entries:
        yield redaction.input(entry) if stream == "input" else redaction.output(entry)


async def _next_contents(archiver: Archiver, manifest: Manifest) -> Contents:
    """An empty generation above the manifest's; what an earlier attempt left there is removed."""
    name, generation = manifest.life, manifest.generation
    while True:
        generation += 1
        try:
            key = await archiver.keys.obtain(name.session_id, name.name, generation)
        except KeyDestroyed:
            continue
        left = await asyncio.to_thread(archiver.files.names, f"{name.segments}/{generation}")
        await asyncio.to_thread(archiver.files.remove, *left)
        return Contents(archiver.files, name, generation, key)


async def _written(contents: Contents, stream: str, entries: AsyncIterator[Entry]) -> list[SegmentNote]:
    notes: list[SegmentNote] = []
    pending: list[Entry] = []
    chain, size = NO_CHAIN, 0

    async def write(chain: bytes) -> bytes:
        packed, after = pack_segment(contents.key, contents.life, contents.generation, stream, pending, chain)
        await asyncio.to_thread(
            contents.files.put, contents.life.segment(contents.generation, stream, pending[0].id), packed
        )
        first, last = str(pending[0].id), str(pending[-1].id)
        notes.append(SegmentNote(stream=stream, first=first, last=last, count=len(pending), sealed_bytes=len(packed)))
        return after

    async for entry in entries:
        pending.append(entry)
        size += len(entry.body) + len(entry.audio or b"")
        if size > SEGMENT_BYTES or len(pending) >= SEGMENT_ENTRIES:
            chain = await write(chain)
            pending, size = [], 0
    if pending:
        await write(chain)
    return notes


async def put_away(files: Files, keys: KeyStore, manifest: Manifest, tombstone: Tombstone) -> None:
    """Erase a life from the archive: its keys first. The manifest stays, with the tombstone and nothing else."""
    await destroy_keys(keys, manifest.life, manifest.generation)
    bare = Manifest(
        schema_version=manifest.schema_version,
        made_by=manifest.made_by,
        archived_ms=manifest.archived_ms,
        session_id=manifest.session_id,
        incarnation=manifest.incarnation,
        created_ms=manifest.created_ms,
        state="erased",
        generation=manifest.generation,
        model=manifest.model,
        tombstones=[*manifest.tombstones, tombstone],
    )
    await asyncio.to_thread(files.put, manifest.life.manifest, pack_manifest(bare))
    await tidy(files, keys, bare)


async def destroy_keys(keys: KeyStore, name: LifeName, least: int = 1) -> None:
    """Destroy every key of a life that was made, and those up to ``least``: nothing being written can be read then."""
    generation = 1
    while generation <= least or await keys.is_made(name.session_id, name.name, generation):
        await keys.destroy(name.session_id, name.name, generation)
        generation += 1


async def tidy(files: Files, keys: KeyStore, manifest: Manifest) -> None:
    """Destroy the keys that a manifest does not use any more, and remove what they sealed."""
    name = manifest.life
    erased = manifest.state == "erased"
    for generation in range(1, manifest.generation + (1 if erased else 0)):
        if not await keys.is_destroyed(name.session_id, name.name, generation):
            await keys.destroy(name.session_id, name.name, generation)
        await asyncio.to_thread(files.remove, name.index(generation))
    kept = "" if erased else f"{name.segments}/{manifest.generation}/"
    there = await asyncio.to_thread(files.names, name.segments)
    await asyncio.to_thread(files.remove, *(path for path in there if not kept or not path.startswith(kept)))
    if manifest.state != OPEN:
        await asyncio.to_thread(files.remove, name.open_manifest)
