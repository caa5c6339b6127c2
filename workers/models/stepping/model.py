"""A loaded model that steps: its engine in a process of its own, started again when it dies."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from duplex_es.model import Emit, ModelInfo, OpenModel
from workers.engine.contract import EngineFacts
from workers.engine.process import EngineLost, EngineProcess
from workers.engine.starting import Ways

from ..cards import with_room_for
from ..keeping import EngineKeeper
from .session import SteppingSession
from .voice import Manner

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Which engine, with which options, in which interpreter; ``ways``: what the next one need not do again."""

    factory: str
    options: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    ways: Ways = field(default_factory=Ways)


class SteppingModel:
    """A ``Model`` over one engine. ``info`` is what it says of itself before the engine is loaded.

    ``refuse`` raises ModelRefused for settings that the model cannot serve. ``capacity`` is how many sessions the
    engine has room for, known once it is loaded.
    """

    def __init__(
        self,
        info: ModelInfo,
        plan: EnginePlan,
        manner: Manner,
        *,
        refuse: Callable[[OpenModel], None] = lambda request: None,
    ) -> None:
        self.info = info
        self.capacity: int | None = None
        self._keeper = EngineKeeper(
            EngineProcess(plan.factory, plan.options, python=plan.python, environment=plan.environment, ways=plan.ways)
        )
        self._manner = manner
        self._refuse = refuse

    @property
    def engine(self) -> EngineProcess:
        """The engine's process, for those who watch its timing."""
        return self._keeper.engine

    async def load(self) -> None:
        """Start the engine and load its weights. Raises: EngineLost with the reason."""
        facts = await self._keeper.load()
        _log.info(
            "engine %s loaded on %s: %d slots of %d frames", facts.name, facts.device, facts.slots, facts.window_frames
        )
        if (facts.input_rate_hz, facts.output_rate_hz) != (self.info.input_rate_hz, self.info.output_rate_hz):
            await self.engine.stop()
            raise EngineLost(
                f"the engine works at {facts.input_rate_hz} and {facts.output_rate_hz} Hz, not as announced"
            )
        self.capacity = facts.slots
        self.info = with_room_for(self.info, facts.slots)
        self._keeper.keep()

    async def unload(self) -> None:
        """Stop the engine; open sessions are gone."""
        _log.info("engine of %s: %s", self.info.name, self.engine.timing)
        await self._keeper.unload()

    async def open(self, request: OpenModel, emit: Emit) -> SteppingSession:
        """Begin a session, or go on from its memory. Raises: ModelRefused."""
        self._refuse(request)
        session = self._session(request, emit, self._keeper.facts())
        return await self._keeper.opened(session, request.session_id)

    def _session(self, request: OpenModel, emit: Emit, facts: EngineFacts) -> SteppingSession:
        """One session that is not open yet, for models whose sessions do more."""
        return SteppingSession(self.engine, facts, request, emit, self._manner)
