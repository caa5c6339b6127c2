"""Sessions under load, while their store is turned upside down; afterwards everything is counted."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duplex_es.log import keys
from duplex_es.log.api import START, Attachment, Claim, Entry, Record
from duplex_es.log.redis import RedisLog
from duplex_es.testing.log_stage import LogStage, eventually

PAUSE_S = 0.005
LIMIT = 1_000_000


class Traffic:
    """Writers of both streams of some sessions over one log, and their followers over another.

    ``worst_s`` is the longest that any append took since it was last set to 0.
    """

    def __init__(self, log: RedisLog, reader: RedisLog, pairs: list[tuple[Attachment, Claim]]) -> None:
        self.log, self.reader, self.pairs = log, reader, pairs
        self.worst_s = 0.0
        self.wrote = [0] * len(pairs)
        self._going = True
        self._heard: list[list[Entry]] = [[] for _ in pairs]
        self._said: list[list[Entry]] = [[] for _ in pairs]
        self._writing: list[asyncio.Task[None]] = []
        self._listening: list[asyncio.Task[None]] = []

    @property
    def slots(self) -> list[int]:
        """The cluster slot of each session."""
        return [keys.slot(keys.head(claim.ref.session_id)) for _, claim in self.pairs]

    def start(self) -> None:
        """Write and listen from now on."""
        for n in range(len(self.pairs)):
            self._listening += [asyncio.create_task(self._hear(n)), asyncio.create_task(self._listen(n))]
            self._writing.append(asyncio.create_task(self._write(n)))

    async def _write(self, n: int) -> None:
        attachment, claim = self.pairs[n]
        while self._going:
            number, began_s = self.wrote[n] + 1, time.monotonic()
            await asyncio.gather(
                self.log.append_output(claim, number, [Record(b"o%d" % number, b"pcm%d" % number)]),
                self.log.append_input(attachment, number, [Record(b"i%d" % number)]),
            )
            self.wrote[n] = number
            self.worst_s = max(self.worst_s, time.monotonic() - began_s)
            await asyncio.sleep(PAUSE_S)

    async def _hear(self, n: int) -> None:
        async with self.reader.follow_output(self.pairs[n][1].ref) as follower:
            follower.start(START)
            async for item in follower:
                if isinstance(item, Entry):
                    self._heard[n].append(item)

    async def _listen(self, n: int) -> None:
        async with self.reader.follow_input(self.pairs[n][1].ref) as follower:
            follower.start(START)
            async for item in follower:
                if isinstance(item, Entry) and item.id.number:
                    self._said[n].append(item)

    async def goes_on(self) -> None:
        """Return once every session has had a few more appends."""
        goals = [number + 5 for number in self.wrote]

        async def behind() -> list[int]:
            for task in self._writing:
                if task.done():
                    task.result()
            return [n for n, goal in enumerate(goals) if self.wrote[n] < goal]

        await eventually(behind, lambda found: not found)

    async def settle(self) -> None:
        """Stop writing; then nothing may be lost, doubled or out of order, in the log and with those who follow it."""
        self._going = False
        await asyncio.gather(*self._writing)
        for n, (attachment, claim) in enumerate(self.pairs):
            numbers = range(1, self.wrote[n] + 1)
            stored = await self.reader.read_output(claim.ref, 0, limit=LIMIT)
            assert [(e.id.number, e.body, e.audio) for e in stored] == [(k, b"o%d" % k, b"pcm%d" % k) for k in numbers]
            said = [e for e in await self.reader.read_input(attachment.ref, START, limit=LIMIT) if e.id.number]
            assert [(e.id.number, e.body) for e in said] == [(k, b"i%d" % k) for k in numbers]

            async def lengths(n: int = n) -> tuple[int, int]:
                return len(self._heard[n]), len(self._said[n])

            await eventually(lengths, lambda found, n=n: min(found) >= self.wrote[n])
            assert (self._heard[n], self._said[n]) == (stored, said)

    async def stop(self) -> None:
        """Let go of everything."""
        for task in (*self._writing, *self._listening):
            task.cancel()
        await asyncio.gather(*self._writing, *self._listening, return_exceptions=True)


@asynccontextmanager
async def traffic(log: RedisLog, reader: RedisLog, sessions: int = 6) -> AsyncIterator[Traffic]:
    """That many sessions, busy from now on."""
    model = f"model-{uuid.uuid4().hex}"  # nobody else's sessions, whose leases may run out meanwhile
    pairs = [await LogStage.claimed(log, model) for _ in range(sessions)]
    made = Traffic(log, reader, pairs)
    made.start()
    try:
        await made.goes_on()
        yield made
    finally:
        await made.stop()
