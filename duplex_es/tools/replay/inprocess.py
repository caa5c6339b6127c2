"""A recorded call carried out again by a model in this process: the real core and worker, a log in memory, no servers.

As long as the model does what was recorded, everything is decided in the recorded order and at the recorded times,
whatever the pace of this machine (``Guided``). From the first difference on, or from the start for another model, it is
a call of its own: what the caller said comes at its time, the model takes its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Protocol

import msgspec

from ...log.api import START, Entry, EntryId, Head
from ...log.forking import begin_from
from ...log.memory import MemoryLog
from ...log.memory_session import MemorySession
from ...model import (
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelHeardWords,
    ModelInterrupted,
    ModelMeasured,
    Signal,
)
from ...protocol import SocketAttached, SocketDetached, pack_input
from ...reading.source import LiveSource, Source
from ...session.inputs import TimerFired, WorkerTookOver
from ...session.state import Session
from ..errors import ToolError
from .forking import Copy
from .pace import Cue, Pace, Tell, cues_in
from .recording import Heard, heard_in
from .reexecution import Divergence, Step, remade

GROUP = "duplex_es.hosts"
PATIENCE_S = 20.0
"""How long the model may take for what it did at once when it was recorded."""
QUIET_S = 1.0
"""Nothing more is expected of a model that is silent for so long, unless it owes an answer at the end."""


HEARING = (ModelHeardSpeech, ModelHeardSpeechEnd, ModelHeardTurn, ModelHeardWords, ModelInterrupted)
"""What a model reports of the caller, in an order of its own beside what it says."""


class Host(Protocol):
    """The worker's half, from whatever package offers one: see ``workers.replaying``."""

    @property
    def model_name(self) -> str: ...

    @property
    def session(self) -> Session: ...

    @property
    def has_ended(self) -> bool: ...

    async def load(self) -> None: ...

    async def serve(self, worker: str, max_session_s: float | None = None) -> None: ...

    async def settle(self, heard: EntryId = START) -> None: ...

    async def release(self, hears: bool, within_s: float) -> bool: ...

    async def tell(self, signal: Signal) -> None: ...

    async def fire(self, timer: str) -> None: ...

    async def lose_socket(self, generation: int) -> None: ...

    def let_go(self) -> None: ...

    async def close(self) -> None: ...


def make_host(log: MemoryLog, model: str, options: Mapping[str, str], clock_ms: Callable[[], int]) -> Host:
    """A host with the plug-in of this name. Raises: ToolError when it, or a host, is not installed."""
    found = next(iter(entry_points(group=GROUP)), None)
    if found is None:
        raise ToolError("a model in this process needs the worker: install duplex-es[worker]")
    try:
        host: Host = found.load()(log, model, options, clock_ms)
    except ImportError as error:
        raise ToolError(f"the model {model!r} cannot be loaded: {error}") from error
    except Exception as error:
        raise ToolError(str(error)) from error
    return host


@dataclass(slots=True)
class Played:
    """What came of it: where the new call lies, and where it parted from the recorded one.

    So many ``decisions`` came out as recorded; ``None`` for a call that was to go its own way.
    """

    source: LiveSource
    head: Head
    decisions: int | None
    divergence: Divergence | None = None


