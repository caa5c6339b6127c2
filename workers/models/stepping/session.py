"""One caller of a model that steps: sound goes to the engine, frames come back as signals, and memory is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duplex_es.model import (
    CloseModel,
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    Interrupt,
    ModelDroppedInput,
    ModelFailed,
    ModelRemembered,
    OpenModel,
    Request,
    ResetInput,
)
from workers.engine.contract import EngineFacts, Stepped
from workers.engine.process import EngineProcess
from workers.engine.units import UnitDone

from ..seat import Seat
from .meter import StepMeter
from .voice import Manner, Voice

OPENING_S = 30.0


class SteppingSession:
    """Owns one slot of the engine, or waits for one after the engine was lost.

    An interruption starts the model's context over or, where the model's manner can, takes back what the caller has not
    heard of the answer, to within the frames that are on their way; the answer that was cut is the session's to end.
    When the engine dies the session goes on in the next one, from what it remembers; what was said meanwhile is told as
    dropped.
    """

    def __init__(
        self,
        engine: EngineProcess,
        facts: EngineFacts,
        request: OpenModel,
        emit: Emit,
        manner: Manner,
        voice: Voice | None = None,
    ) -> None:
        self._engine = engine
        self._facts = facts
        self._emit = self._meter = StepMeter(emit, facts.output_rate_hz)
        name = f"{request.session_id}:{request.incarnation}"
        self._seat = Seat(engine, facts, name, self, overfull=self._overfull)
        self._opening = opening_of(request)
        self._voice = voice or Voice(manner, epoch=request.epoch, open_turn=request.open_turn)
        self._silenced = manner.silenced
        self._memory = bytearray(request.memory)
        self._most_bytes = facts.window_frames * facts.memory_bytes

    async def open(self) -> None:
        """Take a slot and wait until it is prepared. Raises: ModelRefused, EngineLost."""
        self._begin()
        await self._seat.prepared(OPENING_S)

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._feed(request.pcm)
            case Interrupt():
                self._voice.adopt(request.epoch)
                self._take_back(request.unheard_ms)
            case ResetInput():
                self._voice.adopt(request.epoch)
                if self._seat.is_live:
                    self._engine.clear(self._seat.name)
            case EndTurn() | Generate():
                self._voice.adopt(request.epoch)
            case CloseModel():
                self.close()

    @property
    def is_open(self) -> bool:
        """Whether its caller is still there."""
        return self._seat.is_open

    def close(self) -> None:
        """Give the slot back; nothing is signalled any more. Idempotent."""
        self._seat.leave()

    def begin_again(self) -> None:
        """Go on in an engine that was started anew."""
        if self.is_open:
            self._begin()

    # -- the engine's session --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Take a place, the first one or the next."""
        self._seat.begin(self._opening, bytes(self._memory))

    def _take_back(self, unheard_ms: int) -> None:
        memory = b""
        if self._silenced is not None and self._memory:
            memory = self._silenced(bytes(self._memory[-self._most_bytes :]), unheard_ms // self._facts.frame_ms)
        self._memory[:] = memory
        self._emit(ModelRemembered(epoch=self._voice.epoch, data=memory, anew=True))
        if self._seat.is_live:
            self._engine.close(self._seat.name)
            self._begin()

    def _feed(self, pcm: bytes) -> None:
        if self._seat.is_live:
            self._engine.feed(self._seat.name, pcm)
        else:
            self._seat.missed(pcm)

    # -- what the engine says --------------------------------------------------------------------------------------

    def done(self, result: Stepped | UnitDone) -> None:
        """See ``Sitter``."""
        if isinstance(result, Stepped):
            turn = (self._voice.epoch, self._voice.turn) if self._voice.is_open else None
            self._meter.stepped(self._engine.timing.work_ms, turn)
            self._take(result)

    def dropped(self, duration_ms: int) -> None:
        """See ``Sitter``."""
        self._emit(ModelDroppedInput(epoch=self._voice.epoch, duration_ms=duration_ms))

    def failed(self, code: str, message: str) -> None:
        """See ``Sitter``."""
        self._emit(ModelFailed(epoch=self._voice.epoch, code=code, message=message, fatal=True))

    def lost(self) -> None:
        """See ``Sitter``. The answer waits for the next engine."""

    def _overfull(self, message: str) -> None:
        """What the engine was to be informed of was not taken; nothing is said to it here."""

    def _take(self, stepped: Stepped) -> None:
        """Signal what one frame gave."""
        if stepped.memory:
            self._keep(stepped.memory)
            self._emit(ModelRemembered(epoch=self._voice.epoch, data=stepped.memory))
        for signal in self._voice.take(stepped.pcm, stepped.text, speaks=stepped.speaks):
            self._emit(signal)

    def _keep(self, memory: bytes) -> None:
        """Remember a frame for the next engine."""
        self._memory += memory
        if len(self._memory) > 2 * self._most_bytes:
            del self._memory[: -self._most_bytes]


def opening_of(request: OpenModel) -> Mapping[str, Any]:
    """What an engine is told of a session's settings, in plain values."""
    return {
        "session_id": request.session_id,
        "incarnation": request.incarnation,
        "instructions": request.instructions,
        "voice": request.voice,
        "temperature": request.temperature,
        "tools": list(request.tools),
        "extra_body": request.extra_body,
    }
