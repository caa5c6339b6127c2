"""Part of a session taken out of its records: one speaker's sound, or all that was said in a span of time.

The records stay, and so do their ids, times, types and counts. Words are taken out of the facts, and the frames are
shown again from those: a redacted log keeps every rule that ``log verify`` knows. Two passes: everything is learned
first, then each entry is given back as it is to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ..log.api import Entry, EntryId
from ..protocol import Frame
from ..protocol.records import RecordUnreadable, unpack_output
from ..session.facts import LogCorrupt, unpack_facts
from ..session.snapshot import SnapshotUnreadable, unpack_session
from ..session.state import Session
from ..session.step import reproject
from .masks import masked, texts_in, unsounded, without_texts

LATE_MS = 1_000
"""A piece of the caller's sound that arrives so long after the span may have been spoken in it."""
SHORTEST = 12
"""A text of so many letters is masked wherever it is repeated word for word."""
PASSING = {"PlaybackAcknowledged", "ItemTruncated", "ItemDeleted", "ItemRetrieved", "SocketChanged"}
"""Facts that name something older without saying any more of it."""
SPEAKERS = ("caller", "assistant", "both")

_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Scope:
    """What is to go: the sound of ``speaker``, or everything from ``from_ms`` to ``to_ms`` (unix ms, both included)."""

    speaker: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    def holds(self, at_ms: Any, *, late_ms: int = 0) -> bool:
        """Whether a record of this time lies in the span."""
        if self.from_ms is None or self.to_ms is None or not isinstance(at_ms, int):
            return False
        return self.from_ms <= at_ms <= self.to_ms + late_ms

    def silences(self, stream: str) -> bool:
        """Whether all sound beside this stream goes."""
        return self.speaker in ("both", "caller" if stream == "input" else "assistant")


