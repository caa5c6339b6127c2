"""Reading stored entries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

import duplex_es.log
from duplex_es.log.api import Entry, EntryId
from duplex_es.log.connections import Command, Reply
from duplex_es.log.errors import LogError
from duplex_es.log.keys import StreamKeys
from duplex_es.log.reading import read_after, read_before

pytestmark = pytest.mark.unit

STREAM = StreamKeys("records", "audio")
FOLDER = Path(duplex_es.log.__file__).parent


class Store:
    def __init__(self, records: list[Reply] | ResponseError, audio: list[Reply]) -> None:
        self.streams: dict[object, Reply] = {"records": records, "audio": audio}
        self.sent: list[Command] = []
        self.pipelines = 0

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        self.sent += commands
        self.pipelines += 1
        return [self.streams[command[1]] for command in commands]


RECORDS: list[Reply] = [[b"7-41", [b"m", b"a"]], [b"8-0", [b"m", b"c"]], [b"8-42", [b"m", b"b"]]]


async def test_audio_is_put_beside_its_record() -> None:
    store = Store(RECORDS, [[b"8-42", [b"b", b"pcm"]]])
    assert await read_after(store.exchange, STREAM, EntryId(7, 40), 10, audio=True) == [
        Entry(EntryId(7, 41), b"a"),
        Entry(EntryId(8, 0), b"c"),
        Entry(EntryId(8, 42), b"b", b"pcm"),
    ]
    assert store.sent == [
        ("XRANGE", "records", "(7-40", "+", "COUNT", 10),
        ("XRANGE", "audio", "(7-40", "+", "COUNT", 10),
    ]
    assert store.pipelines == 1, "a store that restarts in between must not give the one without the other"


async def test_audio_is_not_moved_when_nobody_wants_it() -> None:
    store = Store(RECORDS, [])
    assert len(await read_after(store.exchange, STREAM, EntryId(7, 40), 10, audio=False)) == 3
    assert len(store.sent) == 1


async def test_audio_of_records_that_were_not_read_is_left_out() -> None:
    store = Store(RECORDS[:1], [[b"7-41", [b"b", b"pcm"]], [b"8-42", [b"b", b"later"]]])
    assert await read_after(store.exchange, STREAM, EntryId(7, 40), 1, audio=True) == [
        Entry(EntryId(7, 41), b"a", b"pcm")
    ]


async def test_nothing_there_is_nothing_read() -> None:
    assert await read_after(Store([], []).exchange, STREAM, EntryId(7, 40), 10, audio=True) == []


async def test_backwards_is_one_question_from_the_end_or_from_an_entry() -> None:
    store = Store(RECORDS[::-1], [])
    assert [str(entry.id) for entry in await read_before(store.exchange, STREAM, None, 10)] == ["8-42", "8-0", "7-41"]
    await read_before(store.exchange, STREAM, EntryId(8, 0), 5)
    assert store.sent == [
        ("XREVRANGE", "records", "+", "-", "COUNT", 10),
        ("XREVRANGE", "records", "(8-0", "-", "COUNT", 5),
    ]


async def test_an_error_reply_is_raised() -> None:
    with pytest.raises(LogError):
        await read_after(Store(ResponseError("WRONGTYPE"), []).exchange, STREAM, EntryId(0, 0), 1, audio=True)


@pytest.mark.parametrize("path", sorted([*FOLDER.glob("*.py"), *FOLDER.glob("lua/*.lua")]), ids=lambda p: p.name)
def test_no_stream_is_read_from_wherever_it_ends_just_now(path: Path) -> None:  # E9, E19
    # '$' as a position loses what is appended between two reads; so does a blocking read that is made anew.
    text = path.read_text()
    assert not re.search(r"""["']\$["']""", text)
    assert not re.search(r"\bXREAD(GROUP)?\b", text)
