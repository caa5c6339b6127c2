"""The loaded model: its card, its engine's process, started again when it dies."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from msgspec.structs import replace

from duplex_es.model import Emit, ModelRefused, OpenModel
from workers.engine.process import EngineProcess

from ..cards import MINICPM, RUNTIME, with_room_for
from ..keeping import EngineKeeper
from ..options import read_options
from .options import NAME, MiniCPMOptions
from .reference import reference
from .session import UnitSession

FACTORY = "workers.neural_minicpmo.engine:make"

_log = logging.getLogger(__name__)


class MiniCPMModel:
    """Serves the model's native lane: what it decides by itself, in units of a second.

    ``capacity`` is how many sessions there is room for, known once it is loaded: one for each loaded object.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises: ValueError naming the option and what it may be."""
        self.options = read_options(MiniCPMOptions, options, NAME)
        if (complaint := self.options.complaint()) is not None:
            raise ValueError(complaint)
        self.info = replace(MINICPM.info, takes_frames=True)
        self.capacity: int | None = None
        self.real_time = True
        self._keeper = EngineKeeper(EngineProcess(FACTORY, self.options.engine, python=self.options.python))

    @property
    def engine(self) -> EngineProcess:
        """The engine's process, for those who watch its timing."""
        return self._keeper.engine

    async def load(self) -> None:
        """Start the engine and load its weights. Raises: EngineLost with the reason."""
        facts = await self._keeper.load()
        _log.info("engine %s loaded on %s: %d objects", facts.name, facts.device, facts.slots)
        self.capacity = facts.slots
        self.info = with_room_for(self.info, facts.slots)
        self._keeper.keep()

    async def unload(self) -> None:
        """Stop the engine; open sessions are gone."""
        await self._keeper.unload()

    async def open(self, request: OpenModel, emit: Emit) -> UnitSession:
        """Begin a session; after a takeover, from its settings, its voice and the words of its history.

        Raises: ModelRefused.
        """
        if not MINICPM.is_native(request):
            message = "session.extra_body.native_duplex must be true: this worker serves the model's native lane only."
            raise ModelRefused(RUNTIME, message, "session.extra_body.native_duplex")
        MINICPM.refuse(request)
        facts = self._keeper.facts()
        voice = await reference(request, self.options.allowed)
        session = UnitSession(
            self.engine,
            facts,
            request,
            emit,
            voice.tobytes(),
            answers_by_itself=answers_by_itself(request),
            real_time=self.real_time,
        )
        return await self._keeper.opened(session, request.session_id)


def answers_by_itself(request: OpenModel) -> bool:
    """Whether the session lets the model decide when to speak; otherwise it is asked to."""
    said = [request.extra_body[key] for key in ("auto_response", "full_duplex") if key in request.extra_body]
    return bool(said) and said[0] is True
