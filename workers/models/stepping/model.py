"""A loaded model that steps: its engine in a process of its own, started again when it dies."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from duplex_es.model import Emit, ModelInfo, ModelRefused, OpenModel
from workers.engine.contract import EngineFacts
from workers.engine.process import EngineLost, EngineProcess

from .session import SteppingSession
from .voice import Manner

LOADING_S = 900.0
REST_S = 1.0
LONGEST_REST_S = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Which engine, with which options, in which interpreter."""

    factory: str
    options: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)


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
        self._engine = EngineProcess(plan.factory, plan.options, python=plan.python, environment=plan.environment)
        self._facts: EngineFacts | None = None
        self._manner = manner
        self._refuse = refuse
        self._sessions: set[SteppingSession] = set()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def engine(self) -> EngineProcess:
        """The engine's process, for those who watch its timing."""
        return self._engine

    async def load(self) -> None:
        """Start the engine and load its weights. Raises: EngineLost with the reason."""
        facts = self._facts = await self._engine.start(timeout_s=LOADING_S)
        _log.info(
            "engine %s loaded on %s: %d slots of %d frames", facts.name, facts.device, facts.slots, facts.window_frames
        )
        if (facts.input_rate_hz, facts.output_rate_hz) != (self.info.input_rate_hz, self.info.output_rate_hz):
            await self._engine.stop()
            raise EngineLost(
                f"the engine works at {facts.input_rate_hz} and {facts.output_rate_hz} Hz, not as announced"
            )
        self.capacity = facts.slots
        self._keeper = asyncio.create_task(self._keep(), name="duplex-es-engine-keeper")

    async def unload(self) -> None:
        """Stop the engine; open sessions are gone."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
        _log.info("engine of %s: %s", self.info.name, self._engine.timing)
        await self._engine.stop()

    async def open(self, request: OpenModel, emit: Emit) -> SteppingSession:
        """Begin a session, or go on from its memory. Raises: ModelRefused."""
        self._refuse(request)
        if self._facts is None or not self._engine.is_alive:
            raise ModelRefused("runtime_open_failed", "The model is being loaded; try again.")
        session = SteppingSession(self._engine, self._facts, request, emit, self._manner)
        try:
            await session.open()
        except EngineLost as error:
            _log.error("session=%s not opened: %s", request.session_id, error)
            raise ModelRefused("runtime_open_failed", "The model could not be opened.") from error
        self._sessions.add(session)
        return session

    async def _keep(self) -> None:
        """Start the engine again whenever it has died, and let its sessions go on."""
        rest_s = REST_S
        while True:
            await self._engine.ended()
            self._sessions = {session for session in self._sessions if session.is_open}
            _log.error("the engine is gone with %d sessions; starting it again", len(self._sessions))
            try:
                await self._engine.start(timeout_s=LOADING_S)
            except EngineLost as error:
                _log.error("the engine cannot be started again: %s; next try in %g s", error, rest_s)
                await asyncio.sleep(rest_s)
                rest_s = min(LONGEST_REST_S, 2 * rest_s)
                continue
            rest_s = REST_S
            for session in self._sessions:
                session.begin_again()
