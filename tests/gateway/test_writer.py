"""Indexes of input records: consecutive, from 1, never used for two things."""

from __future__ import annotations

import time

import pytest

from duplex_es.log.api import START, Attachment
from duplex_es.log.errors import LogUnavailable
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import AppendAudio, AppendText, Heartbeat, SocketDetached, unpack_input
from gateway.writer import InputWriter, record_of

pytestmark = pytest.mark.unit


async def attached(log: MemoryLog) -> Attachment:
    """A fresh session's attachment."""
    ref = await log.next_incarnation("mine")
    return await log.create(ref, model="m", token_digest=b"", gateway="g", record=b"")


def test_a_record_says_when_it_was_heard_and_keeps_audio_beside_it() -> None:
    record = record_of(AppendAudio(audio=b"pcm"))
    assert record.audio == b"pcm"
    assert b"pcm" not in record.body
    assert abs(unpack_input(record.body).at_ms - time.time() * 1000) < 5000


async def test_records_are_numbered_from_one_and_the_detach_comes_last(log: MemoryLog) -> None:
    attachment = await attached(log)
    writer = InputWriter(log, attachment)
    await writer.say(AppendText(text="a"), AppendText(text="b"))
    await writer.say(Heartbeat())
    await writer.detach("test")
    entries = await log.read_input(attachment.ref, START)
    assert [str(entry.id) for entry in entries] == ["1-0", "1-1", "1-2", "1-3", "1-4"]
    assert unpack_input(entries[-1].body).said == SocketDetached(generation=1, reason="test")


async def test_indexes_of_a_write_that_failed_are_not_used_again(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = InputWriter(log, await attached(log))
    firsts: list[int] = []

    async def unreachable(attachment: Attachment, first_index: int, records: object) -> None:
        firsts.append(first_index)
        raise LogUnavailable("no answer")

    monkeypatch.setattr(log, "append_input", unreachable)
    for _ in range(2):
        with pytest.raises(LogUnavailable):
            await writer.say(Heartbeat(), Heartbeat())
    assert firsts == [1, 3]