class Redaction:
    """One session's. ``learn_input`` for all input and ``learn_output`` for all output come first, then ``begin``, then

    ``input`` and ``output`` in the same order. ``changed`` counts the records that came out different.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.changed = 0
        self._touched: set[str] = set()
        self._texts: set[str] = set()
        self._said: list[EntryId] = []
        self._is_committed = False
        self._session: Session | None = None
        self._snapshot: tuple[int, Session] | None = None
        self._made: list[Frame] = []
        self._is_changed = False

    # -- learning --------------------------------------------------------------------------------------------------

    def learn_input(self, entry: Entry) -> None:
        """What lies in the span of the input."""
        body = _plain(entry.body)
        if self.scope.holds(body.get("at_ms")):
            self._said.append(entry.id)
            self._texts |= texts_in(body.get("said", {}))
            item = body.get("said", {}).get("item")
            if isinstance(item, dict) and isinstance(item.get("id"), str):
                self._touched.add(item["id"])

    def learn_output(self, entry: Entry) -> None:
        """Which items and answers have a part in the span."""
        body = _plain(entry.body)
        facts = [fact for fact in body.get("facts", ()) if isinstance(fact, dict)]
        inside = self.scope.holds(body.get("at_ms"))
        if inside:
            self._texts |= texts_in(body.get("frame", {})) | texts_in(facts)
        for fact in facts:
            if inside and fact.get("fact") not in PASSING:
                self._touched |= _ids(fact)
            if fact.get("fact") == "InputCommitted" and self._commits_the_span(body.get("consumed")):
                self._touched |= _ids(fact)

    def _commits_the_span(self, consumed: Any) -> bool:
        """Whether a commit after this much input may hold some of what was said in the span."""
        if self._is_committed or not self._said or not isinstance(consumed, str):
            return False
        at = EntryId.parse(consumed)
        self._is_committed = at >= self._said[-1]
        return at >= self._said[0]

    def begin(self, first_seq: int, snapshots: list[tuple[int, bytes]]) -> tuple[int, bytes] | None:
        """All is learned; the snapshot that is kept, redacted: the oldest where records before it are gone, else none.

        Nothing else could stand in for those. Words in it go altogether when a span is taken out.
        """
        self._texts = {text for text in self._texts if len(text.strip()) >= SHORTEST}
        if first_seq == 1:
            self._session = Session()
            return None
        usable = [one for one in snapshots if one[0] >= first_seq - 1]
        if not usable:
            return None
        seq, packed = usable[0]
        plain = msgspec.msgpack.decode(packed)
        state = unsounded(plain["session"]) if self.scope.speaker else masked(plain["session"])
        kept = _pack({"v": plain["v"], "seq": seq, "consumed": plain["consumed"], "session": state})
        try:
            session = unpack_session(msgspec.Raw(_pack(state)))
        except SnapshotUnreadable:
            return None
        self._snapshot = (seq, session)
        if seq == first_seq - 1:
            self._session = session
        return seq, kept

    # -- giving back -----------------------------------------------------------------------------------------------

    def opening(self, packed: bytes | None) -> bytes | None:
        """The opening answer: its words go with a span, sound in it always."""
        if packed is None:
            return None
        plain = msgspec.msgpack.decode(packed)
        return _pack(without_texts(unsounded(plain), self._texts))

    def input(self, entry: Entry) -> Entry:
        """The entry as it is to be."""
        body = _plain(entry.body)
        before, at_ms = body.get("said", {}), body.get("at_ms")
        said = unsounded(before) if self.scope.silences("input") else before
        if self.scope.holds(at_ms) or ("item" in said and _ids(said) & self._touched):
            said = masked(said)
        said = without_texts(said, self._texts)
        audio = None if self.scope.silences("input") or self.scope.holds(at_ms, late_ms=LATE_MS) else entry.audio
        return self._given(entry, {} if said == before else {"said": said}, audio)

    def output(self, entry: Entry) -> Entry:
        """The entry as it is to be."""
        body = _plain(entry.body)
        frame, before = body.get("frame"), body.get("facts", ())
        inside = self.scope.holds(body.get("at_ms"))
        is_touched = inside or (isinstance(frame, dict) and bool(_ids(frame) & self._touched))
        facts = [self._fact(fact, inside) for fact in before]
        changes: dict[str, Any] = {}
        if facts != list(before):
            self._is_changed = True
            changes["facts"] = facts
        made = self._shown_again(entry, body, facts)
        if made is not None:
            if self._is_changed or is_touched:
                # As it is packed for the log, which counts the fields of a frame that are not there, too.
                changes["frame"] = msgspec.Raw(_pack(made))
        elif frame is not None:
            changes["frame"] = masked(frame) if is_touched else without_texts(frame, self._texts)
        if changes.get("frame") == frame:
            changes.pop("frame", None)
        self._meet_snapshot(entry.id.number)
        audio = None if self.scope.silences("output") or is_touched else entry.audio
        return self._given(entry, changes, audio)

    def _fact(self, fact: dict[str, Any], inside: bool) -> dict[str, Any]:
        if inside or _ids(fact) & self._touched:
            found: dict[str, Any] = masked(fact)
        else:
            found = without_texts(fact, self._texts)
        # A model's memory is made of all that it heard and said.
        return found | {"data": b""} if fact.get("fact") == "MemoryGrown" else found

    def _shown_again(self, entry: Entry, body: dict[str, Any], facts: list[dict[str, Any]]) -> Frame | None:
        """The frame that the redacted facts show, where it is known what they are shown from."""
        if "facts" in body and self._session is not None:
            try:
                typed = tuple(unpack_facts(msgspec.Raw(_pack(fact)) for fact in facts))
                self._session, self._made = reproject(typed, self._session)
            except LogCorrupt:
                self._session, self._made = None, []
            shown = 1 + body.get("more", 0) if "frame" in body else 0
            if len(self._made) != shown:
                self._made = []
            self._made.reverse()
        if "frame" not in body or not self._made:
            return None
        frame = self._made.pop()
        return frame if _shows(entry, frame) else None

    def _meet_snapshot(self, seq: int) -> None:
        if self._snapshot is not None and self._snapshot[0] == seq:
            self._session = self._snapshot[1]

    def _given(self, entry: Entry, changes: dict[str, Any], audio: bytes | None) -> Entry:
        """The entry with these parts of its body; what does not change keeps every byte."""
        body = entry.body
        if changes:
            body = _pack(msgspec.msgpack.decode(body, type=dict[str, msgspec.Raw]) | changes)
        if body != entry.body or audio != entry.audio:
            self.changed += 1
        return Entry(entry.id, body, audio)


def _shows(entry: Entry, frame: Frame) -> bool:
    """Whether the record shows a frame of this kind."""
    try:
        return type(unpack_output(entry.body).frame) is type(frame)
    except RecordUnreadable:
        return False


def _plain(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.msgpack.decode(body)
    except msgspec.MsgspecError:
        return {}
    return found if isinstance(found, dict) else {}


def _ids(plain: dict[str, Any]) -> set[str]:
    """The items and answers that a fact, a frame or what was said is about."""
    found = [plain.get("item_id"), plain.get("response_id")]
    for name in ("item", "response"):
        part = plain.get(name)
        if isinstance(part, dict):
            found += [part.get("id"), part.get("response_id")]
    return {one for one in found if isinstance(one, str)}
