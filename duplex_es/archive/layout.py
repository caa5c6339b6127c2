"""Where everything of an archive lies, and what stands in its manifests.

Nothing that was said is in a name or a manifest: those stay when the words and the sound are erased.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import quote

import msgspec

from ..log.api import EntryId, Head, Life, SessionRef
from ..log.keys import partition_of
from ..reading.errors import ReadingError
from ..reading.notes import Tombstone

FORMAT = 1
LONGEST_NAME = 150
MANIFESTS = "manifests"
OPEN = "open"


@dataclass(frozen=True, slots=True)
class LifeName:
    """One life of a session, and the paths that belong to it."""

    session_id: str
    incarnation: int
    created_ms: int

    @classmethod
    def of(cls, life: Life) -> LifeName:
        """The name of a life."""
        return cls(life.head.ref.session_id, life.head.ref.incarnation, life.created_ms)

    @property
    def ref(self) -> SessionRef:
        """Its ref."""
        return SessionRef(self.session_id, self.incarnation)

    @property
    def name(self) -> str:
        """``<id>@<incarnation>-<created_ms>``, fit for a path."""
        return f"{quoted(self.session_id)}@{self.incarnation}-{self.created_ms}"

    @property
    def manifest(self) -> str:
        """Written last, when all else is there, or was erased."""
        return f"{MANIFESTS}/{folder_of(self.session_id)}/{self.name}.json"

    @property
    def open_manifest(self) -> str:
        """Where a session that still goes on stood last."""
        return f"{OPEN}/{folder_of(self.session_id)}/{self.name}.json"

    @property
    def segments(self) -> str:
        """The folder of all generations' segments."""
        return f"segments/{folder_of(self.session_id)}/{self.name}"

    def segment(self, generation: int, stream: str, first: EntryId) -> str:
        """The segment of ``stream`` that begins with ``first``."""
        return f"{self.segments}/{generation}/{stream}-{first.generation:010d}.{first.number:010d}.seg"

    def head(self, generation: int) -> str:
        """Where the session stood, and its snapshots."""
        return f"{self.segments}/{generation}/head.seg"

    def index(self, generation: int) -> str:
        """Its rows of the index."""
        day = datetime.fromtimestamp(self.created_ms / 1000, UTC).date().isoformat()
        return f"index/day={day}/{self.name}.{generation}.parquet"


def folder_of(session_id: str) -> str:
    """The folder of a session's partition."""
    return f"{partition_of(session_id):02x}"


def quoted(session_id: str) -> str:
    """An id in a path, without ``@`` and ``/``; a long one shortened, with its digest."""
    text = quote(session_id, safe="")
    if text in (".", ".."):  # As a folder's name these are other folders.
        text = text.replace(".", "%2E")
    return text if len(text) <= LONGEST_NAME else f"{text[:100]}.{sha256(session_id.encode()).hexdigest()[:24]}"


class SegmentNote(msgspec.Struct, frozen=True, kw_only=True):
    """One segment: which entries it holds."""

    stream: str
    first: str
    last: str
    count: int
    sealed_bytes: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one life. ``state`` is ``open`` (it goes on), ``closed`` or ``erased``.

    ``generation`` is that of the key which seals it. ``callers`` are keyed digests of who called. ``schema_version`` is
    that of the records. ``ended_ms`` is when the last frame that is archived was written, 0 where that is not known.
    """

    format: int = FORMAT
    schema_version: int
    made_by: str
    archived_ms: int
    session_id: str
    incarnation: int
    created_ms: int
    state: str
    generation: int
    model: str = ""
    attachment: int = 0
    fence: int = 0
    gateway: str = ""
    worker: str = ""
    input: str = "0-0"
    output: str = "0-0"
    first_seq: int = 1
    acknowledged_seq: int = 0
    ended_ms: int = 0
    callers: list[str] = []
    segments: list[SegmentNote] = []
    tombstones: list[Tombstone] = []

    @property
    def life(self) -> LifeName:
        """Whose it is."""
        return LifeName(self.session_id, self.incarnation, self.created_ms)

    def head(self) -> Head:
        """Where the session stood, without what only a key can show."""
        return Head(
            ref=self.life.ref,
            model=self.model,
            state="claimed" if self.state == OPEN else "closed",
            generation=self.attachment,
            attached=False,
            gateway=self.gateway,
            fence=self.fence,
            worker=self.worker,
            output=EntryId.parse(self.output),
            input=EntryId.parse(self.input),
            first_seq=self.first_seq,
            acknowledged_seq=self.acknowledged_seq,
            opening=None,
            checkpoint=None,
        )


_MANIFEST = msgspec.json.Decoder(Manifest)


def pack_manifest(manifest: Manifest) -> bytes:
    """A manifest as it lies in the archive."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)


class ManifestUnreadable(ReadingError):
    """It is damaged, or a later build wrote it."""


def unpack_manifest(packed: bytes, where: str) -> Manifest:
    """What ``pack_manifest`` packed. Raises: ManifestUnreadable."""
    try:
        found = _MANIFEST.decode(packed)
    except msgspec.MsgspecError as error:
        raise ManifestUnreadable(f"{where} is not a manifest: {error}") from error
    if found.format != FORMAT:
        raise ManifestUnreadable(f"{where} has format {found.format}; this build reads {FORMAT}")
    return found
