"""All that a log can show of its promises, checked from the first record to the last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from ...log.api import START, Entry, EntryId, Head
from ...protocol import AppendAudio, Frame, ResponseOutputAudioDelta, wire_name
from ...protocol.records import (
    OpenSession,
    OutputRecord,
    RecordUnreadable,
    SocketAttached,
    pack_output,
    unpack_input,
    unpack_output,
)
from ...reading.notes import tombstones_of
from ...reading.source import Source
from ...session.events import AudioProduced, Fact
from ...session.facts import LogCorrupt, unpack_facts
from ...session.state import Session
from ...session.step import reproject
from ..errors import ToolError
from .order import OrderBroken, OrderChecker
from .states import snapshot_state

RULES = {
    "chain": "the hash chain of a file or an archive holds over every entry and its audio",
    "input-ids": "input ids ascend by one, each attachment begins with its own record",
    "input-record": "every input record can be read, and only an append has sound",
    "seqs": "each seq has one record: no hole, none twice, up to where the head says the log ends",
    "claims": "what a newer claim wrote is followed by nothing of an older one",
    "output-record": "every output record and fact can be read",
    "decisions": "a decision is whole: facts in its first record, `more` counting down to 0",
    "consumed": "the input decided on never goes back, and is in the log",
    "projection": "the facts, shown again, give the stored frames byte for byte",
    "snapshots": "folding the records up to a snapshot gives that snapshot",
    "audio": "sound lies only beside audio deltas, as long as their facts say",
    "answers": "every response.created has one response.done, in the contract's order",
}
"""Name → the promise."""


class Violated(Exception):
    """A promise is broken: ``rule`` of ``RULES`` at ``where`` (``output 2-41``), ``detail`` in words."""

    def __init__(self, rule: str, where: str, detail: str) -> None:
        super().__init__(f"{where}: {rule}: {detail}")
        self.rule, self.where, self.detail = rule, where, detail


@dataclass
class Findings:
    """What was looked at. ``notes`` are no violations, but what could not be checked."""

    input_records: int = 0
    output_records: int = 0
    facts: int = 0
    snapshots: int = 0
    answers: int = 0
    expired_audio: int = 0
    notes: list[str] = field(default_factory=list)


async def check_session(source: Source, head: Head) -> Findings:
    """Hold the session to every rule. Raises: Violated at the first that is broken, ToolError."""
    findings = Findings()
    if (broken := await source.broken(head)) is not None:
        raise Violated("chain", source.name, broken)
    inputs = InputChecker(head, findings)
    async for entry in source.input(head, audio=True):
        inputs.take(entry)
    tombstones = tombstones_of(await source.notes_on(head.ref.session_id), head.ref)
    findings.notes += [tombstone.line() for tombstone in tombstones]
    output = OutputChecker(head, findings, inputs, await source.snapshots(head))
    async for entry in source.output(head, audio=True):
        output.take(entry)
        if entry.id.number % 500 == 0:
            await asyncio.sleep(0)
    output.end()
    return findings


class InputChecker:
    """The rules of the input."""

    def __init__(self, head: Head, findings: Findings) -> None:
        self._head, self._findings = head, findings
        self.first: EntryId | None = None
        self.ends: dict[int, int] = {}
        self._last = START

    def take(self, entry: Entry) -> None:
        """The next entry. Raises: Violated."""
        last, where = self._last, f"input {entry.id}"
        if self.first is None:
            self.first = entry.id
            if entry.id != EntryId(1, 0):
                self._findings.notes.append(f"input before {entry.id} is gone and was not checked")
        elif entry.id.generation == last.generation:
            if entry.id.number != last.number + 1:
                raise Violated("input-ids", where, f"it follows {last}")
        elif entry.id.generation < last.generation or entry.id.number != 0:
            raise Violated("input-ids", where, f"it follows {last}; an attachment begins with its record, number 0")
        self._last = entry.id
        self.ends[entry.id.generation] = entry.id.number
        self._findings.input_records += 1
        try:
            said = unpack_input(entry.body).said
        except RecordUnreadable as error:
            raise Violated("input-record", where, str(error)) from error
        if entry.id.number == 0 and not isinstance(said, OpenSession | SocketAttached):
            raise Violated("input-ids", where, f"{type(said).__name__} is not the record of an attachment")
        if entry.audio is not None and not isinstance(said, AppendAudio):
            raise Violated("input-record", where, f"sound lies beside {type(said).__name__}")
        if entry.audio is None and isinstance(said, AppendAudio):
            self._findings.expired_audio += 1

    def holds(self, consumed: EntryId) -> bool:
        """Whether ``consumed`` is an entry, as far as can be known."""
        if self.first is None or consumed < self.first:
            return self.first != EntryId(1, 0) or consumed == START
        return consumed.number <= self.ends.get(consumed.generation, -1)


class OutputChecker:
    """The rules of the output."""

    def __init__(
        self, head: Head, findings: Findings, inputs: InputChecker, snapshots: list[tuple[int, bytes]]
    ) -> None:
        self._head, self._findings, self._inputs = head, findings, inputs
        self._snapshots = dict(snapshots)
        self._seq = head.first_seq - 1
        self._fence = 0
        self._more: int | None = 0 if head.first_seq == 1 else None
        self._consumed = START
        self._session: Session | None = Session() if head.first_seq == 1 else None
        self._made: list[Frame] = []
        self._facts: tuple[Fact, ...] = ()
        self._order = OrderChecker(whole=head.first_seq == 1)
        if head.first_seq > 1:
            findings.notes.append(f"output before seq {head.first_seq} is gone and was not checked")
            self._meet_snapshot()

    def take(self, entry: Entry) -> None:
        """The next entry. Raises: Violated."""
        where = f"output {entry.id}"
        if entry.id.number != self._seq + 1:
            raise Violated("seqs", where, f"seq {entry.id.number} follows {self._seq}")
        if entry.id.generation < self._fence or entry.id.generation > self._head.fence:
            raise Violated("claims", where, f"it follows claim {self._fence}; the newest is {self._head.fence}")
        self._seq, self._fence = entry.id.number, entry.id.generation
        self._findings.output_records += 1
        try:
            record = unpack_output(entry.body)
        except RecordUnreadable as error:
            raise Violated("output-record", where, str(error)) from error
        self._check_decision(record, where)
        self._check_consumed(record, where)
        self._check_projection(entry, record, where)
        self._check_audio(entry, record, where)
        if not isinstance(record.frame, UnsetType):
            try:
                self._order.take(record.frame)
            except OrderBroken as broken:
                raise Violated("answers", where, str(broken)) from broken
        self._meet_snapshot()

    def _check_decision(self, record: OutputRecord, where: str) -> None:
        begins = isinstance(record.facts, list)
        if self._more is None and not begins:
            return  # The rest of a decision whose first record is gone.
        if self._more and (begins or record.more != self._more - 1):
            raise Violated("decisions", where, f"{self._more} more records of the decision were to come first")
        self._more = record.more

    def _check_consumed(self, record: OutputRecord, where: str) -> None:
        if not isinstance(record.consumed, str):
            return
        try:
            consumed = EntryId.parse(record.consumed)
        except ValueError:
            raise Violated("consumed", where, f"{record.consumed!r} is no id") from None
        if consumed < self._consumed:
            raise Violated("consumed", where, f"{consumed} after {self._consumed}")
        if not self._inputs.holds(consumed):
            raise Violated("consumed", where, f"input {consumed} is not in the log")
        self._consumed = consumed

    def _check_projection(self, entry: Entry, record: OutputRecord, where: str) -> None:
        if isinstance(record.facts, list):
            try:
                self._facts = tuple(unpack_facts(record.facts))
            except LogCorrupt as error:
                raise Violated("output-record", where, str(error)) from error
            self._findings.facts += len(self._facts)
            if self._session is not None:
                self._session, self._made = reproject(self._facts, self._session)
                shown = 1 + record.more if record.frame is not UNSET else 0
                if len(self._made) != shown:
                    detail = f"the facts show {len(self._made)} frames, the record announces {shown}"
                    raise Violated("projection", where, detail)
                self._made.reverse()
        if self._session is None or not record.frame is not UNSET:
            return
        if not self._made:
            if self._more is None:
                return
            raise Violated("projection", where, "a frame without a fact")
        facts = record.facts if isinstance(record.facts, list) else ()
        consumed = record.consumed if isinstance(record.consumed, str) else None
        made = pack_output(record.at_ms, frame=self._made.pop(), facts=facts, consumed=consumed, more=record.more)
        if made.body != entry.body:
            raise Violated("projection", where, f"the facts give another {_kind(record.frame)}")

    def _check_audio(self, entry: Entry, record: OutputRecord, where: str) -> None:
        if not isinstance(record.frame, ResponseOutputAudioDelta):
            if entry.audio is not None:
                raise Violated("audio", where, f"sound lies beside {_kind(record.frame)}")
            return
        if entry.audio is None:
            self._findings.expired_audio += 1
            return
        produced = [fact for fact in self._facts if isinstance(fact, AudioProduced)]
        if len(produced) == 1 and (size := _size(produced[0])) and size != len(entry.audio):
            raise Violated("audio", where, f"{len(entry.audio)} bytes of sound, its fact says {size}")

    def _meet_snapshot(self) -> None:
        packed = self._snapshots.pop(self._seq, None)
        if packed is None:
            return
        where = f"the snapshot after seq {self._seq}"
        try:
            kept, consumed = snapshot_state(packed)
        except ToolError as error:
            raise Violated("snapshots", where, str(error)) from error
        self._findings.snapshots += 1
        if self._session is not None and (kept != self._session or EntryId.parse(consumed) < self._consumed):
            raise Violated("snapshots", where, "it is not the state that the records before it lead to")
        self._session = kept

    def end(self) -> None:
        """No more entries. Raises: Violated."""
        head, where = self._head, f"output {self._fence}-{self._seq}"
        if self._seq != head.output.number:
            raise Violated("seqs", where, f"the log ends here, its head says {head.output.number}")
        self._findings.answers = len(self._order.done)
        if self._snapshots:
            raise Violated("snapshots", f"the snapshot after seq {min(self._snapshots)}", "the log has no such seq")
        if head.state != "closed":
            if self._more:
                self._findings.notes.append("the last decision is being written")
            return
        if self._more:
            raise Violated("decisions", where, f"{self._more} records of the last decision are missing")
        if self._order.open and head.first_seq <= head.output.number:
            raise Violated("answers", where, f"never done: {', '.join(self._order.open)}")


def _kind(frame: Frame | UnsetType) -> str:
    return "no frame" if isinstance(frame, UnsetType) else wire_name(frame)


def _size(fact: AudioProduced) -> int:
    """How many bytes the sound has, 0 where only a converter knows."""
    if fact.size:
        return fact.size
    same_rate = fact.sent_rate_hz in (None, fact.rate_hz)
    return {"pcm16": 2, "g711_ulaw": 1, "g711_alaw": 1}.get(fact.format, 0) * fact.samples if same_rate else 0


__all__ = ["RULES", "Findings", "Violated", "check_session"]
