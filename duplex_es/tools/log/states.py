"""The state of a session at a place of its log, folded from what is left of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ...log.api import Head
from ...protocol.records import RecordUnreadable, unpack_output
from ...reading.source import Source
from ...session.facts import LogCorrupt, unpack_facts
from ...session.snapshot import SnapshotUnreadable, unpack_session
from ...session.state import Session
from ...session.step import fold
from ..errors import ToolError


@dataclass(frozen=True, slots=True)
class Standing:
    """The state after ``seq``; ``consumed`` is the input decided on by then, ``since_seq`` where folding began."""

    session: Session
    seq: int
    consumed: str
    since_seq: int


def snapshot_state(packed: bytes) -> tuple[Session, str]:
    """The state in a worker's snapshot, and the last input decided on. Raises: ToolError."""
    try:
        found = msgspec.msgpack.decode(packed, type=dict[str, msgspec.Raw])
        return unpack_session(found["session"]), msgspec.msgpack.decode(found["consumed"], type=str)
    except (msgspec.MsgspecError, KeyError, SnapshotUnreadable) as error:
        raise ToolError(f"a snapshot cannot be read: {error}") from error


async def state_at(source: Source, head: Head, seq: int) -> Standing:
    """Where the session stood after ``seq``, from the newest snapshot up to it or from the first record.

    Facts that no record held yet are not in it. Raises: ToolError when that place cannot be reached.
    """
    if not 0 <= seq <= head.output.number:
        raise ToolError(f"there is no seq {seq}: the log ends at {head.output.number}")
    session, since, consumed = Session(), 0, "0-0"
    usable = [one for one in await source.snapshots(head) if head.first_seq - 1 <= one[0] <= seq]
    if usable:
        since = usable[-1][0]
        session, consumed = snapshot_state(usable[-1][1])
    elif head.first_seq > 1:
        raise ToolError(f"seq {seq} cannot be reached: records before {head.first_seq} are gone, without a snapshot")
    async for entry in source.output(head, since):
        if entry.id.number > seq:
            break
        try:
            record = unpack_output(entry.body)
            if isinstance(record.facts, list):
                session = fold(unpack_facts(record.facts), session)
        except (RecordUnreadable, LogCorrupt) as error:
            raise ToolError(f"the record of {entry.id} cannot be read: {error}") from error
        consumed = record.consumed if isinstance(record.consumed, str) else consumed
    return Standing(session, seq, consumed, since)


def plain(session: Session) -> dict[str, Any]:
    """The state as JSON shows it; bytes are counted, not shown."""
    shown: dict[str, Any] = msgspec.to_builtins(session, builtin_types=(bytes,))
    if isinstance(memory := shown.get("memory"), bytes):
        shown["memory"] = f"{len(memory)} bytes"
    return shown


def state_lines(standing: Standing) -> list[tuple[str, str]]:
    """The state in rows of a name and what it is."""
    session = standing.session
    rows = [
        ("seq", f"{standing.seq}, input up to {standing.consumed}"),
        ("state", f"{session.state}, {'attached' if session.attached else 'no socket'}, epoch {session.epoch}"),
        ("model", session.settings.model or "-"),
        ("turns", f"{session.turn_id} answered, now {session.turn_state}"),
        ("heard", f"{session.input.clock.ms} ms of the caller, {session.input.buffered_ms} ms not committed"),
    ]
    if session.response is not None:
        rows.append(("answering", session.response.id))
    if session.owed is not None:
        rows.append(("owed", f"an answer to {session.owed}"))
    if session.waiting is not None:
        rows.append(("waiting", f"a turn ({session.waiting.item_id}) behind the answer"))
    for call in session.calls:
        rows.append(("call", f"{call.call_id}: {call.state}"))
    for item in session.items:
        ledger = item.ledger
        heard = f" [generated {ledger.generated_ms}, played {ledger.played_ms} ms]" if ledger.generated_ms else ""
        said = " ".join(part for part in (item.transcript, item.text) if part).strip()
        known = "" if item.remembered or item.role == "user" else " (not in the history)"
        rows.append((item.role or item.type, f"{said!r} {item.status}{heard}{known}"))
    return rows
