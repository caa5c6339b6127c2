"""When to say the next thing again: by the recorded clock, faster, or one by one."""

from __future__ import annotations

import asyncio
import bisect
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...log.api import START, EntryId, Head
from ...protocol.records import RecordUnreadable, unpack_output
from ...reading.source import Source
from .recording import Heard, heard_in

Tell = Callable[[str], None]


class Cue(NamedTuple):
    """One thing that was said. ``after_seq`` is the last frame that had been decided by then."""

    heard: Heard
    after_seq: int

    @property
    def name(self) -> str:
        """What it is, for whoever steps through it."""
        return f"{self.heard.id}  {type(self.heard.said).__name__}"


async def cues_in(source: Source, head: Head, after: EntryId = START) -> AsyncIterator[Cue]:
    """What was said above ``after``, in order."""
    times: list[int] = []
    async for entry in source.output(head):
        try:
            at_ms = unpack_output(entry.body).at_ms
        except RecordUnreadable:
            at_ms = 0
        times.append(max(at_ms, times[-1] if times else 0))
    async for heard in heard_in(source, head, after):
        yield Cue(heard, head.first_seq - 1 + bisect.bisect_left(times, heard.at_ms))


@dataclass(slots=True)
class Pace:
    """``speed`` 2 says everything twice as fast; 0 waits for nothing but frames. ``steps``: one thing at a time.

    On a terminal a step waits for Enter; elsewhere for what was recorded before the next thing was said.
    """

    speed: float = 1.0
    steps: bool = False
    asks: bool = False
    began_s: float | None = None
    from_ms: int = 0

    async def wait(self, at_ms: int, name: str, tell: Tell) -> None:
        """Return when what was recorded at ``at_ms`` is due by the clock, or by the person who steps."""
        loop = asyncio.get_running_loop()
        if self.steps:
            tell(name)
            if self.asks:
                await asyncio.to_thread(sys.stdin.readline)
            return
        if self.began_s is None:
            self.began_s, self.from_ms = loop.time(), at_ms
        if self.speed > 0 and at_ms:
            due_s = self.began_s + (at_ms - self.from_ms) / 1000 / self.speed
            await asyncio.sleep(max(0.0, due_s - loop.time()))

    def delayed_by(self, seconds: float) -> None:
        """What follows is due so much later: something took longer than when it was recorded."""
        if self.began_s is not None:
            self.began_s += seconds


