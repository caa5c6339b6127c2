"""What is known of a session beside its records."""

from __future__ import annotations

import msgspec
import pytest

from duplex_es.log.api import SessionRef
from duplex_es.reading.notes import (
    Erased,
    Exported,
    Note,
    Tombstone,
    check_erased,
    moment,
    pack_note,
    tombstones_of,
    unpack_notes,
)

pytestmark = pytest.mark.unit

WHOLE = Tombstone(session_id="s", incarnation=0, created_ms=5, what="session", at_ms=1_700_000_000_000, by="me")
SPAN = Tombstone(
    session_id="s", incarnation=1, created_ms=6, what="span", at_ms=0, from_ms=0, to_ms=1_500, reason="why"
)
COPY = Exported(session_id="s", incarnation=0, host="h", path="/p")


def test_notes_come_back_in_their_order_and_unknown_ones_are_left_out() -> None:
    notes: list[Note] = [WHOLE, COPY, SPAN]
    newer = msgspec.json.encode({"note": "later", "v": 1}), pack_note(msgspec.structs.replace(COPY, v=2)), b"{"
    assert unpack_notes([*map(pack_note, notes), *newer]) == notes


def test_a_tombstone_reads_as_a_sentence() -> None:
    assert WHOLE.line() == "erased 2023-11-14 22:13:20.000Z by me, the whole session"
    assert SPAN.line() == (
        "erased 1970-01-01 00:00:00.000Z, what was said from 1970-01-01 00:00:00.000Z to 1970-01-01 00:00:01.500Z: why"
    )
    audio = msgspec.structs.replace(WHOLE, what="audio", speaker="caller", by="")
    assert audio.line().endswith(", the caller's sound")
    assert msgspec.structs.replace(audio, speaker="both").line().endswith(", the sound of both sides")
    assert moment(1) == "1970-01-01 00:00:00.001Z"


def test_tombstones_are_those_of_one_life() -> None:
    notes = [WHOLE, COPY, SPAN]
    assert tombstones_of(notes, SessionRef("s", 0)) == [WHOLE]
    assert tombstones_of(notes, SessionRef("s", 0), 5) == [WHOLE]
    assert tombstones_of(notes, SessionRef("s", 0), 7) == []
    assert tombstones_of([msgspec.structs.replace(WHOLE, created_ms=0)], SessionRef("s", 0), 7)


def test_only_a_whole_session_counts_as_erased() -> None:
    check_erased("s", [SPAN, COPY])
    with pytest.raises(Erased, match="'s' was erased 2023-11-14"):
        check_erased("s", [SPAN, WHOLE])
