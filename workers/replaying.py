"""The worker's half of a replay in one process: the real actor and the real model, and time as the replay has it.

Found by the entry point ``duplex_es.hosts``. While it is *held*, what the model reports waits until ``release``: the
replay says what is decided next, so that the order is the recorded one whatever the pace. Timers then run out only when
``fire`` says so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from duplex_es.log.api import START, EntryId, SessionLog
from duplex_es.model import (
    Emit,
    Model,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelHeardWords,
    ModelInfo,
    ModelInterrupted,
    ModelMeasured,
    ModelSession,
    OpenModel,
    Signal,
)
from duplex_es.session.inputs import TimerFired
from duplex_es.session.state import Session

from .actor import Actor
from .detector import Detectors
from .plugins import make_model

HEARING = (ModelHeardSpeech, ModelHeardSpeechEnd, ModelHeardTurn, ModelHeardWords, ModelInterrupted)
"""What a model reports of the caller."""


class HeldModel:
    """A model whose signals wait while ``is_held``."""

    def __init__(self, model: Model) -> None:
        self.info: ModelInfo = model.info
        self.is_held = True
        self.held: deque[tuple[Emit, Signal]] = deque()
        self.news = asyncio.Event()
        self._model = model

    async def load(self) -> None:
        """See ``Model``."""
        await self._model.load()
        self.info = self._model.info

    async def open(self, request: OpenModel, emit: Emit) -> ModelSession:
        """See ``Model``."""

        def hold(signal: Signal) -> None:
            if self.is_held and isinstance(signal, ModelMeasured):
                return  # How long it took then counts, not how long it takes now: see ``ReplayHost.tell``.
            self.held.append((emit, signal))
            self.news.set()
            if not self.is_held:
                self.let_go()

        return await self._model.open(request, hold)

    async def unload(self) -> None:
        """See ``Model``."""
        await self._model.unload()

    def first(self, hears: bool) -> int | None:
        """Where the first report of the caller, or of the model's own, waits."""
        return next((at for at, (_, one) in enumerate(self.held) if isinstance(one, HEARING) == hears), None)

    def let_go(self) -> None:
        """Hand everything over."""
        while self.held:
            emit, signal = self.held.popleft()
            emit(signal)


class SteppedActor(Actor):
    """An actor whose timers run out when it is told so, as long as it ``is_stepped``."""

    is_stepped = True
    waits = False
    """Whether it has nothing to do."""
    woken = 0
    """How often it was given something."""

    @property
    def consumed(self) -> EntryId:
        """The last input that was decided on."""
        return self._journal.consumed

    def report(self, signal: Signal) -> None:
        """The model reports this."""
        self._hear(signal)

    def fire(self, timer: str) -> None:
        """This timer runs out."""
        self._inbox.append((TimerFired(timer), None))
        self._awake.set()

    def _arm_timers(self) -> None:
        if not self.is_stepped:
            super()._arm_timers()

    async def _wait(self, reader: asyncio.Task[None]) -> None:
        self.waits = True
        try:
            await super()._wait(reader)
        finally:
            self.waits = False
            self.woken += 1


class ReplayHost:
    """Serves the one session of ``log`` with the model of this name. Use ``load`` first and ``close`` last."""

    def __init__(self, log: SessionLog, model: str, options: Mapping[str, str], clock_ms: Callable[[], int]) -> None:
        """Raises: whatever keeps the plug-in from being found or made."""
        self._log = log
        self._model = HeldModel(make_model(model, options))
        self._clock_ms = clock_ms
        self._detectors = Detectors()
        self._actor: SteppedActor | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_held = True

    @property
    def model_name(self) -> str:
        """The model that is asked for."""
        return self._model.info.name

    @property
    def session(self) -> Session:
        """The state as it is now."""
        return Session() if self._actor is None else self._actor.session

    @property
    def has_ended(self) -> bool:
        """Whether the worker is done with the session."""
        return self._task is not None and self._task.done()

    async def load(self) -> None:
        """Load the model. Raises: whatever keeps it from loading."""
        await self._model.load()

    async def serve(self, worker: str, max_session_s: float | None = None) -> None:
        """A worker takes the session; the one before it, if any, has died without a word."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._actor is not None:
            await self._log.release(self._actor.claim)
        self._model.held.clear()
        claimed = await self._log.claim(worker, [self._model.info.name])
        if claimed is None:
            raise LookupError(f"the session is not one of {self._model.info.name}")
        self._actor = SteppedActor(
            self._log,
            *claimed,
            self._model,
            detectors=self._detectors,
            clock_ms=self._clock_ms,
            max_session_s=max_session_s,
        )
        self._actor.is_stepped = self._is_held
        self._task = asyncio.create_task(self._actor.run())

    async def settle(self, heard: EntryId = START) -> None:
        """Return when everything up to the input ``heard`` was decided on and done, or the session is over."""
        while self._actor is not None and not self.has_ended:
            if self._actor.waits and self._actor.consumed >= heard:
                return
            await asyncio.sleep(0.0002)

    async def release(self, hears: bool, within_s: float) -> bool:
        """Hand over the next thing the model reports; False when there is none in this time.

        ``hears``: of what it reports of the caller, else of what it says itself. Each has its own order.
        """
        model = self._model
        try:
            async with asyncio.timeout(within_s):
                while (at := model.first(hears)) is None:
                    if self.has_ended:
                        return False
                    model.news.clear()
                    await model.news.wait()
        except TimeoutError:
            return False
        emit, signal = model.held[at]
        del model.held[at]
        await self._after(lambda: emit(signal))
        return True

    async def tell(self, signal: Signal) -> None:
        """The model reports this, as it was recorded."""
        if (actor := self._actor) is not None:
            await self._after(lambda: actor.report(signal))

    async def _after(self, cause: Callable[[], None]) -> None:
        """Give the waiting actor something to do, and return when it is done."""
        if self._actor is None:
            return
        woken = self._actor.woken
        cause()
        while self._actor.woken == woken and not self.has_ended:
            await asyncio.sleep(0)
        await self.settle()

    async def fire(self, timer: str) -> None:
        """This timer of the session runs out."""
        if (actor := self._actor) is not None:
            await self._after(lambda: actor.fire(timer))

    async def lose_socket(self, generation: int) -> None:
        """The gateway of this socket died."""
        if (actor := self._actor) is not None:
            await self._after(lambda: actor.socket_lost(generation))

    def let_go(self) -> None:
        """From now on the model and the timers have their own time."""
        self._is_held = self._model.is_held = False
        if self._actor is not None:
            self._actor.is_stepped = False
        self._model.let_go()

    async def close(self) -> None:
        """End the worker and free the model."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._detectors.close()
        await self._model.unload()


HOST = ReplayHost
