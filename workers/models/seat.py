"""One session's place in an engine, over as many engines as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from duplex_es.model import ModelRefused
from workers.engine.contract import EngineFacts, Stepped
from workers.engine.process import Dropped, EngineEvent, EngineLost, EngineProcess, Failed, Overfull, Ready, Refused
from workers.engine.units import UnitDone

FLOAT_BYTES = 4


class Sitter(Protocol):
    """Who sits there, and hears what becomes of it."""

    def done(self, result: Stepped | UnitDone) -> None:
        """The engine stepped this session, or did one of its units."""

    def dropped(self, duration_ms: int) -> None:
        """So much of the caller's sound was never heard."""

    def failed(self, code: str, message: str) -> None:
        """The engine goes on without this session."""

    def lost(self) -> None:
        """The engine is gone; ``Seat.begin`` takes a place in the next one."""


class Seat:
    """A place in ``engine`` for ``sitter``; ``name`` is unique among the sessions of this worker.

    ``overfull`` hears why something that the engine was to be informed of was not taken.
    """

    def __init__(
        self,
        engine: EngineProcess,
        facts: EngineFacts,
        name: str,
        sitter: Sitter,
        *,
        overfull: Callable[[str], None] = lambda message: None,
    ) -> None:
        self._engine = engine
        self._facts = facts
        self._base = name
        self._sitter = sitter
        self._overfull = overfull
        self._missed_bytes = 0
        self._is_served = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_open = True
        self.life = 0

    @property
    def name(self) -> str:
        """What the engine calls the session now."""
        # Each life has a name of its own, so that nothing of an older one is taken for the newer one's.
        return f"{self._base}:{self.life}"

    @property
    def is_live(self) -> bool:
        """Whether there is an engine to talk to."""
        return self._is_served and self._engine.is_alive

    def begin(self, opening: Mapping[str, Any], blob: bytes) -> None:
        """Take a place, the first one or the next. Raises: EngineLost."""
        self.life += 1
        life = self.life

        def hear(event: EngineEvent) -> None:
            if self.is_open and life == self.life:
                self._hear(event)

        self._engine.open(self.name, opening, hear, blob)
        self._is_served = True
        missed_ms = self._missed_bytes // FLOAT_BYTES * 1000 // self._facts.input_rate_hz
        self._missed_bytes = 0
        if missed_ms:
            self._sitter.dropped(missed_ms)

    async def prepared(self, timeout_s: float) -> None:
        """Return when the first place is prepared. Raises: ModelRefused, EngineLost also when that takes longer.

        Cancelled, it gives the place back.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready
        except TimeoutError:
            self.leave()
            raise EngineLost(f"the session was not prepared within {timeout_s:g} s") from None
        except asyncio.CancelledError:
            self.leave()
            raise

    def missed(self, pcm: bytes) -> None:
        """Float32 sound that came while there was no engine; it is told when there is one again."""
        self._missed_bytes += len(pcm)

    def leave(self) -> None:
        """Give the place back; nothing is heard any more. Idempotent."""
        self.is_open = self._is_served = False
        self._engine.close(self.name)

    def _hear(self, event: EngineEvent) -> None:
        match event:
            case Stepped() | UnitDone():
                self._sitter.done(event)
            case Ready():
                self._settle(None)
            case Dropped(frames=frames):
                self._sitter.dropped(frames * self._facts.frame_ms)
            case Overfull(message=message):
                self._overfull(message)
            case Refused(code=code, message=message, param=param):
                self._is_served = False
                if not self._settle(ModelRefused(code, message, param)):
                    self._sitter.failed(code, message)
            case Failed(message=message):
                self._is_served = False
                if self._settle(EngineLost(message)):
                    return
                if self._engine.is_alive:
                    # The engine goes on without this session: it is the session that is sick.
                    self._sitter.failed("runtime_data_plane_stream_failed", "The model failed.")
                else:
                    self._sitter.lost()

    def _settle(self, error: Exception | None) -> bool:
        """Let ``prepared`` go on; false if it did already."""
        if self._ready.done():
            return False
        if error is None:
            self._ready.set_result(None)
        else:
            self._ready.set_exception(error)
        return True
