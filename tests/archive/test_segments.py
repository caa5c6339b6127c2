"""Segments: sealed, chained, and the same for the same entries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duplex_es.archive.layout import LifeName
from duplex_es.archive.sealing import SealBroken, new_key
from duplex_es.archive.segments import (
    NO_CHAIN,
    Standing,
    pack_segment,
    pack_standing,
    unpack_segment,
    unpack_standing,
)
from duplex_es.log.api import Entry, EntryId, Head, SessionRef
from duplex_es.reading.dxlog import HeadRecord
from duplex_es.reading.errors import ReadingError

pytestmark = pytest.mark.unit

KEY = new_key()
LIFE = LifeName("call", 0, 5)
ENTRIES = [Entry(EntryId(1, 0), b"opened"), Entry(EntryId(1, 1), b"appended", b"samples")]


def test_a_segment_comes_back_as_it_was_and_says_nothing_to_others() -> None:
    packed, chain = pack_segment(KEY, LIFE, 1, "input", ENTRIES, NO_CHAIN)
    assert (packed, chain) == pack_segment(KEY, LIFE, 1, "input", ENTRIES, NO_CHAIN)
    opened = unpack_segment(KEY, packed, "here")
    assert opened.entries == ENTRIES
    assert (opened.note.first, opened.note.last, opened.note.count) == ("1-0", "1-1", 2)
    assert opened.broken() is None and opened.after == chain
    assert not any(text in packed for text in (b"opened", b"appended", b"samples"))


def test_a_segment_that_was_changed_or_moved_does_not_open() -> None:
    packed, _ = pack_segment(KEY, LIFE, 1, "input", ENTRIES, NO_CHAIN)
    for changed in (
        packed[:-1] + bytes([packed[-1] ^ 1]),
        packed.replace(b"call@0-5", b"call@0-6"),
        packed.replace(b"input", b"inpuT"),
    ):
        with pytest.raises(SealBroken, match="here"):
            unpack_segment(KEY, changed, "here")
    with pytest.raises(ReadingError, match="here is not a segment"):
        unpack_segment(KEY, packed[:20], "here")


def test_a_broken_link_is_named() -> None:
    packed, _ = pack_segment(KEY, LIFE, 1, "input", ENTRIES, NO_CHAIN)
    opened = unpack_segment(KEY, packed, "here")
    assert "the audio of input 1-1" in (
        replace(opened, entries=[ENTRIES[0], Entry(EntryId(1, 1), b"appended", b"others")]).broken() or ""
    )
    assert "chain breaks" in (replace(opened, entries=[ENTRIES[0], Entry(EntryId(1, 1), b"other")]).broken() or "")


def test_where_a_session_stood_comes_back_under_its_own_name_only() -> None:
    head = Head(
        SessionRef("call", 0),
        "m",
        "closed",
        1,
        False,
        "g",
        1,
        "w",
        EntryId(1, 9),
        EntryId(1, 2),
        1,
        0,
        b"opening",
        None,
    )
    standing = Standing(head=HeadRecord.of(head), snapshots=[(4, b"state")])
    packed = pack_standing(KEY, LIFE, 1, standing)
    assert unpack_standing(KEY, LIFE, 1, packed).head.head() == head
    assert unpack_standing(KEY, LIFE, 1, packed).snapshots == [(4, b"state")]
    with pytest.raises(SealBroken):
        unpack_standing(KEY, LIFE, 2, packed)