class Clock:
    """Unix milliseconds as the recording has them; once ``runs``, they pass by themselves."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._since: tuple[float, float] | None = None

    def runs(self, speed: float) -> None:
        """Time passes from here on, ``speed`` times as fast as here."""
        self._since = (asyncio.get_running_loop().time(), speed)

    def __call__(self) -> int:
        """Now."""
        if self._since is None:
            return self.now_ms
        begun_s, speed = self._since
        return self.now_ms + int((asyncio.get_running_loop().time() - begun_s) * 1000 * speed)


class InProcess:
    """One replay of ``head``'s session by the model of this name."""

    def __init__(self, source: Source, head: Head, model: str, options: Mapping[str, str]) -> None:
        """Raises: as ``make_host``."""
        self._source, self._head = source, head
        self._clock = Clock()
        self._log = MemoryLog()
        self._host = make_host(self._log, model, options, self._clock)
        self._session = MemorySession(head.ref, head.model, b"")
        self._workers = 0
        self._last = START
        self._missing = 0

    async def run(self, pace: Pace, tell: Tell, *, only_alike: bool) -> Played:
        """Carry it out; ``only_alike``: not beyond the first difference. Raises: ToolError."""
        async with self._loaded():
            self._session.model = self._host.model_name
            decisions, divergence = await self._guided(pace, tell)
            if divergence is not None and not only_alike:
                rest = cues_in(self._source, self._head, self._last)
                await self._free(pace, tell, rest, lambda entry: entry)
            return await self._found(decisions, divergence)

    async def run_from(self, copy: Copy, pace: Pace, tell: Tell) -> Played:
        """Go on from a copy of the session, with the model as its new owner. Raises: ToolError."""
        async with self._loaded():
            head = replace(copy.head, model=self._host.model_name)
            await begin_from(self._log, head, b"", copy.input, copy.output, copy.snapshots)
            self._session = self._log.session_of(head.ref)
            self._clock.now_ms = copy.at_ms
            following = _Following(copy)
            await self._serve(copy.head.fence + 1)
            await self._say(following.attachment(self._clock()))
            rest = cues_in(self._source, self._head, copy.consumed)
            await self._free(pace, tell, rest, following.entry)
            return await self._found(None, None)

    @asynccontextmanager
    async def _loaded(self) -> AsyncIterator[None]:
        try:
            await self._host.load()
        except Exception as error:
            raise ToolError(f"the model cannot be loaded: {error}") from error
        try:
            yield
        finally:
            await self._host.close()

    # -- as recorded -----------------------------------------------------------------------------------------------

    async def _guided(self, pace: Pace, tell: Tell) -> tuple[int, Divergence | None]:
        """Do everything in the recorded order: how many decisions came out alike, and the first that did not."""
        inputs = heard_in(self._source, self._head)
        decisions = 0
        async for one in remade(self._source, self._head):
            if isinstance(one, int):
                break
            if isinstance(one, Divergence):
                return decisions, one
            for step in one.steps:
                name = f"{step.entry or one.recorded.first}  {type(step.parts[0]).__name__}"
                await pace.wait(step.at_ms, name, tell)
                self._clock.now_ms = step.at_ms
                words = await self._do(step, inputs)
                if words is not None:
                    first = one.recorded.first
                    return decisions, Divergence(f"output {first}", first.number, name, words)
            decisions += 1
        return decisions, None

    async def _do(self, step: Step, inputs: AsyncIterator[Heard]) -> str | None:
        """Bring one step about; in words what happened instead."""
        match step.parts[0]:
            case _ if step.entry is not None:
                await self._say((await anext(inputs)).entry)
                await self._host.settle(step.entry)
            case WorkerTookOver(fence=fence):
                await self._serve(fence)
                await self._host.settle()
            case TimerFired(name=name):
                await self._host.fire(name)
            case SocketDetached(generation=generation):
                await self._host.lose_socket(generation)
            case ModelMeasured() as measured:
                await self._host.tell(measured)
            case cause:
                return await self._report(step, isinstance(cause, HEARING))
        return _difference(self._host.session, step.session)

    async def _report(self, step: Step, hears: bool) -> str | None:
        """Let the model report until something comes of it."""
        before, seq = self._host.session, self._session.last_seq
        while self._session.last_seq == seq and self._host.session == before:
            if not await self._host.release(hears, PATIENCE_S):
                return "the model reports nothing more"
        return _difference(self._host.session, step.session)

    async def _say(self, entry: Entry) -> None:
        session = self._session
        session.add_input(entry)
        session.generation = max(session.generation, entry.id.generation)
        session.changed()
        self._last = entry.id
        if not self._workers:
            self._log.adopt(session, None)
            await self._serve(1)

    async def _serve(self, fence: int) -> None:
        self._workers += 1
        self._session.fence = max(self._session.fence, fence - 1)
        await self._host.serve(f"replay-{self._workers}")

    # -- on its own ------------------------------------------------------------------------------------------------

    async def _free(
        self, pace: Pace, tell: Tell, cues: AsyncIterator[Cue], renamed: Callable[[Entry], Entry]
    ) -> None:
        """Say the rest at its own time, and hear the model out."""
        self._clock.runs(pace.speed or 1.0)
        self._host.let_go()
        pace.began_s = None
        async for cue in cues:
            if self._host.has_ended:
                return
            await pace.wait(cue.heard.at_ms, cue.name, tell)
            if pace.steps or not pace.speed:
                await self._heed(cue.after_seq)
            await self._say(renamed(cue.heard.entry))
        await self._heard_out()

    async def _heed(self, seq: int) -> None:
        """Without a clock the caller waits for what it had heard by then, as long as there is more to come."""
        loop = asyncio.get_running_loop()
        await self._host.settle(self._last)
        heard, since_s = self._session.last_seq, loop.time()
        while heard < seq - self._missing and not self._host.has_ended and loop.time() - since_s < QUIET_S:
            await asyncio.sleep(0.002)
            if self._session.last_seq != heard:
                heard, since_s = self._session.last_seq, loop.time()
        self._missing = max(self._missing, seq - heard)

    async def _heard_out(self) -> None:
        """Return when the session is over, or has been silent for a while."""
        loop = asyncio.get_running_loop()
        seq, since_s, patience_s = -1, loop.time(), QUIET_S
        while not self._host.has_ended and loop.time() - since_s < patience_s:
            if self._session.last_seq != seq:
                seq, since_s = self._session.last_seq, loop.time()
            patience_s = QUIET_S if self._host.session.is_at_rest else PATIENCE_S
            await asyncio.sleep(0.02)

    async def _found(self, decisions: int | None, divergence: Divergence | None) -> Played:
        played = LiveSource(self._log, "memory://")
        return Played(played, await played.find(self._session.ref.session_id), decisions, divergence)


