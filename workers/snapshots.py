"""What a worker keeps of a session for its successor: the state after a record, and all that the facts do not tell.

A snapshot is a MessagePack map with a version of its own around the state's (``duplex_es.session.snapshot``); the same
rules hold for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from duplex_es.log.api import START, EntryId
from duplex_es.session.events import Fact, SessionClosed, SessionExpired, SessionRefused
from duplex_es.session.snapshot import SnapshotUnreadable, pack_session, unpack_session
from duplex_es.session.state import Session

from .retention import NOTHING, Bytes, Mark, Retention
from .utterance import FinderState, UtteranceFinder


class Standing:
    """Where a session stands after its last record. The owner keeps it record by record, and recovery finds the same.

    ``seq`` is the last frame, ``consumed`` the last input taken in by then, ``end`` why the session is over.
    """

    def __init__(self) -> None:
        self.session = Session()
        self.seq = 0
        self.consumed = START
        self.end: str | None = None
        self.utterance = UtteranceFinder()

    def take(self, facts: Iterable[Fact], session: Session, consumed: EntryId, seq: int) -> None:
        """One decision was recorded: its facts, the state they lead to, and where that leaves the streams."""
        facts = tuple(facts)
        self.session, self.consumed, self.seq = session, consumed, seq
        self.end = end_in(facts) or self.end
        self.utterance.take(facts, session, consumed)


def end_in(facts: Iterable[Fact]) -> str | None:
    """Why the session ended with these facts, ``None`` if it did not."""
    end = None
    for fact in facts:
        if isinstance(fact, SessionClosed | SessionExpired):
            end = fact.reason
        elif isinstance(fact, SessionRefused):
            end = "refused"
    return end


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One snapshot, unpacked. ``ref_audio`` is the voice of the opening, which the input may not hold any more.

    ``marks``, ``audio_gone`` and ``records_gone`` are what ``Retention`` goes on with.
    """

    standing: Standing
    ref_audio: str | None = None
    marks: tuple[Mark, ...] = ()
    audio_gone: Bytes = NOTHING
    records_gone: Bytes = NOTHING


class _Packed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    VERSION: ClassVar[int] = 1

    v: int
    session: msgspec.Raw
    seq: int
    consumed: str
    end: str | None = None
    ref_audio: str | None = None
    utterance: FinderState = FinderState()
    marks: tuple[tuple[int, int, int, int, int, int, int, int], ...] = ()
    audio_gone: tuple[int, int] = (0, 0)
    records_gone: tuple[int, int] = (0, 0)


def pack_snapshot(standing: Standing, ref_audio: str | None, retention: Retention) -> bytes:
    """A snapshot as ``unpack_snapshot`` reads it."""
    marks = ((mark.at_ms, *_plain(mark.consumed), mark.seq, *mark.audio, *mark.records) for mark in retention.marks)
    return msgspec.msgpack.encode(
        _Packed(
            v=_Packed.VERSION,
            session=msgspec.Raw(pack_session(standing.session)),
            seq=standing.seq,
            consumed=str(standing.consumed),
            end=standing.end,
            ref_audio=ref_audio,
            utterance=standing.utterance.state(),
            marks=tuple(marks),
            audio_gone=retention.audio.gone,
            records_gone=retention.history.gone,
        )
    )


def _plain(entry_id: EntryId) -> tuple[int, int]:
    return entry_id.generation, entry_id.number


def unpack_snapshot(packed: bytes) -> Snapshot:
    """What ``pack_snapshot`` packed. Raises: SnapshotUnreadable when another build wrote it, or it is damaged."""
    try:
        version = msgspec.msgpack.decode(msgspec.msgpack.decode(packed, type=dict[str, msgspec.Raw])["v"])
        if version != _Packed.VERSION:
            raise SnapshotUnreadable(f"a snapshot has version {version}; this build reads {_Packed.VERSION}")
        found = msgspec.msgpack.decode(packed, type=_Packed)
        standing = Standing()
        standing.session, standing.seq = unpack_session(found.session), found.seq
        standing.consumed, standing.end = EntryId.parse(found.consumed), found.end
        standing.utterance = UtteranceFinder(found.utterance)
    except (msgspec.MsgspecError, KeyError, ValueError, IndexError) as error:
        raise SnapshotUnreadable(f"a snapshot cannot be read: {error!r}") from error
    marks = (
        Mark(at_ms, EntryId(generation, number), seq, Bytes(*sizes[:2]), Bytes(*sizes[2:]))
        for at_ms, generation, number, seq, *sizes in found.marks
    )
    return Snapshot(
        standing=standing,
        ref_audio=found.ref_audio,
        marks=tuple(marks),
        audio_gone=Bytes(*found.audio_gone),
        records_gone=Bytes(*found.records_gone),
    )
