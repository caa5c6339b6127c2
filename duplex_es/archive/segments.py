"""Segments: runs of entries, chained, compressed and sealed.

A segment opens with a clear header (which entries it holds), under which the rest is sealed: a changed, swapped or
renamed segment does not open. Inside, each entry is a link of the stream's hash chain, which goes on from segment to
segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..log.api import Entry, EntryId
from ..reading.dxlog import DIGEST_BYTES, HeadRecord, audio_digest, link
from ..reading.errors import ReadingError
from .layout import LifeName, SegmentNote
from .sealing import seal, unseal

MAGIC = b"\x89DXSEG\r\n"
FORMAT = 1
SEGMENT_BYTES = 1_000_000
SEGMENT_ENTRIES = 2_000
NO_CHAIN = bytes(DIGEST_BYTES)
_LEVEL = 6


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What is clear of a segment."""

    format: int = FORMAT
    life: str
    generation: int
    stream: str
    first: str
    last: str
    count: int


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """What is sealed: the chain's link before the first entry and after the last, and the entries."""

    before: bytes
    after: bytes
    entries: list[tuple[str, bytes, bytes | None, bytes]]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What is sealed in ``head.seg``: where the session stood when it was archived, and its snapshots."""

    head: HeadRecord
    snapshots: list[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment, opened."""

    header: Header
    before: bytes
    after: bytes
    entries: list[Entry]
    digests: list[bytes]
    sealed_bytes: int

    @property
    def last(self) -> EntryId:
        """The id of its last entry."""
        return EntryId.parse(self.header.last)

    @property
    def note(self) -> SegmentNote:
        """It in a manifest."""
        header = self.header
        return SegmentNote(
            stream=header.stream,
            first=header.first,
            last=header.last,
            count=header.count,
            sealed_bytes=self.sealed_bytes,
        )

    def broken(self) -> str | None:
        """The first entry whose link does not hold, in words."""
        chain = self.before
        for entry, digest in zip(self.entries, self.digests, strict=True):
            chain = link(chain, self.header.stream, str(entry.id), entry.body, digest)
            if entry.audio is not None and audio_digest(entry.audio) != digest:
                return f"the audio of {self.header.stream} {entry.id} is not the one that was archived"
        if chain != self.after:
            return f"the hash chain breaks between {self.header.stream} {self.header.first} and {self.header.last}"
        return None


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ReadingError("an archive needs zstandard: install duplex-es[archive]") from error
    return zstandard


def _framed(header: bytes) -> bytes:
    return MAGIC + len(header).to_bytes(4, "big") + header


def pack_segment(
    key: bytes, life: LifeName, generation: int, stream: str, entries: Sequence[Entry], before: bytes
) -> tuple[bytes, bytes]:
    """A segment's bytes, the same for the same entries, and the chain's link after it. Not for no entries."""
    header = msgspec.msgpack.encode(
        Header(
            life=life.name,
            generation=generation,
            stream=stream,
            first=str(entries[0].id),
            last=str(entries[-1].id),
            count=len(entries),
        )
    )
    chain, rows = before, []
    for entry in entries:
        digest = audio_digest(entry.audio)
        chain = link(chain, stream, str(entry.id), entry.body, digest)
        rows.append((str(entry.id), entry.body, entry.audio, digest))
    plain = msgspec.msgpack.encode(Sealed(before=before, after=chain, entries=rows))
    front = _framed(header)
    return front + seal(key, _zstd().ZstdCompressor(level=_LEVEL).compress(plain), front), chain


def segment_header(packed: bytes, where: str) -> tuple[Header, int]:
    """The clear part, and where the sealed one begins. Raises: ReadingError."""
    start = len(MAGIC) + 4
    size = int.from_bytes(packed[len(MAGIC) : start], "big")
    try:
        if not packed.startswith(MAGIC) or len(packed) <= start + size:
            raise ReadingError(f"{where} is not a segment, or cut")
        header = msgspec.msgpack.decode(packed[start : start + size], type=Header)
    except msgspec.MsgspecError as error:
        raise ReadingError(f"{where} is damaged: {error}") from error
    if header.format != FORMAT:
        raise ReadingError(f"{where} has format {header.format}; this build reads {FORMAT}")
    return header, start + size


def unpack_segment(key: bytes, packed: bytes, where: str) -> Segment:
    """What ``pack_segment`` packed. Raises: ReadingError, SealBroken."""
    header, begin = segment_header(packed, where)
    plain = unseal(key, packed[begin:], packed[:begin], where)
    found = msgspec.msgpack.decode(_zstd().ZstdDecompressor().decompress(plain), type=Sealed)
    entries = [Entry(EntryId.parse(entry_id), body, audio) for entry_id, body, audio, _ in found.entries]
    return Segment(header, found.before, found.after, entries, [row[3] for row in found.entries], len(packed))


def pack_standing(key: bytes, life: LifeName, generation: int, standing: Standing) -> bytes:
    """``head.seg``."""
    plain = _zstd().ZstdCompressor(level=_LEVEL).compress(msgspec.msgpack.encode(standing))
    return seal(key, plain, _about(life, generation))


def unpack_standing(key: bytes, life: LifeName, generation: int, packed: bytes) -> Standing:
    """What ``pack_standing`` packed. Raises: SealBroken."""
    about = _about(life, generation)
    plain = _zstd().ZstdDecompressor().decompress(unseal(key, packed, about, f"where {life.name} stood"))
    return msgspec.msgpack.decode(plain, type=Standing)


def _about(life: LifeName, generation: int) -> bytes:
    return f"{life.name}.{generation} head".encode()
