"""The worker host: claims sessions up to its slots, keeps their claims, hands them over when it stops."""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from duplex_es.log.api import Claim, Head, SessionLog, WorkerCard
from duplex_es.log.errors import LogUnavailable
from duplex_es.model import Model

from .actor import Actor

RENEW_EVERY_S = 2.0
WAIT_S = 1.0
RETRY_S = 0.5

_log = logging.getLogger(__name__)


class Host:
    """Runs the actors of one worker process. ``run`` returns after ``stop``, with every session handed over.

    A claim that the log says is lost ends its actor at once; whatever that actor still holds is never written.
    """

    def __init__(self, log: SessionLog, model: Model, *, worker: str, slots: int, drain_s: float = 20.0) -> None:
        self._log = log
        self._model = model
        self._worker = worker
        self._slots = slots
        self._drain_s = drain_s
        self._actors: dict[Claim, tuple[Actor, asyncio.Task[None]]] = {}
        self._stopping = asyncio.Event()
        self._freed = asyncio.Event()
        self.ready = False
        self.reason = "starting"

    @property
    def used(self) -> int:
        """How many slots are taken."""
        return len(self._actors)

    def stop(self) -> None:
        """Take no more sessions and let go of those there are, each at its next turn boundary."""
        self._stopping.set()
        self._freed.set()

    async def run(self) -> None:
        """Serve until ``stop``. An unreachable log is waited for; the worker is not ready meanwhile."""
        keeper = asyncio.create_task(self._keep())
        try:
            while not self._stopping.is_set():
                try:
                    await self._claim_one()
                except LogUnavailable as error:
                    self._not_ready(f"log unavailable: {error}")
                    await self._pause(RETRY_S)
            await self._drain()
        finally:
            keeper.cancel()
            for _, task in self._actors.values():
                task.cancel()
            await asyncio.gather(keeper, *(task for _, task in self._actors.values()), return_exceptions=True)
            self.ready = False
        await self._leave()

    async def _claim_one(self) -> None:
        """Claim one session if there is a slot and one waits; else wait for either."""
        if self.used >= self._slots:
            self._freed.clear()
            await self._freed.wait()
            return
        claimed = await self._log.claim(self._worker, [self._model.info.name])
        self.ready, self.reason = True, ""
        if claimed is not None:
            self._start(*claimed)
            return
        waiting = asyncio.ensure_future(self._log.wait_for_ready(WAIT_S))
        stopping = asyncio.ensure_future(self._stopping.wait())
        _, pending = await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if waiting.done() and not waiting.cancelled():
            waiting.result()

    def _start(self, claim: Claim, head: Head) -> None:
        actor = Actor(self._log, claim, head, self._model)
        task = asyncio.create_task(actor.run(), name=f"session {claim.ref.session_id}")
        self._actors[claim] = (actor, task)
        task.add_done_callback(lambda done: self._ended(claim, done))
        _log.info(
            "session=%s incarnation=%d claim=%d claimed, %d of %d slots taken",
            claim.ref.session_id,
            claim.ref.incarnation,
            claim.fence,
            self.used,
            self._slots,
        )

    def _ended(self, claim: Claim, done: asyncio.Task[None]) -> None:
        self._actors.pop(claim, None)
        self._freed.set()
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.error("session=%s claim=%d failed", claim.ref.session_id, claim.fence, exc_info=error)
        else:
            _log.info("session=%s claim=%d ended", claim.ref.session_id, claim.fence)

    async def _keep(self) -> None:
        """Renew the claims and say that this worker lives, again and again."""
        while True:
            began = time.monotonic()
            try:
                await self._log.register(self._card())
                for lost in await self._log.renew([], list(self._actors)):
                    if isinstance(lost, Claim) and lost in self._actors:
                        _log.warning("session=%s claim=%d lost", lost.ref.session_id, lost.fence)
                        self._actors[lost][1].cancel()
            except LogUnavailable as error:
                self._not_ready(f"log unavailable: {error}")
            await asyncio.sleep(max(0.0, RENEW_EVERY_S - (time.monotonic() - began)))

    def _card(self) -> WorkerCard:
        info = self._model.info
        slots = 0 if self._stopping.is_set() else self._slots
        return WorkerCard(
            worker=self._worker, models={info.name: msgspec.msgpack.encode(info)}, slots=slots, used=self.used
        )

    async def _drain(self) -> None:
        """Wait for every actor to reach a turn boundary, at most ``drain_s``; the rest is left to the lease."""
        for actor, _ in self._actors.values():
            actor.stop()
        tasks = [task for _, task in self._actors.values()]
        if tasks:
            _log.info("handing over %d sessions", len(tasks))
            await asyncio.wait(tasks, timeout=self._drain_s)

    async def _leave(self) -> None:
        try:
            await self._log.unregister(self._worker)
        except LogUnavailable as error:
            _log.warning("could not unregister: %s", error)

    def _not_ready(self, reason: str) -> None:
        if self.ready or self.reason != reason:
            _log.error("not ready: %s", reason)
        self.ready, self.reason = False, reason

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return
