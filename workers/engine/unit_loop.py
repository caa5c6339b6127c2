"""The engine's process for models that work in units: one thread at the model, one at the socket.

A unit takes most of a second, and must be broken off when the caller speaks over it: so here, other than where a model
ticks, whoever listens is not the one who works. Asked and told as in ``child``, but for ``unit`` in the place of
``feed`` (session, serial, forced, sizes; sound and pictures beside), ``break`` with session, and told ``unit``:
session, serial, text, stages, listens, ends, and the speech beside.
"""

from __future__ import annotations

import queue
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .contract import EngineDead, EngineFull, EngineRefused
from .link import Link
from .unit_queue import Unit, UnitQueue
from .units import UnitDone, UnitEngine, unpack_unit
from .wire import Message

LONGEST_WAIT_S = 0.5

Outcome = UnitDone | Exception | None
"""What a job came to; ``None`` for a piece of an opening after which there is more to do."""


@dataclass(slots=True)
class _Opening:
    session: str
    work: Iterator[None]


class _Ready(Exception):
    """Raised by the piece of an opening after which nothing is left to prepare."""


class UnitLoop:
    """Runs ``engine`` for whoever holds the other end of ``link``, until ``stop`` or a closed link. Run it once."""

    def __init__(self, engine: UnitEngine, link: socket.socket) -> None:
        self._engine = engine
        self._link = Link(link)
        self._slots: dict[str, int] = {}
        self._free = list(range(engine.facts.slots - 1, -1, -1))
        self._openings: deque[_Opening] = deque()
        self._period_s = engine.facts.frame_ms / 1000
        self._units = UnitQueue(period_s=self._period_s)
        self._jobs: queue.SimpleQueue[Callable[[], Outcome] | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._bell, self._ringer = socket.socketpair()
        self._at: Unit | _Opening | None = None
        self._began_s = 0.0
        self._leaving: int | None = None
        self._opened_last = False
        self._is_stopping = False

    def run(self) -> None:
        """Serve until told to stop. Raises: EngineDead."""
        worker = threading.Thread(target=self._work, name="duplex-es-units")
        worker.start()
        try:
            self._link.tell({"is": "loaded", "facts": self._engine.facts.plain()})
            while not (self._is_stopping or self._link.is_broken):
                self._start_next()
                self._exchange()
        finally:
            if isinstance(self._at, Unit) and self._at.session in self._slots:
                self._engine.interrupt(self._slots[self._at.session])
            self._jobs.put(None)
            worker.join()
            self._bell.close()
            self._ringer.close()

    def _work(self) -> None:
        """The other thread: one job after the other."""
        while (job := self._jobs.get()) is not None:
            try:
                outcome = job()
            except Exception as error:
                outcome = error
            self._outcomes.put(outcome)
            self._ringer.send(b"!")

    # -- messages --------------------------------------------------------------------------------------------------

    def _exchange(self) -> None:
        """Read and write what can be, once there is something to do."""
        writing = [self._link] if self._link.has_more else []
        heard: list[Link | socket.socket] = [self._link, self._bell]
        readable, writable, _ = select.select(heard, writing, [], LONGEST_WAIT_S)
        if writable:
            self._link.flush()
        if self._bell in readable:
            self._bell.recv(64)
            while not self._outcomes.empty():
                self._settle(self._outcomes.get())
        if self._link in readable:
            for message, blob in self._link.received():
                self._do(message, blob)

    def _do(self, message: Message, blob: bytes) -> None:
        session = str(message.get("session", ""))
        match message["do"]:
            case "open":
                self._open(session, message, blob)
            case "unit":
                self._queue(session, message, blob)
            case "break":
                self._units.hush(session)
                if isinstance(self._at, Unit) and self._at.session == session and session in self._slots:
                    self._engine.interrupt(self._slots[session])
            case "clear":
                self._units.clear(session)
            case "close":
                self._close(session)
            case "stop":
                self._is_stopping = True

    def _queue(self, session: str, message: Message, blob: bytes) -> None:
        pcm, frames = unpack_unit(message, blob)
        forced, now_s = bool(message["forced"]), time.monotonic()
        dropped = self._units.put(session, message["serial"], pcm, tuple(frames), forced=forced, now_s=now_s)
        if dropped:
            self._link.tell({"is": "dropped", "session": session, "frames": dropped})

    # -- sessions --------------------------------------------------------------------------------------------------

    def _open(self, session: str, message: Message, memory: bytes) -> None:
        if session in self._slots:
            self._close(session)
        if not self._free:
            return self._refuse(session, EngineFull("every slot is taken"))
        slot = self._free.pop()
        self._slots[session] = slot
        # A unit may come before its slot is prepared: it waits, nothing of this session is taken before.
        self._units.add(session)
        self._openings.append(_Opening(session, self._begin(slot, message, memory)))

    def _begin(self, slot: int, message: Message, memory: bytes) -> Iterator[None]:
        """The opening as work for the other thread, from its first line on."""
        yield from self._engine.open(slot, message["opening"], memory)

    def _refuse(self, session: str, refusal: EngineRefused | EngineFull) -> None:
        code, param = "resource_exhausted", None
        if isinstance(refusal, EngineRefused):
            code, param = refusal.code, refusal.param
        self._close(session)
        self._link.tell({"is": "refused", "session": session, "code": code, "message": str(refusal), "param": param})

    def _close(self, session: str) -> None:
        """Free the slot; if the model is at it right now, as soon as it has left it."""
        if session not in self._slots:
            return
        self._openings = deque(opening for opening in self._openings if opening.session != session)
        self._units.remove(session)
        slot = self._slots.pop(session)
        if self._leaving is None and self._at is not None and self._at.session == session:
            self._leaving = slot
            if isinstance(self._at, Unit):
                self._engine.interrupt(slot)
            return
        self._give_back(slot)

    def _give_back(self, slot: int) -> None:
        self._engine.close(slot)
        self._free.append(slot)

    # -- the work --------------------------------------------------------------------------------------------------

    def _start_next(self) -> None:
        """Give the other thread its next job: a unit, and a piece of an opening after each."""
        if self._at is not None:
            return
        preparing = {opening.session for opening in self._openings}
        unit = None
        if not (self._openings and not self._opened_last):
            unit = self._units.take(without=preparing)
        if unit is not None:
            self._opened_last = False
            slot = self._slots[unit.session]
            self._engine.begin(slot)
            self._put(unit, lambda: self._one(slot, unit))
        elif self._openings:
            self._opened_last = True
            opening = self._openings[0]
            self._put(opening, lambda: _piece(opening.work))

    def _put(self, what: Unit | _Opening, job: Callable[[], Outcome]) -> None:
        self._at, self._began_s = what, time.monotonic()
        self._jobs.put(job)

    def _one(self, slot: int, unit: Unit) -> UnitDone:
        return self._engine.unit(slot, np.frombuffer(unit.pcm, np.float32), unit.frames, forced=unit.forced)

    def _settle(self, outcome: Outcome) -> None:
        """What became of the job. Raises: EngineDead."""
        was, self._at = self._at, None
        assert was is not None
        if isinstance(outcome, EngineDead):
            raise outcome
        if self._leaving is not None:
            slot, self._leaving = self._leaving, None
            return self._give_back(slot)
        if isinstance(was, _Opening):
            return self._settle_opening(was, outcome)
        if isinstance(outcome, UnitDone):
            return self._tell_done(was, outcome)
        self._fail(was.session, outcome)

    def _settle_opening(self, opening: _Opening, outcome: Outcome) -> None:
        if outcome is None:
            return
        self._openings.remove(opening)
        if isinstance(outcome, _Ready):
            self._link.tell({"is": "ready", "session": opening.session})
        elif isinstance(outcome, EngineRefused | EngineFull):
            self._refuse(opening.session, outcome)
        else:
            self._fail(opening.session, outcome)

    def _tell_done(self, unit: Unit, done: UnitDone) -> None:
        now_s = time.monotonic()
        timing = {
            "work_ms": (now_s - self._began_s) * 1000,
            "after_ms": (now_s - unit.deadline_s + self._period_s) * 1000,
            "late": now_s > unit.deadline_s,
        }
        told = {"session": unit.session, "serial": unit.serial, "text": done.text, "stages": done.stages}
        self._link.tell({"is": "unit", **told, "listens": done.listens, "ends": done.ends, **timing}, done.pcm)

    def _fail(self, session: str, error: object) -> None:
        message = f"{type(error).__name__}: {error}"
        print(f"session={session} cannot go on: {message}", file=sys.stderr)
        self._close(session)
        self._link.tell({"is": "failed", "session": session, "message": message})


def _piece(work: Iterator[None]) -> Outcome:
    try:
        next(work)
    except StopIteration:
        return _Ready()
    return None
