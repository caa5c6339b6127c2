"""The loaded model: its card, the engine that hears and writes, and the process that speaks."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from msgspec.structs import replace

from duplex_es.model import Emit, ModelInfo, OpenModel
from workers.engine.contract import EngineFacts
from workers.engine.process import EngineLost, EngineProcess
from workers.neural_nemotron.options import RECORD_BYTES

from ..cards import NEMOTRON
from ..keeping import EngineKeeper
from ..speech.missing import CascadePartMissing
from ..stepping.model import EnginePlan, SteppingModel
from ..stepping.voice import Manner
from .options import NemotronOptions, read_nemotron_options
from .record import ROOM_BYTES
from .session import NemotronSession

FACTORY = "workers.neural_nemotron.engine:make"
SILENT_FRAMES = 12
"""An answer is over when nothing was written or said for so long: within one, the model pauses for less."""

_log = logging.getLogger(__name__)


class NemotronModel(SteppingModel):
    """Serves the native lane. ``factory`` names the engine.

    The process that speaks is kept as the engine is: when it dies it is started again, and clauses whose sound was
    being made are asked for again.
    """

    def __init__(self, options: Mapping[str, str], factory: str = FACTORY) -> None:
        """Raises: ValueError naming the option and what it may be."""
        self.options = read_nemotron_options(options)
        plan = EnginePlan(factory, self.options.engine_texts, python=self.options.python)
        super().__init__(card(self.options), plan, Manner(SILENT_FRAMES), refuse=NEMOTRON.refuse)
        self._speech: EngineKeeper | None = None
        if self.options.talker is not None:
            talker = EngineProcess(self.options.talker, self.options.speech_options, python=self.options.speech_python)
            self._speech = EngineKeeper(talker)

    @property
    def speech(self) -> EngineProcess | None:
        """The process that speaks; ``None`` where there is text only."""
        return None if self._speech is None else self._speech.engine

    async def load(self) -> None:
        """Start both processes and load weights. Raises: EngineLost, CascadePartMissing with the reason."""
        if (missing := self.options.missing()) is not None:
            raise CascadePartMissing(missing)
        if self._speech is not None:
            await self._load_speech(self._speech)
        try:
            await super().load()
        except EngineLost:
            await self._unload_speech()
            raise

    async def _load_speech(self, speech: EngineKeeper) -> None:
        facts = await speech.load()
        _log.info("speech %s loaded on %s: %d clauses at a time", facts.name, facts.device, facts.slots)
        if facts.output_rate_hz != self.info.output_rate_hz:
            await speech.engine.stop()
            raise EngineLost(
                f"option speech: {self.options.talker} speaks at {facts.output_rate_hz} Hz; "
                f"it must be {self.info.output_rate_hz} Hz"
            )
        speech.keep()

    async def unload(self) -> None:
        """Stop both processes; open sessions are gone."""
        await super().unload()
        await self._unload_speech()

    async def _unload_speech(self) -> None:
        if self._speech is not None:
            await self._speech.unload()

    async def open(self, request: OpenModel, emit: Emit) -> NemotronSession:
        """Begin a session, or go on from its memory. Raises: ModelRefused."""
        session = await super().open(request, emit)
        assert isinstance(session, NemotronSession)
        if self._speech is not None and session.speaker is not None:
            await self._speech.opened(session.speaker, request.session_id)
        return session

    def _session(self, request: OpenModel, emit: Emit, facts: EngineFacts) -> NemotronSession:
        return NemotronSession(self.engine, facts, request, emit, self._manner, self.speech)


PLUGIN = NemotronModel


def card(options: NemotronOptions) -> ModelInfo:
    """The published card; but a worker serves as many sessions as its engine has slots, and keeps their frames."""
    capabilities = replace(
        NEMOTRON.info.capabilities,
        supports_multi_session=True,
        supports_multi_session_same_replica=True,
    )
    memory_bytes = options.engine.memory_frames * (RECORD_BYTES + ROOM_BYTES)
    return replace(NEMOTRON.info, capabilities=capabilities, memory_bytes=memory_bytes)
