"""One turn put to an engine that is asked turn by turn: its answer as a stream, over as many engines as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from workers.engine.process import EngineEvent, EngineLost, EngineProcess, Failed, Refused
from workers.engine.turns import TurnPiece, pack_turn

from .turn_meter import TurnMeter

PATIENCE_S = 180.0
"""How long an answer waits for an engine that is started anew."""
MOST_ENGINES = 3
"""A turn that so many engines died under is taken to be what they die of: it is not asked again."""

_LOST = Failed("the engine is gone")


class TurnRefused(Exception):
    """The engine does not answer this turn, or not further; ``code`` as the client is told."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class TurnLine:
    """``name`` is unique among the turns of this worker, ``asked`` what the engine's ``ask`` takes.

    When the engine dies the turn waits for the next one: ``begin_again`` asks that one to go on behind what was given,
    and nobody hears a difference but in time. ``meter`` has heard every piece when it came, not when it is read.
    """

    def __init__(
        self,
        engine: EngineProcess,
        name: str,
        asked: Mapping[str, Any],
        sounds: Sequence[bytes] = (),
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._engine = engine
        self._base = name
        self._asked = asked
        self._sounds = sounds
        self._patience_s = patience_s
        self._events: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._asked_again = asyncio.Event()
        self._memory = bytearray()
        self._characters = self._pcm_bytes = 0
        self._life = 0
        self._is_over = False
        self.meter = TurnMeter()

    async def pieces(self) -> AsyncGenerator[TurnPiece, None]:
        """What the engine gives, to the piece that ends it. Closing this cancels the turn. Raises: TurnRefused."""
        self._ask()
        try:
            while True:
                match await self._next():
                    case TurnPiece() as piece:
                        yield piece
                        if piece.ends:
                            return
                    case Refused(code=code, message=message):
                        raise TurnRefused(code, message)
                    case Failed():
                        raise TurnRefused("response_error", "The model failed at this answer.")
        finally:
            self.close()

    def close(self) -> None:
        """The answer is not wanted any further: its slot is free before the engine's next step. Idempotent."""
        self._is_over = True
        self._engine.close(self._name)

    def begin_again(self) -> None:
        """Go on in an engine that was started anew."""
        if 0 < self._life < MOST_ENGINES and not (self._is_over or self._asked_again.is_set()):
            self._ask()

    # -- the engine ------------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        # Each life has a name of its own, so that nothing of an older one is taken for the newer one's.
        return f"{self._base}:{self._life}"

    def _ask(self) -> None:
        self._life += 1
        life = self._life

        def hear(event: EngineEvent) -> None:
            if life == self._life and not self._is_over:
                self._hear(event)

        told = [self._characters, self._pcm_bytes]
        opening, blob = pack_turn({**self._asked, "told": told}, self._sounds, bytes(self._memory))
        try:
            self._engine.open(self._name, opening, hear, blob)
        except EngineLost:
            self._lose()
        else:
            self._asked_again.set()

    def _lose(self) -> None:
        """Whoever reads is told, once all that was said before has been read."""
        self._asked_again.clear()
        self._events.put_nowait(_LOST)

    def _hear(self, event: EngineEvent) -> None:
        """Count what comes as it comes: who reads it may be far behind."""
        if isinstance(event, Failed) and not self._engine.is_alive:
            return self._lose()
        if isinstance(event, TurnPiece):
            self.meter.heard(event)
            self._memory += event.memory
            self._characters += len(event.text)
            self._pcm_bytes += len(event.pcm)
        self._events.put_nowait(event)

    async def _next(self) -> EngineEvent:
        """The next event. Raises: TurnRefused when the engine is gone and no other comes in time."""
        while True:
            event = await self._events.get()
            if event is not _LOST:
                return event
            if self._life >= MOST_ENGINES:
                raise TurnRefused("worker_lost", "The model was lost again and again in the middle of this answer.")
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._asked_again.wait()
            except TimeoutError:
                raise TurnRefused("worker_lost", "The model was lost in the middle of this answer.") from None
