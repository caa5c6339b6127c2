"""The worker host: claims sessions up to its slots, keeps their claims, hands them over when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

import msgspec

from duplex_es.log.api import Claim, Head, SessionLog, WorkerCard
from duplex_es.log.errors import LogError, LogUnavailable, SessionUnknown
from duplex_es.model import Model
from duplex_es.observability.outlets import NOWHERE, Outlets
from duplex_es.observability.readiness import Readiness
from duplex_es.session.lifecycle import DISCONNECT_GRACE_S

from .actor import Actor
from .detector import Detectors
from .retention import Limits
from .strangers import Strangers

RENEW_EVERY_S = 2.0
LOOK_EVERY_S = 10.0
WAIT_S = 1.0
RETRY_S = 0.5
SERVING, MODEL, LOG = "serving", "model", "log"
"""What has to be so for sessions to be taken: not stopping, a model that can be opened, and a log that answers."""

_log = logging.getLogger(__name__)


class Host:
    """Runs the actors of one worker process. ``run`` returns after ``stop``, with every session handed over.

    A claim that the log says is lost ends its actor at once; whatever that actor still holds is never written.
    ``readiness`` says whether new sessions are taken, and why not; ``log_answers`` is what was seen of the log last.
    """

    def __init__(
        self,
        log: SessionLog,
        model: Model,
        *,
        worker: str,
        slots: int,
        drain_s: float = 20.0,
        limits: Limits | None = None,
        idle_ttl_s: float | None = None,
        disconnect_grace_s: float = DISCONNECT_GRACE_S,
        max_session_s: float | None = None,
        detectors: Detectors | None = None,
        outlets: Outlets = NOWHERE,
    ) -> None:
        self._log = log
        self._model = model
        self._worker = worker
        self._most_slots = slots
        self._drain_s = drain_s
        self._limits = limits or Limits()
        self._idle_ttl_s = idle_ttl_s
        self._disconnect_grace_s = disconnect_grace_s
        self._max_session_s = max_session_s
        self._detectors = detectors or Detectors()
        self._outlets = outlets
        self._strangers = Strangers()
        self._actors: dict[Claim, tuple[Actor, asyncio.Task[None]]] = {}
        self._stopping = asyncio.Event()
        self._freed = asyncio.Event()
        self._changed = asyncio.Event()
        self._looked_at_s = time.monotonic()
        self.readiness = Readiness(SERVING, MODEL, LOG)
        self.readiness.passes(SERVING)
        self.readiness.passes(MODEL)  # Whoever loads it says so while it does.
        self.log_answers = False

    @property
    def ready(self) -> bool:
        """Whether new sessions are taken."""
        return self.readiness.ready

    @property
    def reason(self) -> str:
        """Why they are not; empty when they are."""
        return self.readiness.reason

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stopping.is_set()

    @property
    def model_is_up(self) -> bool:
        """Whether the model's engine runs, if it has one that can die."""
        engine = getattr(self._model, "engine", None)
        return engine is None or bool(engine.is_alive)

    @property
    def _slots(self) -> int:
        """How many sessions are taken: as many as the settings allow, but no more than the model has room for."""
        return slots_of(self._model, self._most_slots)

    @property
    def used(self) -> int:
        """How many slots are taken."""
        return len(self._actors)

    @property
    def free(self) -> int:
        """How many more sessions it would take now."""
        return 0 if self.is_stopping else max(0, self._slots - self.used)

    @property
    def attached(self) -> int:
        """How many of its sessions have a socket."""
        return sum(actor.session.attached for actor, _ in self._actors.values())

    def look_at_model(self) -> bool:
        """Note whether the model can be opened; what it said of loading stands until it has loaded."""
        if self.log_answers and not self.model_is_up:
            self._fails(MODEL, "the engine is gone; it is being started again")
        elif self.log_answers:
            self.readiness.passes(MODEL)
        return self.model_is_up

    def stop(self) -> None:
        """Take no more sessions and let go of those there are, each at its next turn boundary. Idempotent."""
        self._stopping.set()
        self._freed.set()
        self._fails(SERVING, "stopping")

    async def run(self) -> None:
        """Serve until ``stop``. An unreachable log is waited for; the worker is not ready meanwhile.

        Raises: LogError when the log is reached but not fit, or refuses what every worker must do.
        """
        keepers: list[asyncio.Task[None]] = []
        try:
            while not self._stopping.is_set():
                try:
                    if not keepers:
                        await self._log.connect()
                        keepers = [
                            asyncio.create_task(self._keep(), name="claims"),
                            asyncio.create_task(self._show_changes(), name="card"),
                        ]
                    await self._claim_one()
                except LogUnavailable as error:
                    self._not_ready(f"log unavailable: {error}")
                    await self._pause(RETRY_S)
            await self._drain()
        finally:
            tasks = [*keepers, *(task for _, task in self._actors.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._detectors.close()
        if keepers:
            await self._leave()

    # -- taking sessions -------------------------------------------------------------------------------------------

    async def _claim_one(self) -> None:
        """Claim one session if there is a slot and one waits; else wait for either."""
        if self.used >= self._slots:
            self._freed.clear()
            await self._freed.wait()
            return
        if not self.look_at_model():
            await self._pause(RETRY_S)  # Another worker can open it now.
            return
        if (pause_s := self._strangers.pause_s()) > 0:
            await self._pause(pause_s)
        claimed = await self._log.claim(self._worker, [self._model.info.name])
        self._log_answers()
        if claimed is not None:
            self._start(*claimed)
            return
        waiting = asyncio.ensure_future(self._log.wait_for_ready(WAIT_S))
        stopping = asyncio.ensure_future(self._stopping.wait())
        _, pending = await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if not waiting.cancelled():
            waiting.result()

    def _start(self, claim: Claim, head: Head) -> None:
        actor = Actor(
            self._log,
            claim,
            head,
            self._model,
            detectors=self._detectors,
            limits=self._limits,
            idle_ttl_s=self._idle_ttl_s,
            disconnect_grace_s=self._disconnect_grace_s,
            max_session_s=self._max_session_s,
            give_back_after_s=self._strangers.wait_s(claim.ref),
            outlets=self._outlets,
        )
        task = asyncio.create_task(actor.run(), name=f"session {claim.ref.session_id}")
        self._actors[claim] = (actor, task)
        self._changed.set()
        task.add_done_callback(lambda done: self._ended(claim, done))
        if self._stopping.is_set():
            actor.stop()
        _log.info(
            "session=%s incarnation=%d claim=%d claimed, %d of %d slots taken",
            claim.ref.session_id,
            claim.ref.incarnation,
            claim.fence,
            self.used,
            self._slots,
        )

    def _ended(self, claim: Claim, done: asyncio.Task[None]) -> None:
        actor, _ = self._actors.pop(claim)
        if actor.given_back:
            self._strangers.met(claim.ref)
        self._freed.set()
        self._changed.set()
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.error("session=%s claim=%d failed", claim.ref.session_id, claim.fence, exc_info=error)
        else:
            _log.info("session=%s claim=%d ended", claim.ref.session_id, claim.fence)

    # -- keeping them ----------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Renew the claims and say that this worker lives, again and again, whatever happens to one attempt."""
        while True:
            began = time.monotonic()
            try:
                await self._renew()
                self._log_answers()
            except LogUnavailable as error:
                self._not_ready(f"log unavailable: {error}")
            except Exception as error:
                # Without renewal every session here is lost in seconds: the next attempt may do better.
                _log.exception("the claims could not be renewed")
                self._not_ready(f"claims not renewed: {error}")
            await asyncio.sleep(max(0.0, RENEW_EVERY_S - (time.monotonic() - began)))

    async def _show_changes(self) -> None:
        """Say at once how many slots are free now: admission reads the cards, and new sessions come faster than they

        are renewed. A card that could not be written is written again with the next renewal.
        """
        while True:
            await self._changed.wait()
            self._changed.clear()
            with contextlib.suppress(LogError):
                await self._log.register(self._card())

    async def _renew(self) -> None:
        """Say that this worker lives, keep its claims, and look after sessions whose gateway may have died."""
        await self._log.register(self._card())
        for lost in await self._log.renew([], list(self._actors)):
            if isinstance(lost, Claim) and lost in self._actors:
                _log.warning("session=%s claim=%d lost", lost.ref.session_id, lost.fence)
                self._actors[lost][1].cancel()
        if time.monotonic() - self._looked_at_s >= LOOK_EVERY_S:
            self._looked_at_s = time.monotonic()
            await self._look_for_sockets()

    async def _look_for_sockets(self) -> None:
        """Tell the sessions whose gateway died without a goodbye: nobody renews their attachment any more."""
        for claim, (actor, _) in list(self._actors.items()):
            if not actor.session.attached:
                continue
            try:
                head = await self._log.head(claim.ref.session_id)
            except SessionUnknown:
                continue  # The renewal of its claim says so too.
            if head.ref == claim.ref and not head.attached:
                actor.socket_lost(head.generation)

    def _card(self) -> WorkerCard:
        info = self._model.info
        slots = 0 if self._stopping.is_set() or not self.model_is_up else self._slots
        return WorkerCard(
            worker=self._worker, models={info.name: msgspec.msgpack.encode(info)}, slots=slots, used=self.used
        )

    # -- letting go ------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Wait for every actor to reach a turn boundary, at most ``drain_s``; then let go of the rest as they are."""
        for actor, _ in self._actors.values():
            actor.stop()
        tasks = [task for _, task in self._actors.values()]
        if not tasks:
            return
        _log.info("handing over %d sessions", len(tasks))
        await asyncio.wait(tasks, timeout=self._drain_s)
        rest = dict(self._actors)
        for claim, (_, task) in rest.items():
            _log.warning("session=%s claim=%d let go in the middle of a turn", claim.ref.session_id, claim.fence)
            task.cancel()
        await asyncio.gather(*(task for _, task in rest.values()), return_exceptions=True)
        for claim in rest:
            # A successor takes over at once; nobody waits for the lease. What is lost already is no concern any more.
            with contextlib.suppress(LogError):
                await self._log.release(claim)

    async def _leave(self) -> None:
        try:
            await self._log.unregister(self._worker)
        except LogError as error:
            _log.warning("could not unregister: %s", error)

    # -- readiness -------------------------------------------------------------------------------------------------

    def _log_answers(self) -> None:
        was_ready, self.log_answers = self.ready, True
        self.readiness.passes(LOG)
        if self.ready and not was_ready:
            _log.info("ready")

    def _not_ready(self, reason: str) -> None:
        self.log_answers = False
        self._fails(LOG, reason)

    def _fails(self, check: str, reason: str) -> None:
        before = self.reason
        self.readiness.fails(check, reason)
        if self.reason != before:
            _log.log(logging.INFO if self.is_stopping else logging.ERROR, "not ready: %s", self.reason)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


def slots_of(model: Model, most: int) -> int:
    """``most``, or fewer if the model says in ``capacity`` that it has room for fewer once it is loaded."""
    capacity = getattr(model, "capacity", None)
    return most if capacity is None else min(most, capacity)
