"""A session's history under another id: the log up to one frame, with every id that the session minted minted anew.

Ids are counted, not drawn, so the copy is what the new session would have written had it lived the same life: its
facts, shown again, give its frames byte for byte, and what comes after goes on with its own ids. Ids that others chose
(the client's own items, the model's calls) stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ...log.api import Entry, EntryId, Head, SessionRef
from ...protocol import ForkSession, answer_item_id, given, mint_item_id, mint_response_id
from ...protocol.records import RecordUnreadable, pack_input, pack_output, unpack_input, unpack_output
from ...reading.source import Source
from ...session.facts import LogCorrupt, pack_fact, unpack_facts
from ...session.state import Session
from ..errors import ToolError
from ..log.states import state_at


@dataclass(frozen=True, slots=True)
class Copy:
    """A session to be begun.

    ``cut``: the frames of the last decision that the worker will make again. ``consumed`` is the last input of the
    original that it holds, ``anew`` gives what comes after that the new ids.
    """

    head: Head
    input: list[Entry]
    output: list[Entry]
    snapshots: list[tuple[int, bytes]]
    session: Session
    cut: int
    consumed: EntryId
    anew: Anew
    at_ms: int


async def copy_at(source: Source, head: Head, seq: int, session_id: str, at_ms: int | None = None) -> Copy:
    """The session up to ``seq`` as ``session_id``, and a record in its input that says where it comes from.

    It was copied at ``at_ms``; without that, when the frame was recorded.

    Raises: ToolError when the session was not open at ``seq``, or what it needs of the log is gone.
    """
    standing = await state_at(source, head, seq)
    session = standing.session
    if session.state != "open":
        words = "had not begun" if session.state == "new" else "was over"
        raise ToolError(f"the session {words} at seq {seq}: it can be forked only while it is open")
    if head.first_seq > seq:
        raise ToolError(f"the records up to seq {seq} are gone: fork at a later one")
    anew = Anew(head.ref, SessionRef(session_id, 0), session)
    consumed = EntryId.parse(standing.consumed)
    said = [anew.said(entry) async for entry in source.input(head, audio=True) if entry.id <= consumed]
    shown, cut, shown_ms = [], 0, 0
    async for entry in source.output(head, audio=True):
        if entry.id.number > seq:
            break
        shown.append(anew.shown(entry))
        record = msgspec.msgpack.decode(entry.body)
        cut, shown_ms = int(record.get("more", 0)), int(record.get("at_ms", 0))
    if not said or said[-1].id != consumed:
        raise ToolError(f"input {consumed}, which the session had decided on at seq {seq}, is gone")
    forked = ForkSession(session_id=head.ref.session_id, incarnation=head.ref.incarnation, seq=seq)
    said.append(Entry(EntryId(consumed.generation, consumed.number + 1), pack_input(forked, at_ms or shown_ms).body))
    kept = [(at, anew.packed(one)) for at, one in await source.snapshots(head) if at <= seq]
    begun = replace(
        head,
        ref=SessionRef(session_id, 0),
        state="waiting",
        generation=consumed.generation,
        attached=False,
        fence=shown[-1].id.generation,
        worker="",
        output=shown[-1].id,
        input=said[-1].id,
        acknowledged_seq=0,
        opening=None if head.opening is None else anew.packed(head.opening),
        checkpoint=None,
    )
    return Copy(begun, said, shown, kept[-2:], session, cut, consumed, anew, at_ms or shown_ms)


class Anew:
    """Gives what a session wrote the ids of another one."""

    def __init__(self, old: SessionRef, new: SessionRef, session: Session) -> None:
        self._old, self._new = old, new
        self._minted: dict[str, str] = {}
        ids = ((old.session_id, old.incarnation), (new.session_id, new.incarnation))
        for number in range(1, session.responses_count + 2):
            before, after = (mint_response_id(*each, number) for each in ids)
            self._minted[before] = after
            self._minted[answer_item_id(before)] = answer_item_id(after)
        for number in range(1, session.items_count + 2):
            before_item, after_item = (mint_item_id(*each, number) for each in ids)
            self._minted[before_item] = after_item

    def said(self, entry: Entry) -> Entry:
        """A record of the input. One that nobody can read stays what it is."""
        try:
            record = unpack_input(self.packed(entry.body))
        except RecordUnreadable:
            return entry
        return Entry(entry.id, pack_input(record.said, record.at_ms).body, entry.audio)

    def shown(self, entry: Entry) -> Entry:
        """A record of the output, packed as a worker packs it. Raises: ToolError."""
        try:
            record = unpack_output(self.packed(entry.body))
            facts = [pack_fact(fact) for fact in unpack_facts(given(record.facts, []))]
        except (RecordUnreadable, LogCorrupt) as error:
            raise ToolError(f"the record of {entry.id} cannot be read: {error}") from error
        consumed, frame = given(record.consumed, None), given(record.frame, None)
        body = pack_output(record.at_ms, frame=frame, facts=facts, consumed=consumed, more=record.more).body
        return Entry(entry.id, body, entry.audio)

    def packed(self, body: bytes) -> bytes:
        """Anything that is packed as a map."""
        return msgspec.msgpack.encode(self.plain(msgspec.msgpack.decode(body)))

    def plain(self, value: Any) -> Any:
        """Anything made of maps, lists and plain values."""
        if isinstance(value, dict):
            return {self._minted.get(key, key): self._field(key, one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.plain(one) for one in value]
        return self._minted.get(value, value) if isinstance(value, str) else value

    def _field(self, key: str, value: Any) -> Any:
        if key in ("session_id", "id") and value == self._old.session_id:
            return self._new.session_id
        if key == "incarnation" and value == self._old.incarnation:
            return self._new.incarnation
        return self.plain(value)
