"""Recorded calls that are open for reading, in a gateway that holds live ones.

Reading goes second: it gives way after each millisecond of its own, only a few read at the same time, and what takes
long in one piece is done in a thread. What was read stays on the shelf for a while, so that a page that asks for the
next tile of a call, or follows it, costs only what is new.
"""

from __future__ import annotations

import asyncio
import gzip
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duplex_es.log.api import START, Entry, EntryId, Head, SessionRef
from duplex_es.reading.calls import Call
from duplex_es.reading.notes import Note
from duplex_es.reading.source import Source
from duplex_es.timeline.builder import TimelineBuilder, position_of, rate_of
from duplex_es.timeline.document import encoded
from duplex_es.timeline.peaks import Tile
from duplex_es.timeline.sound import LANES, Placed, Window, lane_of, sounds, within

from .archived import life_of

SLICE_S = 0.001
KEPT = 4
KEPT_S = 600.0
KEPT_TILES = 2_000
READERS = 2
WAITING = 32


class Busy(Exception):
    """Too many read at the same time; come again."""


class Unhurried:
    """A source whose reader gives way to everything else after each millisecond."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.name = source.name
        self._since = time.perf_counter()

    async def _give_way(self) -> None:
        if time.perf_counter() - self._since >= SLICE_S:
            await asyncio.sleep(0)
            self._since = time.perf_counter()

    async def sessions(self) -> list[Head]:
        """See ``Source``."""
        return await self._source.sessions()

    async def find(self, session: str | None) -> Head:
        """See ``Source``."""
        return await self._source.find(session)

    async def input(self, head: Head, after: EntryId = START, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        async for entry in self._source.input(head, after, audio=audio):
            yield entry
            await self._give_way()

    async def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        async for entry in self._source.output(head, after_seq, audio=audio):
            yield entry
            await self._give_way()

    async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
        """See ``Source``."""
        return await self._source.snapshots(head)

    async def notes_on(self, session_id: str) -> list[Note]:
        """See ``Source``."""
        return await self._source.notes_on(session_id)

    async def note(self, note: Note) -> None:
        """See ``Source``."""
        await self._source.note(note)

    async def broken(self, head: Head) -> str | None:
        """See ``Source``."""
        return await self._source.broken(head)


class OpenCall:
    """One call on the shelf, read as far as its head. ``notes`` is how many there were of it: one may be an erasure."""

    def __init__(self, source: Source, notes: int = 0) -> None:
        self._source = source
        self.notes = notes
        self.used_s = time.monotonic()
        self._builder = TimelineBuilder()
        self._position = ""
        self._lanes: dict[str, list[Placed]] = {}
        self._tiles: OrderedDict[tuple[str, int, int, str], bytes] = OrderedDict()
        self.call: Call
        self.document = b""
        self.lock = asyncio.Lock()

    @property
    def position(self) -> str:
        """How far it was read."""
        return self._position

    async def read(self, head: Head) -> None:
        """Read on to ``head``; nothing is done when there is nothing new. Under ``lock``."""
        if self._position == position_of(head):
            return
        await self._builder.read(self._source, head)
        self.call, self.document, self._lanes = await asyncio.to_thread(self._made, head)
        self._position = position_of(head)

    def _made(self, head: Head) -> tuple[Call, bytes, dict[str, list[Placed]]]:
        call = self._builder.call(head)
        lanes = {name: lane_of(call, name) for name in LANES}
        return call, gzip.compress(encoded(self._builder.document(head, call)), 5), lanes

    def lane(self, name: str) -> list[Placed]:
        """The pieces of a lane of sound. Raises: ValueError for a lane that there is not."""
        if name not in self._lanes:
            raise ValueError(f"must be one of {', '.join(LANES)}, not {name!r}")
        return self._lanes[name]

    async def tile(self, lane: str, level: int, number: int) -> bytes:
        """The bins of one tile of peaks. Under ``lock``. Raises: ValueError."""
        key = (lane, level, number, "" if self.call.head.state == "closed" else self._position)
        if (known := self._tiles.get(key)) is not None:
            self._tiles.move_to_end(key)
            return known
        tile = Tile(level, number)
        places = within(self.lane(lane), tile.begin_ms, tile.end_ms)
        async for placed, samples in sounds(self._source, self.call, lane, places):
            tile.add(placed.begin_ms, placed.piece.rate_hz, samples)
        self._tiles[key] = made = bytes(tile.bins)
        if len(self._tiles) > KEPT_TILES:
            self._tiles.popitem(last=False)
        return made

    async def wav(self, lane: str, from_ms: int, to_ms: int) -> bytes:
        """A window of a lane as a WAV. Under ``lock``. Raises: ValueError."""
        places = self.lane(lane)
        window = Window(from_ms, to_ms, rate_of(placed.piece for placed in places))
        async for placed, samples in sounds(self._source, self.call, lane, within(places, from_ms, to_ms)):
            window.put(placed.begin_ms, placed.piece.rate_hz, samples)
        return window.wav()


class Shelf:
    """The calls that were read last."""

    def __init__(self, source: Source) -> None:
        self.source = Unhurried(source)
        self._calls: OrderedDict[tuple[SessionRef, int], OpenCall] = OrderedDict()
        self._readers = asyncio.Semaphore(READERS)
        self._waiting = 0

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """A place among those who read. Raises: Busy when too many wait for one."""
        if self._waiting >= WAITING:
            raise Busy
        self._waiting += 1
        try:
            await self._readers.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._readers.release()

    async def document(self, head: Head) -> bytes | None:
        """The document as of ``head``, in gzip, if it is at hand: without waiting for whoever reads the call."""
        call = self._kept(head, len(await self.source.notes_on(head.ref.session_id)))
        return call.document if call is not None and call.position == position_of(head) else None

    def _kept(self, head: Head, notes: int) -> OpenCall | None:
        """The call if it is on the shelf. One of which something was erased since is not, nor what nobody asks for."""
        now_s = time.monotonic()
        for life, call in list(self._calls.items()):
            if now_s - call.used_s > KEPT_S or (life == life_of(head) and call.notes != notes):
                del self._calls[life]
        return self._calls.get(life_of(head))

    @asynccontextmanager
    async def opened(self, head: Head) -> AsyncIterator[OpenCall]:
        """The call, read as far as ``head``, for one reader at a time. Raises: Busy, and as reading does."""
        notes = len(await self.source.notes_on(head.ref.session_id))
        call = self._kept(head, notes) or OpenCall(self.source, notes)
        life = life_of(head)
        self._calls[life] = call
        self._calls.move_to_end(life)
        call.used_s = time.monotonic()
        if len(self._calls) > KEPT:
            self._calls.popitem(last=False)
        async with call.lock, self.reading():
            try:
                await call.read(head)
            except BaseException:
                # Read halfway it would take records twice.
                if self._calls.get(life) is call:
                    del self._calls[life]
                raise
            yield call
