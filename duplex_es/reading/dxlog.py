"""The file format ``.dxlog``: one session, whole, readable without a store.

After the magic come blocks: length (8 bytes, big-endian), BLAKE2b-256 of the rest, and a zstd frame of one MessagePack
map. The first is the manifest, then snapshots and entries, the last the index; a trailer says where the index begins.
Entries are chained: each link is the BLAKE2b-256 of the one before it, the stream, the id, the body and the digest of
the audio, so that audio can be taken out later and the chain still holds. docs/guides/operating.md has the details.
"""

from __future__ import annotations

import struct
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from .. import __version__
from ..log.api import START, Entry, EntryId, Head, SessionRef
from ..protocol.records import SCHEMA_VERSION
from ..protocol.upcasts import readable
from .errors import ReadingError
from .notes import Note, Tombstone
from .source import chosen

MAGIC = b"\x89DXLOG\r\n"
END = b"DXLOGEND"
FORMAT = 1
DIGEST_BYTES = 32
BLOCK_BYTES = 1_000_000
BLOCK_ENTRIES = 2_000
_HEAD = struct.Struct(f">Q{DIGEST_BYTES}s")
_TAIL = struct.Struct(">Q8s")


class Manifest(msgspec.Struct, kw_only=True, frozen=True):
    """What the file is. ``schema_version`` is that of the records, ``head`` where the session stood."""

    format: int
    schema_version: int
    made_by: str
    exported_ms: int
    head: HeadRecord
    tombstones: list[Tombstone] = []

    @classmethod
    def now(cls, head: Head, tombstones: Sequence[Tombstone] = ()) -> Manifest:
        """The manifest of a file that this build writes now."""
        return cls(
            format=FORMAT,
            schema_version=SCHEMA_VERSION,
            made_by=f"duplex-es {__version__}",
            exported_ms=time.time_ns() // 1_000_000,
            head=HeadRecord.of(head),
            tombstones=list(tombstones),
        )


class HeadRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A ``Head`` as a map; ids as text."""

    session_id: str
    incarnation: int
    model: str
    state: str
    generation: int
    attached: bool
    gateway: str
    fence: int
    worker: str
    output: str
    input: str
    first_seq: int
    acknowledged_seq: int
    opening: bytes | None
    checkpoint: bytes | None

    @classmethod
    def of(cls, head: Head) -> HeadRecord:
        """``head``, packed."""
        names = [name for name in cls.__struct_fields__ if name not in ("session_id", "incarnation", "output", "input")]
        return cls(
            session_id=head.ref.session_id,
            incarnation=head.ref.incarnation,
            output=str(head.output),
            input=str(head.input),
            **{name: getattr(head, name) for name in names},
        )

    def head(self) -> Head:
        """What ``of`` packed."""
        fields = msgspec.structs.asdict(self)
        ref = SessionRef(fields.pop("session_id"), fields.pop("incarnation"))
        output, into = EntryId.parse(fields.pop("output")), EntryId.parse(fields.pop("input"))
        return Head(ref=ref, output=output, input=into, **fields)


class BlockNote(msgspec.Struct, frozen=True, array_like=True):
    """One block in the index; ``first`` and ``last`` are ids, ``chain`` the link after its last entry."""

    kind: str
    offset: int
    count: int
    first: str
    last: str
    chain: bytes


class Damaged(ReadingError):
    """The file is not whole; the message names the first block that is bad."""


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ReadingError("exported files need zstandard: install duplex-es[log]") from error
    return zstandard


def audio_digest(audio: bytes | None) -> bytes:
    """What the chain holds of an entry's audio; empty without one."""
    return b"" if audio is None else blake2b(audio, digest_size=16).digest()


def link(before: bytes, stream: str, entry_id: str, body: bytes, digest: bytes) -> bytes:
    """The chain's next link."""
    parts = (stream.encode(), entry_id.encode(), body, digest)
    framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return blake2b(before + framed, digest_size=DIGEST_BYTES).digest()


