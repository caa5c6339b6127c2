"""A recorded session as what it was made of: what was said, in order, and each decision that came of it, whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from msgspec import UnsetType

from ...log.api import START, Entry, EntryId, Head
from ...protocol import AppendAudio, Frame, ResponseOutputAudioDelta, SocketAttached, SocketDetached
from ...protocol.records import RecordUnreadable, RefuseCommand, Said, unpack_input, unpack_output
from ...reading.source import Source
from ...session.events import AudioProduced, Fact
from ...session.facts import LogCorrupt, unpack_facts
from ...session.state import replace
from ..errors import ToolError


@dataclass(frozen=True, slots=True)
class Heard:
    """One entry of the input, as a worker takes it in, and when the gateway heard it."""

    entry: Entry
    said: Said
    at_ms: int

    @property
    def id(self) -> EntryId:
        """Where it stands in the input."""
        return self.entry.id


@dataclass(slots=True)
class Recorded:
    """One decision of the log: its facts and frames, and the last input it took in.

    ``entries`` are the records it lies in.
    """

    at_ms: int
    facts: tuple[Fact, ...]
    consumed: EntryId
    frames: list[Frame] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    @property
    def first(self) -> EntryId:
        """The record that holds its facts."""
        return self.entries[0].id

    @property
    def is_silenced(self) -> bool:
        """Whether some of its sound is not there: it has expired, or the frame that it lies beside was not written."""
        produced = sum(isinstance(fact, AudioProduced) for fact in self.facts)
        return produced > sum(bool(sound) for sound in self.sounds)

    @property
    def sounds(self) -> tuple[bytes, ...]:
        """The audio that lies beside each of its frames that has any."""
        return tuple(one.delta for one in self.frames if isinstance(one, ResponseOutputAudioDelta))


async def heard_in(source: Source, head: Head, after: EntryId = START) -> AsyncIterator[Heard]:
    """What was said above ``after``. What cannot be read is what a worker makes of it: a refusal."""
    async for entry in source.input(head, after, audio=True):
        yield heard_of(entry)


def heard_of(entry: Entry) -> Heard:
    """One entry of the input."""
    try:
        record = unpack_input(entry.body, entry.audio)
    except RecordUnreadable:
        refusal = RefuseCommand(code="internal_error", message=f"Input {entry.id} cannot be read.")
        return Heard(entry, refusal, 0)
    said = record.said
    if isinstance(said, SocketAttached | SocketDetached):  # What stands in it was known before the attach.
        said = replace(said, generation=entry.id.generation)
    elif isinstance(said, AppendAudio) and entry.audio is None:
        raise ToolError(f"the sound of input {entry.id} has expired: the call cannot be carried out again")
    return Heard(entry, said, record.at_ms)


async def decisions_in(source: Source, head: Head, after_seq: int = 0) -> AsyncIterator[Recorded]:
    """Each decision above ``after_seq``, in order; the last one of an open session may lack frames.

    Raises: ToolError for a record that cannot be read, and when ``after_seq`` lies inside a decision.
    """
    found: Recorded | None = None
    consumed = START
    async for entry in source.output(head, after_seq, audio=True):
        try:
            record = unpack_output(entry.body, entry.audio)
            facts = tuple(unpack_facts(record.facts)) if isinstance(record.facts, list) else None
        except (RecordUnreadable, LogCorrupt) as error:
            raise ToolError(f"the record of {entry.id} cannot be read: {error}") from error
        consumed = EntryId.parse(record.consumed) if isinstance(record.consumed, str) else consumed
        if facts is not None:
            if found is not None:
                yield found
            found = Recorded(record.at_ms, facts, consumed)
        if found is None:
            raise ToolError(f"seq {entry.id.number} is in the middle of a decision: begin before it")
        found.entries.append(entry)
        if not isinstance(record.frame, UnsetType):
            found.frames.append(record.frame)
    if found is not None:
        yield found
