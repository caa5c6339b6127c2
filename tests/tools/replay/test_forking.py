"""A copy of a session has ids of its own, and none of the original's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgpack
import pytest

from duplex_es.protocol import mint_item_id, mint_response_id
from duplex_es.reading.dxlog import FileSource
from duplex_es.tools.errors import ToolError
from duplex_es.tools.replay.forking import copy_at

pytestmark = pytest.mark.unit

CORPUS = Path(__file__).resolve().parents[2] / "corpus"


async def test_every_id_that_the_session_minted_is_minted_anew() -> None:
    with FileSource(CORPUS / "tool_call.dxlog") as source:
        copy = await copy_at(source, source.head, 40, "another")
        bodies = b"".join(entry.body for entry in (*copy.input[:-1], *copy.output)) + (copy.head.opening or b"")
        for number in (1, 2):
            assert mint_response_id("tool_call", 0, number).encode() not in bodies
            assert mint_item_id("tool_call", 0, number).encode() not in bodies
            assert mint_response_id("another", 0, number).encode() in bodies
        assert b"call_weather" in bodies  # The model's own.
        kept = [entry.audio for entry in source.entries("output") if entry.id.number <= 40]
        assert [entry.audio for entry in copy.output] == kept


async def test_its_input_ends_with_where_it_comes_from() -> None:
    with FileSource(CORPUS / "tool_call.dxlog") as source:
        copy = await copy_at(source, source.head, 40, "another", at_ms=77)
    last = msgpack.unpackb(copy.input[-1].body)
    assert last["said"] == {"type": "duplex_es.forked", "session_id": "tool_call", "incarnation": 0, "seq": 40}
    assert last["at_ms"] == 77
    assert copy.input[-1].id.number == copy.consumed.number + 1
    assert (copy.head.state, copy.head.attached, copy.head.acknowledged_seq) == ("waiting", False, 0)


async def test_a_seq_inside_a_decision_says_how_many_frames_are_made_again() -> None:
    with FileSource(CORPUS / "tool_call.dxlog") as source:
        ends = [msgpack.unpackb(entry.body)["more"] for entry in source.entries("output")]
        for seq in (3, 4, 5, 6):
            assert (await copy_at(source, source.head, seq, "another")).cut == ends[seq - 1]


@pytest.mark.parametrize(("seq", "words"), [(52, "was over at seq 52"), (0, "had not begun"), (53, "no seq 53")])
async def test_only_an_open_session_can_be_forked(seq: int, words: str) -> None:
    with FileSource(CORPUS / "tool_call.dxlog") as source, pytest.raises(ToolError, match=words):
        await copy_at(source, source.head, seq, "another")


async def test_a_session_whose_beginning_is_gone_is_forked_from_its_snapshot() -> None:
    """Records before the newest snapshot are no more: the copy begins where the original does."""
    with FileSource(CORPUS / "long_call.dxlog") as source:
        seq, _ = (await source.snapshots(source.head))[0]
        head = dataclasses.replace(source.head, first_seq=seq + 1)
        whole = [entry async for entry in source.output(head, seq)]

        class Trimmed:
            name = "trimmed"

            def __getattr__(self, name: str) -> object:
                return getattr(source, name)

            def output(self, head: object, after_seq: int = 0, *, audio: bool = False) -> object:
                return source.output(head, max(seq, after_seq), audio=audio)  # type: ignore[arg-type]

        copy = await copy_at(Trimmed(), head, seq + 20, "another")  # type: ignore[arg-type]
        assert [entry.id for entry in copy.output] == [entry.id for entry in whole[:20]]
        assert [at for at, _ in copy.snapshots] == [seq]
        with pytest.raises(ToolError, match=r"cannot be reached|are gone"):
            await copy_at(Trimmed(), head, seq - 1, "another")  # type: ignore[arg-type]