class Writer:
    """Writes one file, block by block; memory is bounded by a block."""

    def __init__(self, file: BinaryIO, manifest: Manifest) -> None:
        self._file = file
        self._pack = _zstd().ZstdCompressor(level=6)
        self._notes: list[BlockNote] = []
        self._pending: list[tuple[str, bytes, bytes | None, bytes]] = []
        self._size = 0
        self._stream = ""
        self.chain = bytes(DIGEST_BYTES)
        file.write(MAGIC)
        self._block("manifest", msgspec.to_builtins(manifest, builtin_types=(bytes,)), 1, "", "")

    def _block(self, kind: str, body: object, count: int, first: str, last: str) -> int:
        packed = self._pack.compress(msgspec.msgpack.encode({"kind": kind, "body": body}))
        offset = self._file.tell()
        self._file.write(_HEAD.pack(len(packed), blake2b(packed, digest_size=DIGEST_BYTES).digest()))
        self._file.write(packed)
        self._notes.append(BlockNote(kind, offset, count, first, last, self.chain))
        return offset

    def snapshots(self, kept: Sequence[tuple[int, bytes]]) -> None:
        """The snapshots, ascending by seq."""
        self._block("snapshots", [list(one) for one in kept], len(kept), "", "")

    def add(self, stream: str, entry: Entry) -> None:
        """The next entry of ``input`` or ``output``; all of one stream come before the other's."""
        if self._pending and (
            stream != self._stream or self._size > BLOCK_BYTES or len(self._pending) >= BLOCK_ENTRIES
        ):
            self._flush()
        digest = audio_digest(entry.audio)
        self._stream = stream
        self.chain = link(self.chain, stream, str(entry.id), entry.body, digest)
        self._pending.append((str(entry.id), entry.body, entry.audio, digest))
        self._size += len(entry.body) + len(entry.audio or b"")

    def _flush(self) -> None:
        if self._pending:
            first, last = self._pending[0][0], self._pending[-1][0]
            self._block(self._stream, self._pending, len(self._pending), first, last)
        self._pending, self._size = [], 0

    def finish(self) -> None:
        """Write what is pending, the index and the trailer."""
        self._flush()
        body = {"blocks": msgspec.to_builtins(self._notes, builtin_types=(bytes,)), "chain": self.chain}
        offset = self._block("index", body, len(self._notes), "", "")
        self._file.write(_TAIL.pack(offset, END))


