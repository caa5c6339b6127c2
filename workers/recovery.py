"""From a log to a session: the newest snapshot, what is stored after it, and the end of a decision that was cut."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from duplex_es.log.api import Claim, Entry, EntryId, Head, Record, SessionLog, SessionRef
from duplex_es.log.errors import Fenced
from duplex_es.protocol import AudioFormat, Frame, ResponseOutputAudioDelta
from duplex_es.protocol.records import SCHEMA_VERSION, OutputRecord, RecordUnreadable, pack_output, unpack_output
from duplex_es.session.events import FACTS, AudioAppended, AudioProduced, Fact
from duplex_es.session.facts import LogCorrupt, unpack_facts
from duplex_es.session.snapshot import SnapshotUnreadable
from duplex_es.session.state import Session
from duplex_es.session.step import fold, reproject

from .journal import Checkpoint, Journal
from .retention import ENTRY_BYTES, Bytes, Limits, Retention
from .snapshots import Snapshot, Standing, end_in, unpack_snapshot
from .utterance import Committed, Unsettled, UtteranceFinder

COMMAND_BYTES = 96
"""What the record of a command takes, more or less: input that was taken in is not read again to be weighed."""

_log = logging.getLogger(__name__)


class WrittenByAnotherBuild(LogCorrupt):
    """The log holds what this build does not know, in a form that another one may: nothing is damaged."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A session as its log tells it.

    ``seq`` is the last one written, ``consumed`` the last input decided on, ``pending`` the silent facts that only the
    checkpoint holds. ``unfinished`` are the records, from ``seq + 1`` on, that a predecessor did not get to write any
    more; write them before anything else; ``unheard`` bytes of sound are lost with them. ``end`` says why the session
    closed, ``None`` while it has not. ``unsettled`` is the sound of the turn not over yet,
    ``committed`` that of turns before it, of which nothing is known yet. ``standing`` is the state
    without ``pending``, where a new owner goes on; ``snapshot_seq`` is the snapshot it was found from, ``since_bytes``
    what was read after it, ``ref_audio`` the voice of the opening if the snapshot held it, ``retention`` how much of it
    all is in the log. ``handed_over``: the worker before let go of it by itself.
    """

    session: Session
    seq: int
    consumed: EntryId
    pending: tuple[Fact, ...] = ()
    unfinished: tuple[Record, ...] = ()
    unheard: int = 0
    end: str | None = None
    committed: tuple[Committed, ...] = ()
    unsettled: Unsettled | None = None
    standing: Standing = field(default_factory=Standing)
    snapshot_seq: int | None = None
    since_bytes: int = 0
    ref_audio: str | None = None
    retention: Retention = field(default_factory=lambda: Retention(Limits()))
    handed_over: bool = False

    def journal(self) -> Journal:
        """The journal that goes on where the log ends, ``unfinished`` included."""
        return Journal(self.seq + len(self.unfinished), self.consumed, self.pending)


class _Reading:
    """What is known after some of the records, from a snapshot on or from the first; takes them one by one."""

    def __init__(self, limits: Limits, snapshot: Snapshot | None = None) -> None:
        found = snapshot or Snapshot(standing=Standing())
        self.standing = found.standing
        self.snapshot_seq = None if snapshot is None else found.standing.seq
        self.ref_audio = found.ref_audio
        gone = {"audio_gone": found.audio_gone, "records_gone": found.records_gone}
        self.retention = Retention(limits, found.marks, **gone)
        self.seq = found.standing.seq
        self.since_bytes = 0
        self._before = self.standing.session
        self._facts: tuple[Fact, ...] = ()
        self._shown = 0
        self._more = 0

    def take(self, entry: Entry) -> None:
        """Fold the next record. Raises: LogCorrupt when it is not the next one, or cannot be read."""
        if entry.id.number != self.seq + 1:
            raise LogCorrupt(f"seq {self.seq + 1} is missing before {entry.id}")
        record = _read(entry)
        self.seq, self._more = entry.id.number, record.more
        standing, last = self.standing, self.standing.consumed
        consumed = EntryId.parse(record.consumed) if isinstance(record.consumed, str) else last
        facts: tuple[Fact, ...] = ()
        if isinstance(record.facts, list):
            self._before, self._shown = standing.session, 0
            self._facts = facts = _unpack_facts(record.facts)
            standing.take(facts, fold(facts, standing.session), consumed, self.seq)
        self._shown += 1
        standing.consumed, standing.seq = consumed, self.seq
        size = ENTRY_BYTES + len(entry.body)
        self.since_bytes += size
        commands = consumed.number - last.number if consumed.generation == last.generation else 1
        records = Bytes(commands * (ENTRY_BYTES + COMMAND_BYTES), size)
        self.retention.note(record.at_ms, consumed, self.seq, _audio_of(facts, standing.session), records)

    @property
    def unheard(self) -> int:
        """How many bytes of sound lay beside the frames of the last decision that are missing."""
        produced = [fact for fact in self._facts if isinstance(fact, AudioProduced)]
        _, frames = reproject(self._facts, self._before) if self._more and produced else (None, [])
        missing = sum(isinstance(frame, ResponseOutputAudioDelta) for frame in frames[self._shown :])
        return sum(fact.size for fact in produced[len(produced) - missing :])

    def unfinished(self, now_ms: int) -> tuple[Record, ...]:
        """The frames of the last decision that are missing, made again from its facts. Raises: LogCorrupt."""
        if not self._more:
            return ()
        _, frames = reproject(self._facts, self._before)
        rest: list[Frame] = frames[self._shown : self._shown + self._more]
        if len(rest) != self._more:
            promised = self._shown + self._more
            raise LogCorrupt(f"the last decision shows {len(frames)} frames, its record says {promised}")
        consumed, last = str(self.standing.consumed), len(rest) - 1
        packed = [
            pack_output(now_ms, frame=frame, consumed=consumed, more=last - index) for index, frame in enumerate(rest)
        ]
        # The sound of a delta was in its record alone: made again it has none.
        return tuple(Record(body, audio or None) for body, audio in packed)


async def recover(log: SessionLog, claim: Claim, head: Head, now_ms: int, limits: Limits | None = None) -> Recovered:
    """Rebuild the session from its newest snapshot, the records after it and its last checkpoint; nothing is written.

    A snapshot that cannot be read is passed over for the one before it, or for the records from the first on.
    Raises: LogCorrupt when the log does not hold together, WrittenByAnotherBuild when another build may read it,
    PositionGone when its beginning was trimmed and no snapshot stands in for it, Fenced when a newer claim wrote in it.
    """
    reading = await _begin(log, claim.ref, head, limits or Limits())
    while entries := await log.read_output(claim.ref, reading.seq, audio=False):
        for entry in entries:
            if entry.id.generation > claim.fence:
                raise Fenced(f"claim {entry.id.generation} has written since")
            reading.take(entry)
    if reading.seq != head.output.number:
        raise LogCorrupt(f"the log ends at seq {reading.seq}, its head says {head.output.number}")
    unfinished = reading.unfinished(now_ms)
    standing = reading.standing
    session, consumed, end, utterance = standing.session, standing.consumed, standing.end, standing.utterance
    pending: tuple[Fact, ...] = ()
    saved = _checkpoint(head)
    # A checkpoint of an earlier seq is out of date: the record after it took its facts along.
    if saved is not None and saved.seq == reading.seq:
        pending, consumed = _unpack_facts(saved.facts), EntryId.parse(saved.consumed)
        session, end = fold(pending, session), end_in(pending) or end
        utterance = UtteranceFinder(utterance.state())
        utterance.take(pending, session, consumed)
    return Recovered(
        session=session,
        seq=reading.seq,
        consumed=consumed,
        pending=pending,
        unfinished=unfinished,
        unheard=reading.unheard,
        end=end,
        committed=utterance.committed(),
        unsettled=utterance.found(session),
        standing=standing,
        snapshot_seq=reading.snapshot_seq,
        since_bytes=reading.since_bytes,
        ref_audio=reading.ref_audio,
        retention=reading.retention,
        handed_over=saved is not None and saved.handed_over and saved.seq == reading.seq,
    )


async def _begin(log: SessionLog, ref: SessionRef, head: Head, limits: Limits) -> _Reading:
    """Where reading starts. Raises: WrittenByAnotherBuild when only snapshots are left, and none can be read."""
    below_seq = head.output.number + 1  # One of later records is of a session that the store has lost.
    unreadable: SnapshotUnreadable | None = None
    while (found := await log.read_snapshot(ref, below_seq=below_seq)) is not None:
        below_seq, packed = found
        if below_seq + 1 < head.first_seq:
            break
        try:
            return _Reading(limits, unpack_snapshot(packed))
        except SnapshotUnreadable as error:
            _log.warning("session=%s its snapshot of seq %d is passed over: %s", ref.session_id, below_seq, error)
            unreadable = error
    if unreadable is not None and head.first_seq > 1:
        raise WrittenByAnotherBuild(f"{unreadable}; the records before seq {head.first_seq} are gone") from unreadable
    return _Reading(limits)


def _read(entry: Entry) -> OutputRecord:
    try:
        return unpack_output(entry.body)
    except RecordUnreadable as error:
        kind = WrittenByAnotherBuild if _version(entry.body) not in (None, SCHEMA_VERSION) else LogCorrupt
        raise kind(f"the record of {entry.id}: {error}") from error


def _version(packed: bytes) -> object:
    """The version that a stored map names, ``None`` where it names none."""
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.decode(packed, type=dict[str, msgspec.Raw])["v"])
    except (msgspec.MsgspecError, KeyError):
        return None


def _unpack_facts(packed: list[msgspec.Raw]) -> tuple[Fact, ...]:
    try:
        return tuple(unpack_facts(packed))
    except LogCorrupt as error:
        names = [_name(raw) for raw in packed]
        if any(name is not None and name not in FACTS for name in names):
            raise WrittenByAnotherBuild(str(error)) from error
        raise


def _name(raw: msgspec.Raw) -> str | None:
    """What a stored fact calls itself."""
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.decode(raw, type=dict[str, msgspec.Raw])["fact"], type=str)
    except (msgspec.MsgspecError, KeyError):
        return None


def _audio_of(facts: Iterable[Fact], session: Session) -> Bytes:
    """How much sound lies beside what these facts tell, to less than what a converter holds back."""
    heard = spoken = 0
    for fact in facts:
        if isinstance(fact, AudioAppended):
            heard += fact.samples * _width(session.settings.input_format)
        elif isinstance(fact, AudioProduced):
            spoken += fact.size or fact.samples * (fact.sent_rate_hz or fact.rate_hz) // fact.rate_hz * _width(
                fact.format
            )
    return Bytes(heard, spoken)


def _width(encoding: str) -> int:
    try:
        return AudioFormat(encoding, 1).bytes_per_sample
    except ValueError:
        return 2  # A WAV file holds PCM16.


def _checkpoint(head: Head) -> Checkpoint | None:
    if head.checkpoint is None:
        return None
    try:
        saved = msgspec.msgpack.decode(head.checkpoint, type=Checkpoint)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(f"the checkpoint cannot be read: {error}") from error
    if saved.v != Checkpoint.VERSION:
        raise WrittenByAnotherBuild(f"the checkpoint has version {saved.v}; this build reads {Checkpoint.VERSION}")
    return saved
