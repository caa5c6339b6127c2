"""Ids and references."""

from __future__ import annotations

import pytest

from duplex_es.log.api import START, EntryId

pytestmark = pytest.mark.unit


def test_an_id_reads_back_what_it_writes() -> None:
    assert EntryId.parse(str(EntryId(7, 41))) == EntryId(7, 41)
    assert EntryId.parse(b"7-0") == EntryId(7, 0)


@pytest.mark.parametrize("text", ["", "7", "7-", "-41", "7-41-1", "a-b"])
def test_anything_else_is_no_id(text: str) -> None:
    with pytest.raises(ValueError):
        EntryId.parse(text)


def test_ids_are_ordered_by_generation_then_number() -> None:
    assert START < EntryId(1, 0) < EntryId(1, 2) < EntryId(1, 10) < EntryId(2, 0)
