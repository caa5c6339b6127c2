"""Replies of scripts become heads and standings."""

from __future__ import annotations

import pytest

from duplex_es.log.api import EntryId, Head, SessionRef
from duplex_es.log.heads import head_from, is_listed, standing_from

pytestmark = pytest.mark.unit


def test_a_head_takes_every_field_of_the_reply() -> None:
    reply = [b"3", b"echo", b"claimed", b"2", 1, b"g", b"7", b"w", 41, b"2-17", 5, b"4", b"opening", None]
    assert head_from("s", reply) == Head(
        ref=SessionRef("s", 3),
        model="echo",
        state="claimed",
        generation=2,
        attached=True,
        gateway="g",
        fence=7,
        worker="w",
        output=EntryId(7, 41),
        input=EntryId(2, 17),
        first_seq=5,
        acknowledged_seq=4,
        opening=b"opening",
        checkpoint=None,
    )


def test_a_standing_is_about_the_writers_of_the_followed_stream() -> None:
    look = [b"claimed", 2, 7, b"2-17", 41, 5, b"7-40", b"", None, 6, b"g", b"w"]
    assert standing_from(look, output=True).generation == 7
    assert standing_from(look, output=True).written_under == 6
    assert standing_from(look, output=False).generation == 2
    assert standing_from(look, output=True).attachment == 2
    assert standing_from(look, output=True).read_after == EntryId(7, 40)
    assert standing_from(look, output=True).first_seq == 5


def test_a_digest_is_listed_with_its_length() -> None:
    assert is_listed(b"two", b"3:one3:two")
    assert not is_listed(b"two", b"4:twos3:one")
    assert not is_listed(b"two", b"")
