"""The loaded model: its card, its engine's process, started again when it dies."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from msgspec.structs import replace

from duplex_es.model import Emit, ModelInfo, OpenModel
from workers.engine.process import EngineLost, EngineProcess

from ..cards import QWEN3_OMNI
from ..keeping import EngineKeeper
from ..options import read_options
from .asking import VOICES, wish_of
from .options import NAME, QwenOptions
from .session import QwenSession

FACTORY = "workers.neural_qwen3omni.engine:make"

_log = logging.getLogger(__name__)


class QwenModel:
    """Serves the chat lane. Sessions are many, as they mostly listen; turns that find no free slot wait for one."""

    def __init__(self, options: Mapping[str, str], factory: str = FACTORY) -> None:
        """``factory`` names the engine. Raises: ValueError naming the option and what it may be."""
        self.options = read_options(QwenOptions, options, NAME)
        complaint = self.options.complaint()
        if complaint is None and self.options.voice not in VOICES:
            complaint = f"model {NAME}: option voice is {self.options.voice!r}; it is one of {', '.join(VOICES)}"
        if complaint is not None:
            raise ValueError(complaint)
        self.info = card()
        self._keeper = EngineKeeper(EngineProcess(factory, self.options.engine, python=self.options.python))

    @property
    def engine(self) -> EngineProcess:
        """The engine's process, for those who watch its timing."""
        return self._keeper.engine

    async def load(self) -> None:
        """Start the engine and load its weights. Raises: EngineLost with the reason."""
        facts = await self._keeper.load()
        _log.info("engine %s loaded on %s: %d turns at a time", facts.name, facts.device, facts.slots)
        if (facts.input_rate_hz, facts.output_rate_hz) != (self.info.input_rate_hz, self.info.output_rate_hz):
            await self.engine.stop()
            raise EngineLost(
                f"the engine works at {facts.input_rate_hz} and {facts.output_rate_hz} Hz, not as announced"
            )
        self._keeper.keep()

    async def unload(self) -> None:
        """Stop the engine; open sessions are gone."""
        _log.info("engine of %s: %s", self.info.name, self.engine.timing)
        await self._keeper.unload()

    async def open(self, request: OpenModel, emit: Emit) -> QwenSession:
        """Begin a session; after a takeover, from its settings and the words of its history. Raises: ModelRefused."""
        wish = wish_of(request)
        session = QwenSession(self.engine, self._keeper.facts(), request, emit, self.options, wish)
        return await self._keeper.opened(session, request.session_id)


def card() -> ModelInfo:
    """The published card; but here a session's log outlives its socket and its worker, and one worker serves many."""
    capabilities = replace(
        QWEN3_OMNI.info.capabilities,
        supports_session_resume=True,
        supports_session_lease=True,
        supports_multi_session=True,
        supports_multi_session_same_replica=True,
    )
    return replace(QWEN3_OMNI.info, capabilities=capabilities)
