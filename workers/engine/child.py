"""The engine's process: one loop that ticks on time and does everything else in between.

No threads: whatever ran beside a step would take its time. Started by ``process`` with a socket for messages; what is
printed goes to the worker's log.

Asked (``do``): ``open`` with session, opening and its memory beside; ``feed`` with session and float32 beside;
``inform`` with session, text and how much of it was told; ``clear`` and ``close`` with session; ``stop``. Told
(``is``): ``loaded`` with facts; ``ready``, ``refused``, ``failed``, ``dropped``, ``overfull`` with session; ``tick``
with a row for each session that stepped: session, text, speaks, bytes of memory, bytes of sound, function, forced, and
both beside.
"""

from __future__ import annotations

import importlib
import json
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .contract import EngineDead, EngineFull, EngineRefused, Floats, FrameEngine, Stepped
from .holding import Holding
from .link import READ_BYTES, Link
from .ticker import Ticker
from .turn_loop import TurnLoop
from .turns import TurnEngine
from .unit_loop import UnitLoop
from .units import UnitEngine
from .wire import DEAD, Message, Unpacker, pack

LONGEST_WAIT_S = 0.5
LONGEST_REBUILDING_S = 10.0
"""Sessions that were rebuilt wait for others that still are no longer than this."""


@dataclass(slots=True)
class _Opening:
    session: str
    work: Iterator[None]
    goes_on: bool


