"""A model's engine, kept alive: started, started again when it dies, and its sessions with it."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, TypeVar

from duplex_es.model import ModelRefused
from workers.engine.contract import EngineFacts
from workers.engine.process import EngineLost, EngineProcess

LOADING_S = 900.0
REST_S = 1.0
LONGEST_REST_S = 30.0

_log = logging.getLogger(__name__)


class KeptSession(Protocol):
    """One session of the engine."""

    @property
    def is_open(self) -> bool:
        """Whether its caller is still there."""

    async def open(self) -> None:
        """Take a place in the engine. Raises: ModelRefused, EngineLost."""

    def begin_again(self) -> None:
        """Go on in an engine that was started anew."""


Session = TypeVar("Session", bound=KeptSession)


class EngineKeeper:
    """Owns ``engine`` and knows its sessions: those that are open go on whenever it has to be started again."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine = engine
        self._facts: EngineFacts | None = None
        self._sessions: set[KeptSession] = set()
        self._keeping: asyncio.Task[None] | None = None

    async def load(self) -> EngineFacts:
        """Start the engine and load its weights. Raises: EngineLost with the reason."""
        self._facts = await self.engine.start(timeout_s=LOADING_S)
        return self._facts

    def keep(self) -> None:
        """From now on start the engine again whenever it has died."""
        self._keeping = asyncio.create_task(self._keep(), name="duplex-es-engine-keeper")

    async def unload(self) -> None:
        """Stop the engine; open sessions are gone. Idempotent."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])
        await self.engine.stop()

    def facts(self) -> EngineFacts:
        """What the engine that runs said of itself. Raises: ModelRefused while it is being loaded."""
        if self._facts is None or not self.engine.is_alive:
            raise ModelRefused("runtime_open_failed", "The model is being loaded; try again.")
        return self._facts

    async def opened(self, session: Session, session_id: str) -> Session:
        """Open ``session`` and keep it for as long as it is. Raises: ModelRefused."""
        try:
            await session.open()
        except EngineLost as error:
            _log.error("session=%s not opened: %s", session_id, error)
            raise ModelRefused("runtime_open_failed", "The model could not be opened.") from error
        self._sessions = {*self._open_sessions(), session}
        return session

    def _open_sessions(self) -> set[KeptSession]:
        return {session for session in self._sessions if session.is_open}

    async def _keep(self) -> None:
        rest_s = REST_S
        while True:
            await self.engine.ended()
            self._sessions = self._open_sessions()
            _log.error("the engine is gone with %d sessions; starting it again", len(self._sessions))
            try:
                await self.load()
            except EngineLost as error:
                _log.error("the engine cannot be started again: %s; next try in %g s", error, rest_s)
                await asyncio.sleep(rest_s)
                rest_s = min(LONGEST_REST_S, 2 * rest_s)
                continue
            rest_s = REST_S
            try:
                for session in self._sessions:
                    session.begin_again()
            except EngineLost as error:
                _log.error("the engine was loaded and is gone again: %s", error)
