"""What lies in an archive of one life: its segments in order, opened with its key."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..log.api import START, Entry, EntryId
from ..reading.errors import ReadingError
from .files import Files
from .layout import LifeName, Manifest, SegmentNote, unpack_manifest
from .segments import NO_CHAIN, Segment, Standing, unpack_segment, unpack_standing


class Contents:
    """One life under one key. Reads a segment at a time."""

    def __init__(self, files: Files, life: LifeName, generation: int, key: bytes) -> None:
        self.files, self.life, self.generation, self.key = files, life, generation, key

    async def segment(self, path: str) -> Segment:
        """The segment at ``path``. Raises: ReadingError."""
        return await self.files.aside(self._segment, path)

    def _segment(self, path: str) -> Segment:
        """Read, opened and unpacked in one thread: whoever reads may have live calls to serve."""
        packed = self.files.read(path)
        if packed is None:
            raise ReadingError(f"{self.files.url}: {path} is missing")
        return unpack_segment(self.key, packed, path)

    async def paths(self, stream: str) -> list[str]:
        """The segments of a stream that are there, in order."""
        folder = f"{self.life.segments}/{self.generation}"
        found = await self.files.aside(self.files.names, folder)
        return [path for path in found if path.rpartition("/")[2].startswith(f"{stream}-")]

    async def entries(self, stream: str, notes: list[SegmentNote], after: EntryId = START) -> AsyncIterator[Entry]:
        """The entries of a stream above ``after``, for ``output`` those whose number is above its number."""
        for note in notes:
            last = EntryId.parse(note.last)
            passed = last <= after if stream == "input" else last.number <= after.number > 0
            if note.stream != stream or passed:
                continue
            opened = await self.segment(self.life.segment(self.generation, stream, EntryId.parse(note.first)))
            for entry in opened.entries:
                if (entry.id > after) if stream == "input" else (entry.id.number > after.number):
                    yield entry

    async def standing(self) -> Standing | None:
        """Where the session stood; ``None`` before it is archived whole."""
        return await self.files.aside(self._standing)

    def _standing(self) -> Standing | None:
        packed = self.files.read(self.life.head(self.generation))
        return None if packed is None else unpack_standing(self.key, self.life, self.generation, packed)

    async def broken_chain(self, notes: list[SegmentNote]) -> str | None:
        """The first entry whose link does not hold, in words; ``None`` when all do. Raises: ReadingError."""
        for stream in ("input", "output"):
            chain = NO_CHAIN
            for note in notes:
                if note.stream != stream:
                    continue
                path = self.life.segment(self.generation, stream, EntryId.parse(note.first))
                opened = await self.segment(path)
                if opened.before != chain:
                    return f"the hash chain breaks before {path}: a segment is missing or was exchanged"
                if (broken := opened.broken()) is not None:
                    return broken
                chain = opened.after
        return None


def read_manifest(files: Files, path: str) -> Manifest | None:
    """The manifest at ``path``, if there is one. Raises: ReadingError."""
    packed = files.read(path)
    return None if packed is None else unpack_manifest(packed, path)
