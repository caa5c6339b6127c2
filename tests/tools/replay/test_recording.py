"""A recording taken apart: what was said, and decisions whole."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from duplex_es.log.api import Entry, EntryId
from duplex_es.protocol import AppendAudio, RefuseCommand, SocketAttached, pack_input
from duplex_es.reading.dxlog import FileSource
from duplex_es.tools.errors import ToolError
from duplex_es.tools.replay.recording import decisions_in, heard_in, heard_of

pytestmark = pytest.mark.unit

TAKEOVER = Path(__file__).resolve().parents[2] / "corpus" / "takeover.dxlog"


async def test_every_record_is_part_of_one_decision_also_across_workers() -> None:
    with FileSource(TAKEOVER) as source:
        found = [one async for one in decisions_in(source, source.head)]
        records = [entry.id for one in found for entry in one.entries]
        assert records == [entry.id for entry in source.entries("output")]
        assert sum(len(one.frames) for one in found) == len(records)
        assert {one.first.generation for one in found} == {1, 2}
        with pytest.raises(ToolError, match="in the middle of a decision"):
            _ = [one async for one in decisions_in(source, source.head, found[2].first.number)]


async def test_a_decision_knows_when_some_of_its_sound_is_not_there() -> None:
    with FileSource(TAKEOVER) as source:
        spoken, *_ = [one async for one in decisions_in(source, source.head) if one.sounds]
        assert not spoken.is_silenced
        assert dataclasses.replace(spoken, frames=[]).is_silenced


async def test_what_was_said_has_its_sound_and_the_socket_its_own_number() -> None:
    with FileSource(TAKEOVER) as source:
        found = [one async for one in heard_in(source, source.head)]
    assert all(one.said.audio for one in found if isinstance(one.said, AppendAudio))
    assert found[0].id == EntryId(1, 0)


def test_an_attachment_counts_by_the_id_of_its_entry() -> None:
    body = pack_input(SocketAttached(generation=1, gateway="g"), 5).body
    heard = heard_of(Entry(EntryId(4, 0), body))
    assert isinstance(heard.said, SocketAttached) and heard.said.generation == 4


def test_what_cannot_be_read_is_a_refusal_and_what_has_expired_an_error() -> None:
    assert isinstance(heard_of(Entry(EntryId(1, 3), b"?")).said, RefuseCommand)
    append = pack_input(AppendAudio(audio=b"\0\0"), 0)
    with pytest.raises(ToolError, match="has expired"):
        heard_of(Entry(EntryId(1, 3), append.body))
