"""One caller of a model that steps: sound goes to the engine, frames come back as signals, and memory is kept."""

from __future__ import annotations

import asyncio
import logging
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
    ModelRefused,
    ModelRemembered,
    OpenModel,
    Request,
    ResetInput,
)
from workers.engine.contract import EngineFacts, Stepped
from workers.engine.process import Dropped, EngineEvent, EngineLost, EngineProcess, Failed, Ready, Refused

from .voice import Manner, Voice

OPENING_S = 30.0
FLOAT_BYTES = 4

_log = logging.getLogger(__name__)


class SteppingSession:
    """Owns one slot of the engine, or waits for one after the engine was lost.

    An interruption starts the model's context over, as nothing can be taken back out of it; the answer that was cut is
    the session's to end. When the engine dies the session goes on in the next one, from what it remembers; what was
    said meanwhile is told as dropped.
    """

    def __init__(
        self, engine: EngineProcess, facts: EngineFacts, request: OpenModel, emit: Emit, manner: Manner
    ) -> None:
        self._engine = engine
        self._facts = facts
        self._emit = emit
        self._name = f"{request.session_id}:{request.incarnation}"
        self._opening = opening_of(request)
        self._voice = Voice(manner, epoch=request.epoch, open_turn=request.open_turn)
        self._memory = bytearray(request.memory)
        self._life = 0
        self._missed_bytes = 0
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_open = True
        self.is_stepping = False

    async def open(self) -> None:
        """Take a slot and wait until it is prepared. Raises: ModelRefused, EngineLost."""
        self._begin()
        try:
            async with asyncio.timeout(OPENING_S):
                await self._ready
        except TimeoutError:
            self.close()
            raise EngineLost(f"the slot was not prepared within {OPENING_S:g} s") from None

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._feed(request.pcm)
            case Interrupt():
                self._voice.adopt(request.epoch)
                self._start_over()
            case ResetInput():
                self._voice.adopt(request.epoch)
                if self._has_engine:
                    self._engine.clear(self._engine_name)
            case EndTurn() | Generate():
                self._voice.adopt(request.epoch)
            case CloseModel():
                self.close()

    def close(self) -> None:
        """Give the slot back; nothing is signalled any more. Idempotent."""
        self.is_open = self.is_stepping = False
        self._engine.close(self._engine_name)

    def begin_again(self) -> None:
        """Go on in an engine that was started anew."""
        if self.is_open:
            self._begin()

    # -- the engine's session --------------------------------------------------------------------------------------

    @property
    def _engine_name(self) -> str:
        # Each life has a name of its own, so that nothing of an older one is taken for the newer one's.
        return f"{self._name}:{self._life}"

    @property
    def _has_engine(self) -> bool:
        return self.is_stepping and self._engine.is_alive

    def _begin(self) -> None:
        self._life += 1
        life = self._life

        def hear(event: EngineEvent) -> None:
            if self.is_open and life == self._life:
                self._hear(event)

        self._engine.open(self._engine_name, self._opening, hear, bytes(self._memory))
        self.is_stepping = True
        self._report_missed()

    def _start_over(self) -> None:
        self._memory.clear()
        self._emit(ModelRemembered(epoch=self._voice.epoch, data=b"", anew=True))
        if self._has_engine:
            self._engine.close(self._engine_name)
            self._begin()

    def _feed(self, pcm: bytes) -> None:
        if self._has_engine:
            self._engine.feed(self._engine_name, pcm)
        else:
            self._missed_bytes += len(pcm)

    def _report_missed(self) -> None:
        missed_ms = self._missed_bytes // FLOAT_BYTES * 1000 // self._facts.input_rate_hz
        self._missed_bytes = 0
        if missed_ms:
            self._emit(ModelDroppedInput(epoch=self._voice.epoch, duration_ms=missed_ms))

    def _hear(self, event: EngineEvent) -> None:
        match event:
            case Stepped():
                self._take(event)
            case Ready():
                self._settle(None)
            case Dropped(frames=frames):
                duration_ms = frames * self._facts.frame_ms
                self._emit(ModelDroppedInput(epoch=self._voice.epoch, duration_ms=duration_ms))
            case Refused(code=code, message=message, param=param):
                self.is_stepping = False
                if not self._settle(ModelRefused(code, message, param)):
                    self._emit(ModelFailed(epoch=self._voice.epoch, code=code, message=message, fatal=True))
            case Failed(message=message):
                self.is_stepping = False
                if self._engine.is_alive and not self._settle(EngineLost(message)):
                    # The engine goes on without this session: it is the session that is sick.
                    failed = ModelFailed(
                        epoch=self._voice.epoch,
                        code="runtime_data_plane_stream_failed",
                        message="The model failed.",
                        fatal=True,
                    )
                    self._emit(failed)
                elif not self._engine.is_alive:
                    self._settle(EngineLost(message))

    def _settle(self, error: Exception | None) -> bool:
        """Let ``open`` go on; false if it did already."""
        if self._ready.done():
            return False
        if error is None:
            self._ready.set_result(None)
        else:
            self._ready.set_exception(error)
        return True

    def _take(self, stepped: Stepped) -> None:
        if stepped.memory:
            self._memory += stepped.memory
            most = self._facts.window_frames * self._facts.memory_bytes
            if len(self._memory) > 2 * most:
                del self._memory[:-most]
            self._emit(ModelRemembered(epoch=self._voice.epoch, data=stepped.memory))
        for signal in self._voice.take(stepped.pcm, stepped.text, speaks=stepped.speaks):
            self._emit(signal)


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
