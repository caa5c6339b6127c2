"""The memory log's reader; what every follower promises: tests/conformance."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.api import START, AttachmentRaised, Ended, EntryId, Opened, Record
from duplex_es.log.errors import PositionGone
from duplex_es.log.memory import MemoryLog
from duplex_es.testing.log_stage import LogStage, ids, take, take_until_end

pytestmark = pytest.mark.unit


async def test_notices_come_before_the_entries_that_are_there() -> None:
    log = MemoryLog()
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.checkpoint(claim, b"", opening=b"answer")
    await log.append_output(claim, 1, [Record(b"1")])
    await log.close(claim, "done")
    async with log.follow_output(attachment.ref) as follower:
        follower.start(START)
        news = await take_until_end(follower)
    assert news[:2] == [Opened(b"answer"), AttachmentRaised(1)]
    assert ids(news[2:]) == ["1-0", "1-1", "Ended"][1:]
    assert news[-1] == Ended("done")


async def test_nothing_is_read_before_the_start() -> None:
    log = MemoryLog()
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_output(claim, 1, [Record(b"1")])
    async with log.follow_output(attachment.ref) as follower:
        step = asyncio.ensure_future(take(follower, 1))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not step.done()
        follower.start(EntryId(1, 0))
        assert ids(await step) == ["1-1"]


async def test_a_position_that_was_trimmed_under_a_reader_is_told() -> None:
    log = MemoryLog()
    attachment, claim = await LogStage.claimed(log, "echo")
    await log.append_output(claim, 1, [Record(b"1"), Record(b"2")])
    async with log.follow_output(attachment.ref) as follower, log.follow_input(attachment.ref) as listener:
        follower.start(START)
        listener.start(START)
        assert ids(await take(follower, 2)) == ["1-1", "1-2"]
        await log.append_output(claim, 3, [Record(b"3"), Record(b"4")])
        await log.append_input(attachment, 1, [Record(b"a"), Record(b"b")])
        await log.trim_history(claim, input_before=EntryId(1, 2), output_before=4)
        for reader in (follower, listener):
            with pytest.raises(PositionGone):
                await take(reader, 1)
