"""Hours of a call in seconds: a real actor on a real log, and a wall clock that a test moves on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgpack

from duplex_es.log.api import Entry, SessionLog
from duplex_es.protocol import CommitInput
from duplex_es.protocol.records import SocketAttached, pack_input
from tests.support.calls import Caller, pcm16, until
from workers.actor import Actor
from workers.models.scripted import ScriptedModel
from workers.retention import Limits

APPEND_MS = 200
SPOKEN = pcm16(APPEND_MS)
SCRIPT = (
    '[{"on": "end_turn", "every": true, "transcript": "and then", "do": '
    '[{"audio_ms": %d, "pace": "fast", "text": "Then something else happened."}, {"finish": true}]}]'
)


class Clock:
    """Unix milliseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        """Now."""
        return self.now_ms


class LongCall:
    """One call and its worker. ``second`` lets a second of it pass: the caller is heard, the clock moves on."""

    def __init__(self, log: SessionLog, caller: Caller, clock: Clock, limits: Limits, script: str) -> None:
        self.log = log
        self.caller = caller
        self.clock = clock
        self.limits = limits
        self.answers = 0
        self._model = ScriptedModel({"lead_ms": "none", "script": script})
        self._heard_ms = 0
        self._resumed = 0
        self.actor: Actor
        self._task: asyncio.Task[None]

    @classmethod
    async def open(
        cls, log: SessionLog, limits: Limits, *, answer_ms: int = 8_000, script: str | None = None, **session: Any
    ) -> LongCall:
        """Open the session and let a worker take it. Without ``script`` each turn gets an answer of ``answer_ms``."""
        caller = await Caller.open(log, "scripted", **session)
        call = cls(log, caller, Clock(), limits, SCRIPT % answer_ms if script is None else script)
        await call.serve("w1")
        await caller.answer()
        return call

    async def serve(self, worker: str) -> None:
        """A worker takes the session, after the one before it was killed or let go of it."""
        claimed = await self.log.claim(worker, ["scripted"])
        assert claimed is not None
        self.actor = Actor(self.log, *claimed, self._model, limits=self.limits, clock_ms=self.clock)
        self._task = asyncio.create_task(self.actor.run())

    async def kill(self) -> None:
        """The worker's process is gone, and its lease has run out."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.log.release(self.actor.claim)

    async def second(self, *, heard: bool = True, is_speech: bool = True) -> None:
        """A second passes, with sound if ``heard``. Returns when the worker has taken it in."""
        if heard:
            await self.caller.append(*[SPOKEN] * (1_000 // APPEND_MS), is_speech=is_speech)
            self._heard_ms += 1_000
            await self._until(lambda: self.actor.session.input.clock.ms >= self._heard_ms)
        self.clock.now_ms += 1_000

    async def turn(self) -> None:
        """The caller commits and is answered."""
        await self.caller.say(CommitInput())
        self.answers += 1
        await self._until(lambda: self.actor.session.turn_id >= self.answers and self.actor.session.is_at_rest)

    async def _until(self, condition: Callable[[], bool]) -> None:
        await until(lambda: condition() or self._task.done())
        assert not self._task.done(), "the worker let the session go"

    async def resume(self, after_seq: int) -> list[Entry]:
        """Another socket takes the call up after a frame; returns all that it is shown then. Raises: as ``attach``."""
        self._resumed += 1
        generation = self.caller.attachment.generation + 1
        attached = SocketAttached(generation=generation, gateway="g1")
        attachment, head = await self.log.attach(
            self.caller.ref,
            presented_digest=str(self._resumed).encode(),
            next_digest=str(self._resumed + 1).encode(),
            gateway="g1",
            record=pack_input(attached, 0).body,
            after_seq=after_seq,
        )
        await self.log.confirm(attachment)
        self.caller.attachment, self.caller._index = attachment, 0
        shown: list[Entry] = []
        while (last := shown[-1].id.number if shown else after_seq) < head.output.number:
            shown += await self.log.read_output(self.caller.ref, last)
        return shown

    async def frames_since(self, at_ms: int) -> list[int]:
        """The seqs of the frames that were written at ``at_ms`` or later, as far as they can be read."""
        head = await self.log.head(self.caller.ref.session_id)
        seqs: list[int] = []
        last = head.first_seq - 1
        while entries := await self.log.read_output(self.caller.ref, last, audio=False):
            seqs += [entry.id.number for entry in entries if msgpack.unpackb(entry.body)["at_ms"] >= at_ms]
            last = entries[-1].id.number
        return seqs

    async def end(self) -> None:
        """No more of it."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def is_whole(entry: Entry) -> bool:
    """Whether a frame that has sound still has it."""
    return entry.audio is not None or msgpack.unpackb(entry.body)["frame"]["type"] != "response.output_audio.delta"
