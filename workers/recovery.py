"""From a log to a session: fold what is stored, finish a decision that was cut in half."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from duplex_es.log.api import START, Claim, Entry, EntryId, Head, Record, SessionLog
from duplex_es.protocol import Frame
from duplex_es.protocol.records import OutputRecord, RecordUnreadable, pack_output, unpack_output
from duplex_es.session.events import Fact, SessionClosed, SessionExpired, SessionRefused
from duplex_es.session.facts import LogCorrupt, unpack_facts
from duplex_es.session.state import Session
from duplex_es.session.step import apply, reproject

from .journal import Checkpoint, Journal
from .retention import Mark, Marks
from .utterance import Unsettled, UtteranceFinder


@dataclass(frozen=True, slots=True)
class Recovered:
    """A session as its log tells it.

    ``seq`` is the last one written, ``consumed`` the last input decided on, ``pending`` the silent facts that only the
    checkpoint holds. ``unfinished`` are the records, from ``seq + 1`` on, that a predecessor did not get to write any
    more; write them before anything else. ``end`` says why the session closed, ``None`` while it has not.
    ``unsettled`` is the sound of the turn that is not over, ``marks`` say when what was written.
    """

    session: Session
    seq: int
    consumed: EntryId
    pending: tuple[Fact, ...] = ()
    unfinished: tuple[Record, ...] = ()
    end: str | None = None
    unsettled: Unsettled | None = None
    marks: tuple[Mark, ...] = ()

    def journal(self) -> Journal:
        """The journal that goes on where the log ends, ``unfinished`` included."""
        return Journal(self.seq + len(self.unfinished), self.consumed, self.pending)


class _Reading:
    """What is known after some of the records; takes them one by one."""

    def __init__(self) -> None:
        self.session = Session()
        self.seq = 0
        self.consumed = START
        self.end: str | None = None
        self.utterance = UtteranceFinder()
        self.marks = Marks()
        self._before = self.session
        self._facts: tuple[Fact, ...] = ()
        self._shown = 0
        self._more = 0

    def take(self, entry: Entry) -> None:
        """Fold the next record. Raises: LogCorrupt when it is not the next one, or cannot be read."""
        if entry.id.number != self.seq + 1:
            raise LogCorrupt(f"seq {self.seq + 1} is missing before {entry.id}")
        record = _read(entry)
        self.seq, self._more = entry.id.number, record.more
        if isinstance(record.consumed, str):
            self.consumed = EntryId.parse(record.consumed)
        if isinstance(record.facts, list):
            self._before, self._shown = self.session, 0
            self._facts = tuple(unpack_facts(record.facts))
            self.fold(self._facts)
        self._shown += 1
        self.marks.note(Mark(record.at_ms, self.consumed, self.seq))

    def fold(self, facts: tuple[Fact, ...]) -> None:
        """Apply ``facts``, and note how the session ended if it did."""
        for fact in facts:
            self.session, _ = apply(self.session, fact)
            if isinstance(fact, SessionClosed | SessionExpired):
                self.end = fact.reason
            elif isinstance(fact, SessionRefused):
                self.end = "refused"
        self.utterance.take(facts, self.session, self.consumed)

    def unfinished(self, now_ms: int) -> tuple[Record, ...]:
        """The frames of the last decision that are missing, made again from its facts. Raises: LogCorrupt."""
        if not self._more:
            return ()
        _, frames = reproject(self._facts, self._before)
        rest: list[Frame] = frames[self._shown : self._shown + self._more]
        if len(rest) != self._more:
            promised = self._shown + self._more
            raise LogCorrupt(f"the last decision shows {len(frames)} frames, its record says {promised}")
        consumed, last = str(self.consumed), len(rest) - 1
        packed = [
            pack_output(now_ms, frame=frame, consumed=consumed, more=last - index) for index, frame in enumerate(rest)
        ]
        # The sound of a delta was in its record alone: made again it has none.
        return tuple(Record(body, audio or None) for body, audio in packed)


async def recover(log: SessionLog, claim: Claim, head: Head, now_ms: int) -> Recovered:
    """Rebuild the session from its output stream and its last checkpoint; nothing is written.

    Raises: LogCorrupt when the stream does not hold together, PositionGone when its beginning was trimmed.
    """
    reading = _Reading()
    while entries := await log.read_output(claim.ref, reading.seq, audio=False):
        for entry in entries:
            reading.take(entry)
    if reading.seq != head.output.number:
        raise LogCorrupt(f"the log ends at seq {reading.seq}, its head says {head.output.number}")
    unfinished = reading.unfinished(now_ms)
    pending: tuple[Fact, ...] = ()
    saved = _checkpoint(head)
    # A checkpoint of an earlier seq is out of date: the record after it took its facts along.
    if saved is not None and saved.seq == reading.seq:
        pending, reading.consumed = tuple(unpack_facts(saved.facts)), EntryId.parse(saved.consumed)
        reading.fold(pending)
    return Recovered(
        reading.session,
        reading.seq,
        reading.consumed,
        pending,
        unfinished,
        reading.end,
        reading.utterance.found(reading.session),
        tuple(reading.marks),
    )


def _read(entry: Entry) -> OutputRecord:
    try:
        return unpack_output(entry.body)
    except RecordUnreadable as error:
        raise LogCorrupt(f"the record of {entry.id}: {error}") from error


def _checkpoint(head: Head) -> Checkpoint | None:
    if head.checkpoint is None:
        return None
    try:
        saved = msgspec.msgpack.decode(head.checkpoint, type=Checkpoint)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(f"the checkpoint cannot be read: {error}") from error
    if saved.v != Checkpoint.VERSION:
        raise LogCorrupt(f"the checkpoint has version {saved.v}; this build reads {Checkpoint.VERSION}")
    return saved
