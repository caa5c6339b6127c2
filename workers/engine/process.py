"""The worker's side of an engine: starts its process, hands over what is said, and brings back what it answers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .contract import EngineFacts, Stepped
from .turns import TurnPiece, unpack_pieces
from .units import UnitDone, pack_unit
from .wire import Message, Unpacker, WireBroken, pack

READ_BYTES = 1 << 20
RECENT_TICKS = 4096
ROOT = Path(__file__).resolve().parents[2]
# Our own packages come last on the path: the engine's interpreter has its own numpy, and needs nothing else of ours.
BOOT = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module('workers.engine.child', run_name='__main__')"
)

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
class Failed:
    """The session is over: it could not be stepped, or its engine died. Others go on if the engine does."""

    message: str


EngineEvent = Ready | Refused | Stepped | UnitDone | TurnPiece | Dropped | Failed
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
    ``starts`` counts those that led to a loaded engine; ``heard_tick`` is called after each tick, or unit.
    """

    def __init__(
        self,
        factory: str,
        options: Mapping[str, str],
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._factory = factory
        self._options = dict(options)
        self._python = python
        self._environment = dict(environment or {})
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._sessions: dict[str, Hear] = {}
        self._facts: asyncio.Future[EngineFacts] | None = None
        self.timing = Timing()
        self.starts = 0
        self.heard_tick: HearTick = lambda timing, late: None

    async def start(self, *, timeout_s: float) -> EngineFacts:
        """Start the process and load the engine. Raises: EngineLost when that fails or takes longer."""
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(self._python, "-c", BOOT, str(ROOT)),
                *(str(theirs.fileno()), self._factory, json.dumps(self._options)),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, **self._environment},
            )
        except OSError as error:
            ours.close()
            raise EngineLost(f"{self._python} cannot be started: {error}") from error
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._facts = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(reader), name="duplex-es-engine")
        try:
            async with asyncio.timeout(timeout_s):
                facts = await asyncio.shield(self._facts)
                self.starts += 1
                return facts
        except TimeoutError:
            await self.stop()
            raise EngineLost(f"the engine was not loaded within {timeout_s:g} s") from None
        except EngineLost:
            await self.stop()
            raise

    async def stop(self, *, patience_s: float = 5.0) -> None:
        """End the process; sessions that are open hear nothing more. Idempotent."""
        self._sessions.clear()
        process, self._process = self._process, None
        if self._writer is not None:
            self._writer.close()
        if process is not None and process.returncode is None:
            try:
                async with asyncio.timeout(patience_s):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    @property
    def is_alive(self) -> bool:
        """Whether the process runs, has loaded its engine and can be spoken to."""
        is_loaded = self._facts is not None and self._facts.done() and self._facts.exception() is None
        # The end of a process is seen at its socket before its status is known.
        can_hear = self._writer is not None and not self._writer.is_closing()
        return is_loaded and can_hear and self._process is not None and self._process.returncode is None

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
        if self._writer is None or not self.is_alive:
            raise EngineLost("the engine's process is gone")
        self._writer.write(pack(message, blob))

    # -- what comes back -------------------------------------------------------------------------------------------

    async def _read(self, reader: asyncio.StreamReader) -> None:
        unpacker = Unpacker()
        reason = "the engine's process ended"
        try:
            while data := await reader.read(READ_BYTES):
                for message, blob in unpacker.feed(data):
                    self._take(message, blob)
        except (OSError, WireBroken) as error:
            reason = f"the engine's process cannot be understood: {error}"
        process = self._process
        if process is not None:
            reason = f"{reason} with status {await process.wait()}"
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
        for session, text, speaks, memory_bytes, pcm_bytes in message["rows"]:
            middle, end = at + memory_bytes, at + memory_bytes + pcm_bytes
            self._tell(session, Stepped(pcm=blob[middle:end], text=text, speaks=speaks, memory=blob[at:middle]))
            at = end

    def _take_unit(self, message: Message, pcm: bytes) -> None:
        timing = self.timing
        timing.ticks += 1
        timing.late += bool(message["late"])
        timing.work_ms, timing.after_ms, timing.sessions = message["work_ms"], message["after_ms"], 1
        self.heard_tick(timing, bool(message["late"]))
        done = UnitDone(
            pcm, message["text"], listens=message["listens"], ends=message["ends"], serial=message["serial"]
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
        if hear := self._sessions.get(session):
            hear(event)