class EngineLoop:
    """Runs ``engine`` for whoever holds the other end of ``link``, until ``stop`` or a closed link. Run it once."""

    def __init__(self, engine: FrameEngine, link: socket.socket) -> None:
        self._engine = engine
        self._link = Link(link)
        self._slots: dict[str, int] = {}
        self._free = list(range(engine.facts.slots - 1, -1, -1))
        self._openings: deque[_Opening] = deque()
        self._early: dict[str, bytearray] = {}
        self._early_words: dict[str, list[tuple[str, int]]] = {}
        self._prepared: list[str] = []
        self._rebuilding_since_s = 0.0
        period_s = engine.facts.frame_ms / 1000
        self._ticker = Ticker(frame_samples=engine.facts.samples_in, period_s=period_s, start_s=time.monotonic())
        self._tick_s = period_s / 4
        self._chunk_s = period_s / 4
        self._is_stopping = False

    def run(self) -> None:
        """Serve until told to stop. Raises: EngineDead."""
        self._link.tell({"is": "loaded", "facts": self._engine.facts.plain()})
        while not (self._is_stopping or self._link.is_broken):
            now_s = time.monotonic()
            if now_s >= self._ticker.deadline_s:
                due_s = self._ticker.deadline_s
                # One slow piece of work must not keep every later opening waiting: what it took is forgotten in time.
                self._chunk_s *= 0.95
                self._step(self._ticker.take_due(now_s), due_s)
                continue
            behind = self._ticker.take_behind(now_s, takes_s=self._tick_s)
            if behind:
                self._step(behind, now_s)
            prepares = self._openings and (self._ticker.is_idle or now_s + self._chunk_s < self._ticker.deadline_s)
            if prepares and not behind:
                self._prepare()
            if self._prepared and not self._is_rebuilding:
                self._let_step()
            self._exchange(wait=not behind and not prepares)

    # -- messages --------------------------------------------------------------------------------------------------

    def _exchange(self, *, wait: bool) -> None:
        """Read and write what can be; with ``wait``, until there is something to do or the next deadline."""
        patience_s = max(0.0, min(self._ticker.deadline_s - time.monotonic(), LONGEST_WAIT_S)) if wait else 0.0
        readable, writable, _ = select.select([self._link], [self._link] if self._link.has_more else [], [], patience_s)
        if writable:
            self._link.flush()
        if readable:
            for message, blob in self._link.received():
                self._do(message, blob)

    def _do(self, message: Message, blob: bytes) -> None:
        session = str(message.get("session", ""))
        match message["do"]:
            case "open":
                self._open(session, message["opening"], blob)
            case "feed" if session in self._early:
                self._early[session] += blob
            case "feed":
                if dropped := self._ticker.feed(session, blob):
                    self._link.tell({"is": "dropped", "session": session, "frames": dropped})
            case "inform" if session in self._early:
                self._early_words.setdefault(session, []).append((message["text"], message["told"]))
            case "inform" if session in self._slots:
                self._inform(session, message["text"], message["told"])
            case "clear":
                self._ticker.clear(session)
                if session in self._early:
                    self._early[session].clear()
            case "close":
                self._close(session)
            case "stop":
                self._is_stopping = True

    # -- sessions --------------------------------------------------------------------------------------------------

    def _open(self, session: str, opening: Mapping[str, Any], memory: bytes) -> None:
        if session in self._slots:
            self._close(session)
        if not self._free:
            return self._refuse(session, EngineFull("every slot is taken"))
        slot = self._slots[session] = self._take_slot(opening)
        try:
            work = self._engine.open(slot, opening, memory)
        except (EngineRefused, EngineFull) as refusal:
            return self._refuse(session, refusal)
        self._early[session] = bytearray()
        self._openings.append(_Opening(session, work, bool(memory)))

    def _take_slot(self, opening: Mapping[str, Any]) -> int:
        """One that is free: whichever the engine would rather have for this opening, if it has a wish."""
        place = getattr(self._engine, "place", None)
        slot: int = self._free[-1] if place is None else place(opening, tuple(self._free))
        self._free.remove(slot)
        return slot

    def _prepare(self) -> None:
        """One piece of the oldest opening's work."""
        opening = self._openings[0]
        began_s = time.monotonic()
        try:
            next(opening.work)
        except StopIteration:
            self._openings.popleft()
            if not self._prepared:
                self._rebuilding_since_s = began_s
            self._prepared.append(opening.session)
        except (EngineRefused, EngineFull) as refusal:
            self._openings.popleft()
            self._refuse(opening.session, refusal)
        self._chunk_s = max(time.monotonic() - began_s, self._chunk_s * 0.9)

    @property
    def _is_rebuilding(self) -> bool:
        """Whether those who are ready wait for those who were cut off and are not.

        Beside beats a rebuild takes many times as long: after a crash the last one would wait for a minute.
        """
        waits_s = time.monotonic() - self._rebuilding_since_s
        return (
            self._ticker.is_idle
            and waits_s < LONGEST_REBUILDING_S
            and any(opening.goes_on for opening in self._openings)
        )

    def _let_step(self) -> None:
        """Let those who are prepared take part in the beat."""
        for session in self._prepared:
            self._ticker.add(session)
            self._link.tell({"is": "ready", "session": session})
            for text, told in self._early_words.pop(session, ()):
                self._inform(session, text, told)
            if dropped := self._ticker.feed(session, bytes(self._early.pop(session))):
                self._link.tell({"is": "dropped", "session": session, "frames": dropped})
        self._prepared = []

    def _inform(self, session: str, text: str, told: int) -> None:
        """Hand words to an engine that can be informed; what it does not take is told, and nothing else happens."""
        inform = getattr(self._engine, "inform", None)
        try:
            if inform is None:
                raise EngineFull("this engine takes sound only")
            inform(self._slots[session], text, told)
        except EngineDead:
            raise
        except Exception as error:
            # Whatever somebody's words do to the engine, the others are not to hear of it.
            message = str(error) if isinstance(error, EngineFull) else f"{type(error).__name__}: {error}"
            self._link.tell({"is": "overfull", "session": session, "message": message})

    def _refuse(self, session: str, refusal: EngineRefused | EngineFull) -> None:
        code, param = "resource_exhausted", None
        if isinstance(refusal, EngineRefused):
            code, param = refusal.code, refusal.param
        self._close(session)
        self._link.tell({"is": "refused", "session": session, "code": code, "message": str(refusal), "param": param})

    def _close(self, session: str) -> None:
        slot = self._slots.pop(session, None)
        if slot is None:
            return
        self._openings = deque(opening for opening in self._openings if opening.session != session)
        self._prepared = [waiting for waiting in self._prepared if waiting != session]
        self._early.pop(session, None)
        self._early_words.pop(session, None)
        self._ticker.remove(session)
        self._engine.close(slot)
        self._free.append(slot)

    # -- the step --------------------------------------------------------------------------------------------------

    def _step(self, batch: list[tuple[str, Floats]], due_s: float) -> None:
        if not batch:
            return
        began_s = time.monotonic()
        stepped = self._stepped(batch)
        rows, sounds = [], []
        for session, result in stepped:
            sizes = (len(result.memory), len(result.pcm))
            rows.append([session, result.text, result.speaks, *sizes, result.function, result.forced])
            sounds += [result.memory, result.pcm]
        done_s = time.monotonic()
        self._tick_s = max(done_s - began_s, self._tick_s * 0.9)
        is_late = self._ticker.done(due_s, done_s)
        timing = {"work_ms": (done_s - began_s) * 1000, "after_ms": (done_s - due_s) * 1000, "late": is_late}
        self._link.tell({"is": "tick", "rows": rows, **timing}, b"".join(sounds))

    def _stepped(self, batch: list[tuple[str, Floats]]) -> list[tuple[str, Stepped]]:
        """The results of a batch. What cannot be stepped together is stepped one by one: the sick one ends alone."""
        try:
            slots = [self._slots[session] for session, _ in batch]
            results = self._engine.step(slots, np.stack([frame for _, frame in batch]))
            return [(session, result) for (session, _), result in zip(batch, results, strict=True)]
        except EngineDead:
            raise
        except Exception as error:
            if len(batch) > 1:
                return [done for one in batch for done in self._stepped([one])]
            session = batch[0][0]
            print(f"session={session} cannot be stepped: {type(error).__name__}: {error}", file=sys.stderr)
            self._close(session)
            self._link.tell({"is": "failed", "session": session, "message": f"{type(error).__name__}: {error}"})
            return []


