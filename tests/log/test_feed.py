"""Iteration that survives a cancelled step."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.api import START, Ended, Entry, EntryId
from duplex_es.log.feed import Feed

pytestmark = pytest.mark.unit


class Scripted(Feed):
    """Gives out what is put into its queue; ``None`` is the end."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: asyncio.Queue[Entry | None] = asyncio.Queue()

    async def _advance(self) -> None:
        entry = await self.queue.get()
        if entry is None:
            self._finished = True
            self._pending.append(Ended("over"))
        else:
            self._pending.append(entry)


async def test_nothing_comes_before_the_start() -> None:
    feed = Scripted()
    feed.queue.put_nowait(Entry(EntryId(1, 1), b"a"))
    step = asyncio.ensure_future(anext(feed))
    await asyncio.sleep(0.01)
    assert not step.done()
    feed.start(START)
    assert (await step).id == EntryId(1, 1)


async def test_a_cancelled_step_is_simply_taken_again() -> None:
    feed = Scripted()
    feed.start(START)
    for number in range(1, 4):
        step = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        feed.queue.put_nowait(Entry(EntryId(1, number), b""))
        assert (await anext(feed)).id.number == number


async def test_the_last_item_comes_before_the_end_and_the_end_stays() -> None:
    feed = Scripted()
    feed.start(START)
    feed.queue.put_nowait(None)
    assert [item async for item in feed] == [Ended("over")]
    assert [item async for item in feed] == []