class FileSource:
    """The one session of an exported file. Blocks are read when they are needed, one at a time.

    Opening raises ReadingError for what is not such a file, and Damaged where the index is missing: the file is cut.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._unpack = _zstd().ZstdDecompressor()
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ReadingError(f"cannot read {path}: {error.strerror}") from error
        try:
            self._begin()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> FileSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _begin(self) -> None:
        if self._file.read(len(MAGIC)) != MAGIC:
            raise ReadingError(f"{self.name} is not a .dxlog file")
        self._size = self._path.stat().st_size
        plain = self._block(0, len(MAGIC), "manifest")
        version = plain.get("schema_version")
        if plain.get("format") != FORMAT or not isinstance(version, int) or version > SCHEMA_VERSION:
            raise ReadingError(
                f"{self.name} has format {plain.get('format')}, schema version {plain.get('schema_version')}; "
                f"this build reads {FORMAT}, {SCHEMA_VERSION} and older: read it with a newer duplex-es"
            )
        self.manifest = msgspec.convert(plain, Manifest)
        self.head = self.manifest.head.head()
        self._file.seek(max(0, self._size - _TAIL.size))
        tail = self._file.read(_TAIL.size)
        offset, end = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, b"")
        if end != END or not len(MAGIC) <= offset < self._size:
            self._name_first_bad()
            raise Damaged(f"{self.name} ends without its index: it was cut after its last block")
        try:
            index = self._block(-1, offset, "index")
        except Damaged:
            self._name_first_bad()
            raise
        self.notes = msgspec.convert(index["blocks"], list[BlockNote])
        self.chain: bytes = index["chain"]

    def _name_first_bad(self) -> None:
        """Walk the blocks from the start. Raises: Damaged at the first that is bad."""
        number, offset = 0, len(MAGIC)
        while offset < self._size - (_TAIL.size if self._ends() else 0):
            self._block(number, offset, None)
            number, offset = number + 1, self._file.tell()

    def _ends(self) -> bool:
        self._file.seek(max(0, self._size - len(END)))
        return self._file.read(len(END)) == END

    def _block(self, number: int, offset: int, kind: str | None) -> Any:
        """The body of the block at ``offset``. Raises: Damaged."""
        name = "the index" if number < 0 else f"block {number}"
        self._file.seek(offset)
        start = self._file.read(_HEAD.size)
        if len(start) < _HEAD.size:
            raise Damaged(f"{self.name}: {name} (byte {offset}) is cut")
        length, digest = _HEAD.unpack(start)
        packed = self._file.read(length) if length <= self._size else b""
        if len(packed) < length or length > self._size:
            raise Damaged(f"{self.name}: {name} (byte {offset}) is cut")
        if blake2b(packed, digest_size=DIGEST_BYTES).digest() != digest:
            raise Damaged(f"{self.name}: {name} (byte {offset}) is damaged: its checksum is another")
        try:
            found = msgspec.msgpack.decode(self._unpack.decompress(packed))
            if kind is not None and found["kind"] != kind:
                raise Damaged(f"{self.name}: {name} (byte {offset}) holds {found['kind']}, not {kind}")
            return found["body"]
        except (msgspec.MsgspecError, KeyError, TypeError, _zstd().ZstdError) as error:
            raise Damaged(f"{self.name}: {name} (byte {offset}) cannot be read: {error}") from error

    # -- as a source -----------------------------------------------------------------------------------------------

    async def sessions(self) -> list[Head]:
        """See ``Source``."""
        return [self.head]

    async def find(self, session: str | None) -> Head:
        """See ``Source``."""
        return chosen([self.head], session, self.name)

    async def input(self, head: Head, after: EntryId = START, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        for entry in self.entries("input"):
            if after < entry.id <= head.input:
                yield entry

    async def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        for entry in self.entries("output", after_seq):
            if after_seq < entry.id.number:
                yield entry

    async def notes_on(self, session_id: str) -> list[Note]:
        """See ``Source``: what was erased before it was exported."""
        return list(self.manifest.tombstones)

    async def note(self, note: Note) -> None:
        """See ``Source``: a file has no place for it."""

    async def broken(self, head: Head) -> str | None:
        """See ``Source``."""
        return self.broken_chain()

    async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
        """See ``Source``."""
        for number, note in enumerate(self.notes):
            if note.kind == "snapshots":
                return [(seq, packed) for seq, packed in self._block(number, note.offset, "snapshots")]
        return []

    def entries(self, stream: str, after_number: int = 0) -> Iterator[Entry]:
        """The entries of a stream; blocks that end at or below ``after_number`` are not read. Raises: Damaged."""
        for number, note in enumerate(self.notes):
            if note.kind != stream or EntryId.parse(note.last).number <= after_number > 0:
                continue
            for entry_id, body, audio, _ in self._block(number, note.offset, stream):
                yield Entry(EntryId.parse(entry_id), readable(stream, body), audio)

    def broken_chain(self) -> str | None:
        """The first entry whose link does not hold, in words; ``None`` when all do. Raises: Damaged."""
        chain = bytes(DIGEST_BYTES)
        for number, note in enumerate(self.notes):
            if note.kind not in ("input", "output"):
                self._block(number, note.offset, note.kind)
                continue
            for entry_id, body, audio, digest in self._block(number, note.offset, note.kind):
                chain = link(chain, note.kind, entry_id, body, digest)
                if audio is not None and audio_digest(audio) != digest:
                    return f"the audio of {note.kind} {entry_id} (block {number}) is not the one that was exported"
            if chain != note.chain:
                return f"the hash chain breaks in block {number} ({note.kind} {note.first} to {note.last})"
        return None if chain == self.chain else "the hash chain does not end as the index says"