def make_engine(factory: str, options: Mapping[str, str]) -> FrameEngine | UnitEngine | TurnEngine:
    """The engine that ``package.module:attribute`` makes of ``options``, not loaded yet. Raises: as the import does."""
    module, _, attribute = factory.partition(":")
    engine: FrameEngine | UnitEngine | TurnEngine = getattr(importlib.import_module(module), attribute)(options)
    return engine


def loop_of(engine: Any, link: socket.socket) -> EngineLoop | UnitLoop | TurnLoop:
    """The loop for what the factory made: one that ticks, one that takes units as they come, or one that is asked."""
    if hasattr(engine, "ask"):
        return TurnLoop(engine, link)
    return UnitLoop(engine, link) if hasattr(engine, "unit") else EngineLoop(engine, link)


def wait_for_load(link: socket.socket) -> bool:
    """Say that all is prepared, and return once told to load; false if whoever would tell is gone."""
    link.sendall(pack({"is": "prepared"}))
    unpacker = Unpacker()
    while data := link.recv(READ_BYTES):
        if any(message["do"] == "load" for message, _ in unpacker.feed(data)):
            return True
    return False


def main(arguments: list[str]) -> int:
    """Arguments: the socket's descriptor, the engine's factory, its options as JSON, and where memory outlives this

    process the descriptor of the line to it. The exit status: 0 or ``DEAD``.
    """
    descriptor, factory, options, *holding = arguments
    with socket.socket(fileno=int(descriptor)) as link:
        engine = make_engine(factory, json.loads(options))
        if holding and hasattr(engine, "hold"):
            engine.hold(Holding(socket.socket(fileno=int(holding[0]))))
        if hasattr(engine, "prepare"):
            engine.prepare()
        if not wait_for_load(link):
            return 0
        engine.load()
        try:
            loop_of(engine, link).run()
        except EngineDead as error:
            print(f"the engine is dead: {error}", file=sys.stderr)
            return DEAD
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
