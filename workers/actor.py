"""One claimed session: takes in what is said, decides, writes, and only then acts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable

from duplex_es.log.api import Claim, Entry, EntryId, Follower, Head, Record, SessionLog
from duplex_es.log.errors import Fenced, LogError, LogUnavailable, SessionUnknown
from duplex_es.model import Model, Signal
from duplex_es.protocol import AppendAudio
from duplex_es.protocol.records import OpenSession, RecordUnreadable, RefuseCommand, unpack_input
from duplex_es.session.effects import Effect
from duplex_es.session.inputs import AudioArrived, Input, ModelLost, OpenAs, TimerFired, WorkerTookOver
from duplex_es.session.lifecycle import open_model, timers
from duplex_es.session.state import Session
from duplex_es.session.step import step

from .listener import measured_rms
from .performer import OpeningFailed, Performer
from .recovery import recover

CHECKPOINT_AFTER_MS = 1_000
BATCH = 64
"""Inputs decided in one go; their records share one append."""

_log = logging.getLogger(__name__)


def unix_ms() -> int:
    """The wall clock, as records carry it."""
    return time.time_ns() // 1_000_000


class Actor:
    """Owns one claim from its start to its end. Run it once.

    Order: inputs are decided as the log has them, model signals and timers as they come; whatever a decision shows
    is in the log before any effect of it happens. A lost claim ends the actor without a further trace.
    """

    def __init__(
        self, log: SessionLog, claim: Claim, head: Head, model: Model, *, clock_ms: Callable[[], int] = unix_ms
    ) -> None:
        self.claim = claim
        self._log = log
        self._head = head
        self._model = model
        self._clock_ms = clock_ms
        self._inbox: deque[tuple[Input, EntryId | None]] = deque()
        self._awake = asyncio.Event()
        self._stopping = False
        self._performer = Performer(log, claim, model, self._hear)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._timer_ms: dict[str, int] = {}

    # -- outside -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the session until it ends, the claim is lost, or ``stop`` found a turn boundary.

        Never raises for a lost claim or an unreachable log; both are logged, the session waits for its next owner.
        """
        session_id = self.claim.ref.session_id
        try:
            async with self._log.follow_input(self.claim.ref) as follower:
                await self._serve(follower)
        except (Fenced, SessionUnknown) as error:
            _log.info("session=%s claim=%d lost: %s", session_id, self.claim.fence, type(error).__name__)
        except LogUnavailable as error:
            _log.error("session=%s claim=%d given up, log unavailable: %s", session_id, self.claim.fence, error)
        finally:
            for handle in self._timers.values():
                handle.cancel()
            await self._performer.close_model()

    def stop(self) -> None:
        """Hand the session over at the next turn boundary."""
        self._stopping = True
        self._awake.set()

    # -- the loop ------------------------------------------------------------------------------------------------

    async def _serve(self, follower: Follower) -> None:
        now_ms = self._clock_ms()
        recovered = await recover(self._log, self.claim, self._head, now_ms)
        self.session, self._journal = recovered.session, recovered.journal()
        if recovered.unfinished:
            await self._log.append_output(self.claim, recovered.seq + 1, recovered.unfinished)
        if self.session.state == "closed":
            await self._log.close(self.claim, "closed")
            return
        if self.session.state == "open":
            self._inbox.append((WorkerTookOver(self.claim.fence), None))
            await self._reopen()
        follower.start(recovered.consumed)
        reader = asyncio.create_task(self._read(follower))
        try:
            while not self._performer.ended:
                await self._turn(reader)
                if self._stopping and self._at_boundary():
                    await self._hand_over()
                    return
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, LogError):
                await reader

    async def _reopen(self) -> None:
        try:
            await self._performer.open_model(open_model(self.session))
        except OpeningFailed as failed:
            self._inbox.append((ModelLost(code=failed.code, message=failed.message, param=failed.param), None))

    async def _read(self, follower: Follower) -> None:
        async for entry in follower:
            if isinstance(entry, Entry):
                self._inbox.append((self._said(entry), entry.id))
                self._awake.set()

    def _said(self, entry: Entry) -> Input:
        try:
            said = unpack_input(entry.body, entry.audio).said
        except RecordUnreadable as error:
            _log.error("session=%s input=%s unreadable: %s", self.claim.ref.session_id, entry.id, error)
            return RefuseCommand(code="internal_error", message=f"Input {entry.id} cannot be read.")
        if isinstance(said, AppendAudio):
            return AudioArrived(command=said)
        if isinstance(said, OpenSession):
            ref = self.claim.ref
            return OpenAs(
                command=said,
                session_id=ref.session_id,
                incarnation=ref.incarnation,
                model=self.claim.model,
                info=self._model.info,
            )
        return said

    def _hear(self, signal: Signal) -> None:
        self._inbox.append((signal, None))
        self._awake.set()

    async def _turn(self, reader: asyncio.Task[None]) -> None:
        """Wait for something to decide, decide on all there is, write once, act."""
        if not self._inbox:
            await self._wait(reader)
        first_seq = self._journal.seq + 1
        records: list[Record] = []
        acts: list[tuple[Effect, Input, Session]] = []
        for _ in range(min(BATCH, len(self._inbox))):
            said, entry_id = self._inbox.popleft()
            records += self._decide(said, entry_id, acts)
        if records:
            await self._log.append_output(self.claim, first_seq, records)
        for effect, said, session in acts:
            if not await self._act(effect, said, session):
                break
        self._arm_timers()

    def _decide(self, said: Input, entry_id: EntryId | None, acts: list[tuple[Effect, Input, Session]]) -> list[Record]:
        now_ms = self._clock_ms()
        if isinstance(said, AudioArrived):
            said = AudioArrived(command=said.command, rms=measured_rms(self.session.settings, said.command))
        if entry_id is not None:
            self._timer_ms.pop("idle", None)  # whatever the client says starts the silence over
        consumed = max(self._journal.consumed, entry_id) if entry_id is not None else self._journal.consumed
        decision = step(self.session, said, now_ms)
        self.session = decision.session
        acts += [(effect, said, decision.session) for effect in decision.effects]
        made = self._journal.take_in(decision, consumed, now_ms)
        return made

    async def _act(self, effect: Effect, said: Input, session: Session) -> bool:
        """Perform one effect; ``False`` when the ones after it have lost their ground."""
        try:
            await self._performer.perform(effect, said, session, self._journal)
        except OpeningFailed as failed:
            lost = ModelLost(code=failed.code, message=failed.message, param=failed.param, opening=True)
            self._inbox.appendleft((lost, None))
            return False
        return True

    async def _wait(self, reader: asyncio.Task[None]) -> None:
        """Until there is something to decide, a checkpoint is due, or the reader failed."""
        due_ms = self._journal.checkpoint_due_ms(CHECKPOINT_AFTER_MS)
        self._awake.clear()
        if self._inbox or self._stopping:
            return
        waiter = asyncio.ensure_future(self._awake.wait())
        timeout = None if due_ms is None else max(0.0, (due_ms - self._clock_ms()) / 1000)
        try:
            await asyncio.wait({waiter, reader}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
        if reader.done() and not self._inbox:
            reader.result()
            raise SessionUnknown(self.claim.ref.session_id)
        if not self._inbox and due_ms is not None and self._clock_ms() >= due_ms:
            await self._log.checkpoint(self.claim, self._journal.checkpoint())

    # -- ends and timers -----------------------------------------------------------------------------------------

    def _at_boundary(self) -> bool:
        return not self._inbox and self.session.response is None and self.session.owed is None

    async def _hand_over(self) -> None:
        await self._log.checkpoint(self.claim, self._journal.checkpoint())
        await self._performer.close_model()
        await self._log.release(self.claim)

    def _arm_timers(self) -> None:
        """Keep exactly the timers that the state asks for; one whose length changed starts over."""
        wanted = timers(self.session)
        loop = asyncio.get_running_loop()
        for name in [name for name in self._timers if self._timer_ms.get(name) != wanted.get(name)]:
            self._timers.pop(name).cancel()
        for name, after_ms in wanted.items():
            if name not in self._timers:
                self._timer_ms[name] = after_ms
                self._timers[name] = loop.call_later(after_ms / 1000, self._fire, name)

    def _fire(self, name: str) -> None:
        self._timers.pop(name, None)
        self._timer_ms.pop(name, None)
        self._inbox.append((TimerFired(name), None))
        self._awake.set()
