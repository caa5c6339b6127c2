"""The loaded model: its card, its engine's process, started again when it dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from msgspec.structs import replace

from duplex_es.model import Emit, ModelRefused, OpenModel
from workers.engine.contract import EngineFacts
from workers.engine.process import EngineLost, EngineProcess

from ..cards import MINICPM, RUNTIME
from ..options import read_options
from .options import NAME, MiniCPMOptions
from .reference import reference
from .session import UnitSession

FACTORY = "workers.neural_minicpmo.engine:make"
LOADING_S = 900.0
REST_S = 1.0
LONGEST_REST_S = 30.0

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
        self._engine = EngineProcess(FACTORY, self.options.engine, python=self.options.python)
        self._facts: EngineFacts | None = None
        self._sessions: set[UnitSession] = set()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def engine(self) -> EngineProcess:
        """The engine's process, for those who watch its timing."""
        return self._engine

    async def load(self) -> None:
        """Start the engine and load its weights. Raises: EngineLost with the reason."""
        facts = self._facts = await self._engine.start(timeout_s=LOADING_S)
        _log.info("engine %s loaded on %s: %d objects", facts.name, facts.device, facts.slots)
        self.capacity = facts.slots
        self._keeper = asyncio.create_task(self._keep(), name="duplex-es-engine-keeper")

    async def unload(self) -> None:
        """Stop the engine; open sessions are gone."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
        await self._engine.stop()

    async def open(self, request: OpenModel, emit: Emit) -> UnitSession:
        """Begin a session; after a takeover, from its settings, its voice and the words of its history.

        Raises: ModelRefused.
        """
        if not MINICPM.is_native(request):
            message = "session.extra_body.native_duplex must be true: this worker serves the model's native lane only."
            raise ModelRefused(RUNTIME, message, "session.extra_body.native_duplex")
        MINICPM.refuse(request)
        if self._facts is None or not self._engine.is_alive:
            raise ModelRefused("runtime_open_failed", "The model is being loaded; try again.")
        voice = await reference(request, self.options.allowed)
        session = UnitSession(
            self._engine,
            self._facts,
            request,
            emit,
            voice.tobytes(),
            answers_by_itself=answers_by_itself(request),
            real_time=self.real_time,
        )
        try:
            await session.open()
        except EngineLost as error:
            _log.error("session=%s not opened: %s", request.session_id, error)
            raise ModelRefused("runtime_open_failed", "The model could not be opened.") from error
        self._sessions = {one for one in self._sessions if one.is_open} | {session}
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


def answers_by_itself(request: OpenModel) -> bool:
    """Whether the session lets the model decide when to speak; otherwise it is asked to."""
    said = [request.extra_body[key] for key in ("auto_response", "full_duplex") if key in request.extra_body]
    return bool(said) and said[0] is True
