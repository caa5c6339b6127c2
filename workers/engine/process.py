"""The worker's side of an engine: starts its process, hands over what is said, and brings back what it answers."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .contract import EngineFacts, Stepped
from .pulse import Pulse
from .standby import READ_BYTES, Child
from .starting import Starter, Ways
from .turns import TurnPiece, unpack_pieces
from .units import UnitDone, pack_unit
from .wire import Message, Unpacker, WireBroken

RECENT_TICKS = 4096

_log = logging.getLogger(__name__)


class EngineLost(Exception):
    """The engine's process is gone, or could not be started; the message says how."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The session's slot is prepared; what was fed meanwhile is stepped from now on."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The session was not opened; nothing is left of it."""

    code: str
    message: str
    param: str | None


@dataclass(frozen=True, slots=True)
class Dropped:
    """So many of the oldest frames were thrown away: the session had fallen too far behind."""

    frames: int


@dataclass(frozen=True, slots=True)
class Overfull:
    """What the session was to be informed of last was not taken: too much waits. All else goes on."""

    message: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The session is over: it could not be stepped, or its engine died. Others go on if the engine does."""

    message: str


EngineEvent = Ready | Refused | Stepped | UnitDone | TurnPiece | Dropped | Overfull | Failed
Hear = Callable[[EngineEvent], None]


@dataclass(slots=True)
class Timing:
    """What the engine said of its ticks: how many, how many late, and the last one's milliseconds of work.

    ``recent_ms`` are those from when a tick was due to when its results were out, of the last few thousand.
    """

    ticks: int = 0
    late: int = 0
    work_ms: float = 0.0
    after_ms: float = 0.0
    sessions: int = 0
    recent_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_TICKS))

    def __str__(self) -> str:
        """One line for a person."""
        ordered = sorted(self.recent_ms)
        if not ordered:
            return "no ticks"
        p50, p99 = (ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in (0.5, 0.99))
        spread = f"after due: p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {ordered[-1]:.1f} ms of the last {len(ordered)}"
        return f"{self.ticks} ticks, {self.late} late; {spread}; {self.sessions} sessions in the last one"


HearTick = Callable[[Timing, bool], None]
"""Takes the timing after a tick, and whether that tick was late."""


class EngineProcess:
    """One engine in a process of its own. ``python`` is its interpreter, ``environment`` is added to ours.

    A process that died is not started again by itself: its sessions hear ``Failed``, and ``start`` may be called anew.
    One that is loaded and does not answer any more is killed; ``pulse`` makes what notices that.
    ``ways`` says what the next one need not do again. ``starts`` counts those that led to a loaded engine;
    ``heard_tick`` is called after each tick, or unit.
    """

    def __init__(
        self,
        factory: str,
        options: Mapping[str, str],
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        ways: Ways | None = None,
        pulse: Callable[[Callable[[], None]], Pulse] = Pulse,
    ) -> None:
        self._python = python
        self._make_pulse = pulse
        self._pulse = pulse(self._ping)
        self._watching: asyncio.Task[None] | None = None
        self.starter = Starter(factory, options, python=python, environment=environment or {}, ways=ways or Ways())
        self._child: Child | None = None
        self._reading: asyncio.Task[None] | None = None
        self._sessions: dict[str, Hear] = {}
        self._facts: asyncio.Future[EngineFacts] | None = None
        self.timing = Timing()
        self.starts = 0
        self.heard_tick: HearTick = lambda timing, late: None

    async def start(self, *, timeout_s: float) -> EngineFacts:
        """Start the process and load the engine. Raises: EngineLost when that fails or takes longer."""
        try:
            self._child = child = await self.starter.next()
        except OSError as error:
            await self.stop()
            raise EngineLost(f"{self._python} cannot be started: {error}") from error
        self._facts = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(child), name="duplex-es-engine")
        try:
            async with asyncio.timeout(timeout_s):
                facts = await asyncio.shield(self._facts)
                self.starts += 1
                self.starter.loaded()
                if self.is_alive:
                    self._pulse = self._make_pulse(self._ping)
                    self._watching = asyncio.create_task(self._watch(child), name="duplex-es-engine-pulse")
                return facts
        except TimeoutError:
            await self.stop()
            raise EngineLost(f"the engine was not loaded within {timeout_s:g} s") from None
        except EngineLost:
            await self.stop()
            raise

    async def stop(self, *, patience_s: float = 5.0) -> None:
        """End the process and all that was to outlive it; sessions that are open hear nothing more. Idempotent."""
        self._sessions.clear()
        child, self._child = self._child, None
        if child is not None:
            await child.end(patience_s)
        if self._reading is not None:
            await asyncio.wait([self._reading])
        await self.starter.stop()

    @property
    def pid(self) -> int | None:
        """The number of the process, while there is one."""
        return self._child.process.pid if self._child is not None and self._child.is_running else None

    @property
    def is_alive(self) -> bool:
        """Whether the process runs, has loaded its engine and can be spoken to."""
        is_loaded = self._facts is not None and self._facts.done() and self._facts.exception() is None
        # The end of a process is seen at its socket before its status is known.
        return is_loaded and self._child is not None and self._child.can_hear and self._child.is_running

    async def ended(self) -> None:
        """Return once the process is gone and its sessions have heard so; at once if it does not run."""
        if self._reading is not None:
            await asyncio.shield(asyncio.wait([self._reading]))

    # -- sessions --------------------------------------------------------------------------------------------------

    def open(self, session: str, opening: Mapping[str, Any], hear: Hear, memory: bytes = b"") -> None:
        """Open ``session``: ``hear`` gets ``Ready`` or ``Refused``, then each step; ``memory`` as in ``FrameEngine``.

        A session of this name that is open is closed first. Raises: EngineLost.
        """
        self._say({"do": "open", "session": session, "opening": dict(opening)}, memory)
        self._sessions[session] = hear

    def feed(self, session: str, pcm: bytes) -> None:
        """Float32 samples in any number; they are cut into frames there. Unknown sessions are ignored."""
        if session in self._sessions:
            self._say({"do": "feed", "session": session}, pcm)

    def inform(self, session: str, text: str, *, told: int = 0) -> None:
        """Force ``text`` into the channel beside speech, without its first ``told`` tokens (see ``InformedEngine``).

        ``Overfull`` comes back if it was not taken. Unknown sessions are ignored.
        """
        if session in self._sessions:
            self._say({"do": "inform", "session": session, "text": text, "told": told})

    def unit(
        self, session: str, serial: int, pcm: bytes, *, frames: Sequence[bytes] = (), forced: bool = False
    ) -> None:
        """One whole unit, float32, for an engine that works in units; ``UnitDone`` comes back with its ``serial``.

        ``forced``: it must listen to it. Unknown sessions are ignored.
        """
        if session in self._sessions:
            self._say(*pack_unit(session, serial, pcm, frames, forced))

    def interrupt(self, session: str) -> None:
        """Let an engine that works in units break off the one of ``session``; those that wait it only listens to."""
        if session in self._sessions and self.is_alive:
            self._say({"do": "break", "session": session})

    def clear(self, session: str) -> None:
        """Drop what was fed and not stepped."""
        if session in self._sessions and self.is_alive:
            self._say({"do": "clear", "session": session})

    def close(self, session: str) -> None:
        """Free the session's slot. Idempotent; nothing is heard of it any more."""
        if self._sessions.pop(session, None) is not None and self.is_alive:
            self._say({"do": "close", "session": session})

    def _say(self, message: Message, blob: bytes = b"") -> None:
        if self._child is None or not self.is_alive:
            raise EngineLost("the engine's process is gone")
        self._child.say(message, blob)

    # -- whether it is there ---------------------------------------------------------------------------------------

    def _ping(self) -> None:
        if self._child is not None and self.is_alive:
            self._child.say({"do": "ping"})

    async def _watch(self, child: Child) -> None:
        await self._pulse.stopped()
        _log.error("the engine's process does not answer any more; it is killed")
        if child.is_running:
            child.process.kill()

    # -- what comes back -------------------------------------------------------------------------------------------

    async def _read(self, child: Child) -> None:
        unpacker = Unpacker()
        reason = "the engine's process ended"
        try:
            while data := await child.reader.read(READ_BYTES):
                self._pulse.beat()
                for message, blob in unpacker.feed(data):
                    self._take(message, blob)
        except OSError as error:
            _log.info("the engine's socket: %s", error)
        except WireBroken as error:
            reason = f"the engine's process cannot be understood: {error}"
        if self._watching is not None:
            self._watching.cancel()
        if self._child is not None:
            status = await child.process.wait()
            self.starter.over(status)
            reason = f"{reason} with status {status}"
            _log.error("%s", reason)
        if self._facts is not None and not self._facts.done():
            self._facts.set_exception(EngineLost(reason))
        sessions, self._sessions = self._sessions, {}
        for hear in sessions.values():
            hear(Failed(reason))

    def _take(self, message: Message, blob: bytes) -> None:
        match message["is"]:
            case "tick":
                self._take_tick(message, blob)
            case "unit":
                self._take_unit(message, blob)
            case "pieces":
                self._take_pieces(message, blob)
            case "loaded" if self._facts is not None and not self._facts.done():
                self._facts.set_result(EngineFacts(**message["facts"]))
            case "ready":
                self._tell(message["session"], Ready())
            case "dropped":
                self._tell(message["session"], Dropped(message["frames"]))
            case "overfull":
                self._tell(message["session"], Overfull(message["message"]))
            case "refused":
                refusal = Refused(message["code"], message["message"], message["param"])
                if hear := self._sessions.pop(message["session"], None):
                    hear(refusal)
            case "failed":
                if hear := self._sessions.pop(message["session"], None):
                    hear(Failed(message["message"]))

    def _take_tick(self, message: Message, blob: bytes) -> None:
        timing, at = self.timing, 0
        timing.ticks += 1
        timing.late += bool(message["late"])
        timing.work_ms, timing.after_ms = message["work_ms"], message["after_ms"]
        timing.sessions = len(message["rows"])
        timing.recent_ms.append(timing.after_ms)
        self.heard_tick(timing, bool(message["late"]))
        for session, text, speaks, memory_bytes, pcm_bytes, function, forced in message["rows"]:
            middle, end = at + memory_bytes, at + memory_bytes + pcm_bytes
            self._tell(session, Stepped(blob[middle:end], text, speaks, blob[at:middle], function, forced))
            at = end

    def _take_unit(self, message: Message, pcm: bytes) -> None:
        timing = self.timing
        timing.ticks += 1
        timing.late += bool(message["late"])
        timing.work_ms, timing.after_ms, timing.sessions = message["work_ms"], message["after_ms"], 1
        self.heard_tick(timing, bool(message["late"]))
        done = UnitDone(
            pcm,
            message["text"],
            listens=message["listens"],
            ends=message["ends"],
            serial=message["serial"],
            stages=message["stages"],
            work_ms=timing.work_ms,
        )
        self._tell(message["session"], done)

    def _take_pieces(self, message: Message, blob: bytes) -> None:
        timing = self.timing
        timing.ticks += 1
        timing.late += bool(message["late"])
        timing.work_ms = timing.after_ms = message["work_ms"]
        timing.sessions = message["turns"]
        timing.recent_ms.append(timing.after_ms)
        self.heard_tick(timing, bool(message["late"]))
        for turn, piece in unpack_pieces(message["rows"], blob):
            self._tell(turn, piece)
            if piece.ends:
                self._sessions.pop(turn, None)

    def _tell(self, session: str, event: EngineEvent) -> None:
        hear = self._sessions.get(session)
        if hear is None:
            return
        try:
            hear(event)
        except Exception as error:
            # This is where all sessions hear from: one that cannot take it ends alone.
            _log.exception("session=%s cannot take what its engine said", session)
            self.close(session)
            hear(Failed(f"{type(error).__name__}: {error}"))