class _Following:
    """What was said after a session was copied, as the next things said in the copy, by a client that has come back."""

    def __init__(self, copy: Copy) -> None:
        self._anew = copy.anew
        self._last = EntryId(copy.head.input.generation + 1, 0)

    def attachment(self, at_ms: int) -> Entry:
        """The record of the client that takes the copy up."""
        attached = SocketAttached(generation=self._last.generation, gateway="replay")
        return Entry(self._last, pack_input(attached, at_ms).body)

    def entry(self, entry: Entry) -> Entry:
        """The next one; another attachment begins anew, as it did."""
        begins = entry.id.number == 0
        last = self._last
        self._last = EntryId(last.generation + begins, 0 if begins else last.number + 1)
        return self._anew.said(Entry(self._last, entry.body, entry.audio))


def _difference(now: object, recorded: object, path: str = "the state") -> str | None:
    """The first place in which two states are not the same, in words."""
    if now == recorded:
        return None
    if type(now) is type(recorded) and isinstance(now, msgspec.Struct):
        fields = [(name, getattr(now, name), getattr(recorded, name)) for name in now.__struct_fields__]
    elif isinstance(now, tuple) and isinstance(recorded, tuple) and len(now) == len(recorded):
        fields = [(str(at), *pair) for at, pair in enumerate(zip(now, recorded, strict=True))]
    else:
        return f"{path} is {str(now)[:120]}, recorded {str(recorded)[:120]}"
    name, one, two = next(field for field in fields if field[1] != field[2])
    return _difference(one, two, name if path == "the state" else f"{path}.{name}")
