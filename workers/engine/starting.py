"""One engine's process after another: where the next one comes from, and what it may use of what the last one left."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from .booting import start_module
from .holding_worker import HolderProcess
from .standby import Child, Standby
from .wire import DEAD

MODULE = "workers.engine.child"
STEADY_S = 10.0
"""A process that went on from what another one left, and died sooner than this, may have died of that."""
STANDBY_AFTER_S = STEADY_S
"""Those who go on come first: only then another process is started, which takes a processor for some seconds."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ways:
    """``holds``: a process owns memory for the engine, which outlives it. ``standby``: another engine's process waits,

    from ``standby_after_s`` after the first is loaded. Memory is given up after a death within ``steady_s``.
    """

    holds: bool = False
    standby: bool = False
    steady_s: float = STEADY_S
    standby_after_s: float = STANDBY_AFTER_S


class Starter:
    """Starts processes of the engine that ``factory`` makes of ``options``.

    A process that was killed, or ended by itself, leaves its memory to the next. One that says that its device is at
    fault (``DEAD``), that died before it was loaded, or soon after it had taken over what was left, does not: all of
    it goes, and the next one begins from nothing.
    """

    def __init__(
        self, factory: str, options: Mapping[str, str], *, python: str, environment: Mapping[str, str], ways: Ways
    ) -> None:
        self._arguments = (factory, json.dumps(dict(options)))
        self._python, self._environment, self._ways = python, dict(environment), ways
        self._holder: HolderProcess | None = None
        self._standby = Standby(self._start)
        self._current: Child | None = None
        self._loaded_s: float | None = None
        self._takes_over = False
        self._status: int | None = None

    @property
    def holder(self) -> HolderProcess | None:
        """The process that owns the engines' memory, if there is one now."""
        return self._holder

    @property
    def standby(self) -> Standby:
        """The process that waits."""
        return self._standby

    async def next(self) -> Child:
        """A process that is told to load. Raises: OSError if none can be started."""
        if self._holder is not None and not self._is_trusted:
            _log.warning("what the engine left in memory is given up")
            await self._forget()
        self._takes_over = self._holder is not None
        if self._ways.holds and self._holder is None:
            self._holder = await HolderProcess.start(self._python, self._environment, self._lost)
        self._loaded_s = self._status = None
        waited = await self._standby.take()
        self._current = child = waited or await self._start()
        if self._takes_over or waited is not None:
            memory = "the last one's memory" if self._takes_over else "no memory of the last one"
            _log.info("the next engine has %s and %s", memory, "was waiting" if waited is not None else "is started")
        child.say({"do": "load"})
        return child

    def loaded(self) -> None:
        """The process is loaded: the next one may be made ready."""
        self._loaded_s = time.monotonic()
        if self._ways.standby:
            self._standby.begin(after_s=self._ways.standby_after_s)

    def over(self, status: int | None) -> None:
        """The process has ended; which of its memory the next one gets is decided by how."""
        self._status = status
        if self._loaded_s is not None and time.monotonic() - self._loaded_s >= self._ways.steady_s:
            self._takes_over = False

    async def stop(self) -> None:
        """End the process that waits, and let all memory go. The one that was loaded must be gone. Idempotent."""
        self._current = None
        await self._forget()

    @property
    def _is_trusted(self) -> bool:
        was_well = self._status != DEAD and self._loaded_s is not None and not self._takes_over
        return was_well and self._holder is not None and self._holder.is_alive

    async def _forget(self) -> None:
        """Let all memory go; whoever has it open goes first."""
        await self._standby.drop()
        holder, self._holder = self._holder, None
        if holder is not None:
            await holder.stop()

    def _lost(self) -> None:
        """Memory that is nobody's must not be worked in."""
        _log.error("the process that holds the engine's memory is gone; the engine is started anew")
        if self._current is not None and self._current.is_running:
            self._current.process.kill()

    async def _start(self) -> Child:
        ours, theirs = socket.socketpair()
        line = None
        try:
            line = self._holder.lend() if self._holder is not None else None
            passed = [each.fileno() for each in (theirs, line) if each is not None]
            process = await start_module(
                self._python,
                MODULE,
                [str(passed[0]), *self._arguments, *map(str, passed[1:])],
                descriptors=passed,
                environment=self._environment,
            )
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            if line is not None:
                line.close()
        return Child(process, reader, writer)
