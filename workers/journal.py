"""What one actor writes: decisions as records, silent facts on the next record or on a checkpoint.

One decision is one run of records. The first carries every fact recorded since the record before it, silent ones
included, so that folding the records alone rebuilds the state; ``more`` counts the frames still to come, so that a
successor can tell a decision that was cut in half and finish it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from duplex_es.log.api import EntryId, Record
from duplex_es.protocol import Frame
from duplex_es.protocol.records import pack_output
from duplex_es.session.events import Fact
from duplex_es.session.facts import pack_fact
from duplex_es.session.step import Decision, merged


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Silent facts that no record holds yet. Good only while ``seq`` is still the last one of the log.

    ``handed_over``: its worker let go of the session at a turn boundary; nothing was lost with it.
    """

    VERSION: ClassVar[int] = 1

    v: int = VERSION
    seq: int
    consumed: str
    facts: list[msgspec.Raw] = []
    handed_over: bool = False


class Journal:
    """Turns decisions into records and keeps count. Not shared: one per actor.

    ``recorded`` are the facts that the last records took along.
    """

    def __init__(self, seq: int, consumed: EntryId, pending: Sequence[Fact] = ()) -> None:
        self.seq = seq
        self.consumed = consumed
        self.recorded: tuple[Fact, ...] = ()
        self._pending: list[Fact] = list(pending)
        self._unsaved_since_ms: int | None = None

    def take_in(self, decisions: Sequence[Decision], consumed: EntryId, now_ms: int) -> list[Record]:
        """The records of ``decisions``, in order, numbered from ``seq + 1``; none if they show nothing.

        Several decisions are written as one: what an input was taken apart into counts together or not at all.
        """
        moved = consumed != self.consumed
        self.consumed = consumed
        facts = [fact for decision in decisions for fact in decision.facts]
        frames = [frame for decision in decisions for frame in decision.frames]
        for fact in facts:
            self._hold(fact)
        if not frames:
            if (facts or moved) and self._unsaved_since_ms is None:
                self._unsaved_since_ms = now_ms
            return []
        held, self._pending, self._unsaved_since_ms = self._pending, [], None
        self.seq += len(frames)
        self.recorded = tuple(held)
        return records(held, frames, consumed, now_ms)

    def _hold(self, fact: Fact) -> None:
        joined = merged(self._pending[-1], fact) if self._pending else None
        if joined is not None:
            self._pending[-1] = joined
        else:
            self._pending.append(fact)

    def checkpoint_due_ms(self, after_ms: int) -> int | None:
        """When the held facts must be saved, ``None`` when nothing is held."""
        return None if self._unsaved_since_ms is None else self._unsaved_since_ms + after_ms

    def checkpoint(self, *, hands_over: bool = False) -> bytes:
        """The held facts, packed for ``SessionLog.checkpoint``; they stay held until a record takes them."""
        self._unsaved_since_ms = None
        facts = [pack_fact(fact) for fact in self._pending]
        saved = Checkpoint(seq=self.seq, consumed=str(self.consumed), facts=facts, handed_over=hands_over)
        return msgspec.msgpack.encode(saved)


def records(facts: Sequence[Fact], frames: Sequence[Frame], consumed: EntryId, at_ms: int) -> list[Record]:
    """One decision as records: the first with ``facts``, each with one frame, ``more`` down to 0."""
    taken, last = str(consumed), len(frames) - 1
    first = [pack_fact(fact) for fact in facts]
    return [
        Record(*pack_output(at_ms, frame=frame, facts=() if at else first, consumed=taken, more=last - at))
        for at, frame in enumerate(frames)
    ]
