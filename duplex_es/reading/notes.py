"""What is known of a session beside its records: what was erased of it, and where copies of it were written to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from ..log.api import SessionRef
from .errors import ReadingError

NOTE_VERSION = 1
MASK = "█"
"""Stands where words were erased, for any text, however long it was."""


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, tag="tombstone", tag_field="note"):
    """What was erased of one life of a session, when, by whom and why. Never what it was.

    ``what`` is ``session`` (all), ``audio`` (the sound of ``speaker``: ``caller``, ``assistant`` or ``both``) or
    ``span`` (words and sound of the records from ``from_ms`` to ``to_ms``, unix ms). ``records`` is how many were
    changed. ``created_ms`` tells lives of the same ref apart; 0 stands for any.
    """

    v: int = NOTE_VERSION
    session_id: str
    incarnation: int
    created_ms: int
    what: str
    at_ms: int
    speaker: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    records: int = 0
    by: str = ""
    reason: str = ""

    def line(self) -> str:
        """It in one line."""
        subject = {
            "session": "the whole session",
            "audio": {"both": "the sound of both sides"}.get(self.speaker or "", f"the {self.speaker}'s sound"),
            "span": f"what was said from {moment(self.from_ms or 0)} to {moment(self.to_ms or 0)}",
        }.get(self.what, self.what)
        by = f" by {self.by}" if self.by else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"erased {moment(self.at_ms)}{by}, {subject}{reason}"


class Exported(msgspec.Struct, frozen=True, kw_only=True, tag="exported", tag_field="note"):
    """A copy was written to ``path`` on the machine ``host``."""

    v: int = NOTE_VERSION
    session_id: str
    incarnation: int
    host: str
    path: str
    at_ms: int = 0


Note = Tombstone | Exported

_PACK = msgspec.json.Encoder()
_UNPACK: msgspec.json.Decoder[Note] = msgspec.json.Decoder(Note)


class Erased(ReadingError):
    """The session is not there because it was erased: ``tombstones`` say when."""

    def __init__(self, session_id: str, tombstones: list[Tombstone]) -> None:
        super().__init__(f"{session_id!r} was {tombstones[-1].line()}")
        self.tombstones = tombstones


def moment(at_ms: int) -> str:
    """A unix time in milliseconds as people write it, UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def pack_note(note: Note) -> bytes:
    """A note as ``unpack_notes`` reads it."""
    return _PACK.encode(note)


def unpack_notes(packed: Iterable[bytes]) -> list[Note]:
    """Notes in their order; what a later build wrote, or is damaged, is left out."""
    found: list[Note] = []
    for one in packed:
        try:
            note = _UNPACK.decode(one)
        except msgspec.MsgspecError:
            continue
        if note.v == NOTE_VERSION:
            found.append(note)
    return found


def tombstones_of(notes: Iterable[Note], ref: SessionRef, created_ms: int = 0) -> list[Tombstone]:
    """Those about one life; without ``created_ms`` about any of the same ref."""
    return [
        note
        for note in notes
        if isinstance(note, Tombstone)
        and (note.session_id, note.incarnation) == (ref.session_id, ref.incarnation)
        and (0 in (created_ms, note.created_ms) or created_ms == note.created_ms)
    ]


def check_erased(session_id: str, notes: Iterable[Note]) -> None:
    """Return unless the newest session of this id was erased whole. Raises: Erased."""
    whole = [note for note in notes if isinstance(note, Tombstone) and note.what == "session"]
    if whole:
        raise Erased(session_id, whole)
