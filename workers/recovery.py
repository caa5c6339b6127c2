"""From a log to a session: fold what is stored, finish a decision that was cut in half."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from duplex_es.log.api import START, Claim, EntryId, Head, Record, SessionLog
from duplex_es.protocol import Frame
from duplex_es.protocol.records import pack_output, unpack_output
from duplex_es.session.events import Fact
from duplex_es.session.facts import LogCorrupt, unpack_facts
from duplex_es.session.state import Session
from duplex_es.session.step import apply, reproject

from .journal import Checkpoint, Journal


@dataclass(frozen=True, slots=True)
class Recovered:
    """A session as its log tells it. ``unfinished`` are records a dead predecessor did not get to write any more."""

    session: Session
    seq: int
    consumed: EntryId
    pending: tuple[Fact, ...]
    unfinished: tuple[Record, ...]

    def journal(self) -> Journal:
        """The journal that goes on where the log ends."""
        return Journal(self.seq + len(self.unfinished), self.consumed, self.pending)


async def recover(log: SessionLog, claim: Claim, head: Head, now_ms: int) -> Recovered:
    """Rebuild the session from its output stream and its last checkpoint.

    Raises: LogCorrupt when the stream does not hold together, PositionGone when its beginning was trimmed.
    """
    session, seq, consumed = Session(), 0, START
    last_facts: tuple[Fact, ...] = ()
    last_before, last_frames, more = session, 0, 0
    while True:
        entries = await log.read_output(claim.ref, seq, audio=False)
        if not entries:
            break
        for entry in entries:
            if entry.id.number != seq + 1:
                raise LogCorrupt(f"{claim.ref.session_id}: seq {seq + 1} is missing before {entry.id}")
            record = unpack_output(entry.body)
            seq, more = entry.id.number, record.more
            if isinstance(record.facts, list):
                last_before, last_frames = session, 0
                last_facts = tuple(unpack_facts(record.facts))
                for fact in last_facts:
                    session, _ = apply(session, fact)
            last_frames += 1
            if isinstance(record.consumed, str):
                consumed = EntryId.parse(record.consumed)
    pending: tuple[Fact, ...] = ()
    if head.checkpoint is not None:
        saved = msgspec.msgpack.decode(head.checkpoint, type=Checkpoint)
        if saved.seq == seq:
            pending, consumed = tuple(unpack_facts(saved.facts)), EntryId.parse(saved.consumed)
            for fact in pending:
                session, _ = apply(session, fact)
    unfinished = _rest(last_before, last_facts, last_frames, more, consumed, now_ms) if more else ()
    return Recovered(session, seq, consumed, pending, unfinished)


def _rest(
    before: Session, facts: tuple[Fact, ...], written: int, more: int, consumed: EntryId, now_ms: int
) -> tuple[Record, ...]:
    """The frames of the last decision that are missing, made again from its facts."""
    _, frames = reproject(facts, before)
    rest: list[Frame] = frames[written : written + more]
    if len(rest) != more:
        raise LogCorrupt(f"the last decision shows {len(frames)} frames, its record says {written + more}")
    return tuple(
        Record(*pack_output(now_ms, frame=frame, consumed=str(consumed), more=more - 1 - index))
        for index, frame in enumerate(rest)
    )
