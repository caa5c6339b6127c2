"""One claimed session: takes in what is said, decides, writes, and only then acts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from duplex_es.log.api import START, Claim, Entry, EntryId, Follower, Head, Record, SessionLog
from duplex_es.log.errors import Fenced, LogError, LogUnavailable, SessionUnknown, TailLost
from duplex_es.model import Model, Signal
from duplex_es.protocol import AppendAudio, SocketDetached
from duplex_es.protocol.records import OpenSession, RecordUnreadable, RefuseCommand, unpack_input
from duplex_es.session.effects import Effect
from duplex_es.session.inputs import AudioArrived, Input, ModelLost, OpenAs, TimerFired, WorkerTookOver
from duplex_es.session.lifecycle import IDLE_TIMER, open_model, timers
from duplex_es.session.state import Session
from duplex_es.session.step import Decision, step

from .detector import Detectors
from .intake import Intake
from .journal import Journal
from .last_words import end_with_error
from .listener import Heard
from .opening import card_for, find_opening, reference_voice
from .performer import OpeningFailed, Performer
from .recovery import Recovered, recover
from .rehearing import unsettled_sound
from .retention import Mark, Retention

CHECKPOINT_AFTER_MS = 1_000
AUDIO_RETENTION_S = 600.0
BATCH = 64
"""Inputs decided in one go; their records share one append."""

_log = logging.getLogger(__name__)


def unix_ms() -> int:
    """The wall clock, as records carry it."""
    return time.time_ns() // 1_000_000


class Act(NamedTuple):
    """One effect to perform, the state after its decision, and the sound it is about, if it is about any."""

    effect: Effect
    session: Session
    heard: Heard | None


class Actor:
    """Owns one claim from its start to its end. Run it once.

    Order: inputs are decided as the log has them, model signals and timers as they come; whatever a decision shows
    is in the log before any effect of it happens. A lost claim ends the actor without a further trace.
    """

    def __init__(
        self,
        log: SessionLog,
        claim: Claim,
        head: Head,
        model: Model,
        *,
        detectors: Detectors | None = None,
        audio_retention_s: float = AUDIO_RETENTION_S,
        max_session_s: float | None = None,
        clock_ms: Callable[[], int] = unix_ms,
    ) -> None:
        self.claim = claim
        self.session = Session()
        self._log = log
        self._head = head
        self._model = model
        self._clock_ms = clock_ms
        self._journal = Journal(head.output.number, START)
        self._inbox: deque[tuple[Input, EntryId | None]] = deque()
        self._awake = asyncio.Event()
        self._stopping = False
        detectors = detectors or Detectors()
        self._intake = Intake(model.info, detectors)
        self._performer = Performer(log, claim, model, self._hear, detectors)
        self._audio_retention_s = audio_retention_s
        self._retention = Retention(audio_retention_s)
        self._max_session_s = max_session_s
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._timer_ms: dict[str, int] = {}
        self._heard_at_s = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    # -- outside -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the session until it ends, the claim is lost, or ``stop`` found a turn boundary.

        Never raises for a lost claim or an unreachable log; both are logged, the session waits for its next owner.
        Anything else that goes wrong is logged with the session's id and seq and ends the session in the log: its
        client is told, and the input that did it is not decided on again. Other sessions are not touched.
        """
        session_id, fence = self.claim.ref.session_id, self.claim.fence
        try:
            async with self._log.follow_input(self.claim.ref) as follower:
                await self._serve(follower)
        except (Fenced, SessionUnknown) as error:
            _log.info("session=%s claim=%d lost: %s", session_id, fence, type(error).__name__)
        except LogUnavailable as error:
            _log.error("session=%s claim=%d given up, log unavailable: %s", session_id, fence, error)
        except Exception as error:
            _log.exception("session=%s claim=%d seq=%d failed", session_id, fence, self._journal.seq)
            await end_with_error(self._log, self.claim, self._clock_ms(), words=not isinstance(error, TailLost))
        finally:
            for handle in (*self._timers.values(), self._alarm):
                if handle is not None:
                    handle.cancel()
            await self._performer.close_model()

    def stop(self) -> None:
        """Hand the session over at the next turn boundary."""
        self._stopping = True
        self._awake.set()

    def socket_lost(self, generation: int) -> None:
        """The gateway that held socket ``generation`` is gone and has not said so; a socket that came since counts."""
        self._inbox.append((SocketDetached(generation=generation, reason="gateway_lost"), None))
        self._awake.set()

    # -- the loop ------------------------------------------------------------------------------------------------

    async def _serve(self, follower: Follower) -> None:
        recovered = await recover(self._log, self.claim, self._head, self._clock_ms())
        await self._take_over(recovered)
        if self._performer.ended:
            return
        follower.start(recovered.consumed)
        reader = asyncio.create_task(self._read(follower))
        reader.add_done_callback(lambda _: self._awake.set())
        try:
            while not self._performer.ended:
                if self._stopping and self._at_boundary():
                    await self._hand_over()
                    return
                if not self._inbox:
                    await self._wait(reader)
                await self._turn()
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, LogError):
                await reader

    async def _take_over(self, recovered: Recovered) -> None:
        """Stand where the log ends: finish what a predecessor left half written, and open the model anew."""
        self.session, self._journal = recovered.session, recovered.journal()
        self._retention = Retention(self._audio_retention_s, recovered.marks)
        if recovered.unfinished:
            await self._log.append_output(self.claim, recovered.seq + 1, recovered.unfinished)
        if self.session.state == "new":
            return
        if self.session.state == "open":
            self._inbox.append((WorkerTookOver(self.claim.fence), None))
            opening = await find_opening(self._log, self.claim.ref)
            self._performer.ref_audio = reference_voice(opening.session) if opening else None
            try:
                await self._performer.open_model(open_model(self.session))
            except OpeningFailed as failed:
                self._lose_model(failed, opening=self._head.opening is None)
                return
            await self._hear_again(recovered)
        if self._head.opening is None:
            await self._performer.answer_opening(self.session, self._journal)
        if self.session.state == "closed":
            await self._log.close(self.claim, recovered.end or "closed")
            self._performer.ended = True

    async def _hear_again(self, recovered: Recovered) -> None:
        """Let the new model and the detector hear the caller's turn that is not over; nothing is decided anew."""
        if recovered.unsettled is None:
            return
        sound = unsettled_sound(self._log, self.claim.ref, recovered.unsettled, self.session, recovered.consumed)
        async for again in sound:
            await self._intake.hear_again(self.session, again.heard)
            await self._performer.feed_again(again, self.session)

    def _lose_model(self, failed: OpeningFailed, *, opening: bool) -> None:
        """Decide next that there is no model, before anything else that waits but the takeover itself."""
        lost = ModelLost(code=failed.code, message=failed.message, param=failed.param, opening=opening)
        if opening:
            self._inbox.appendleft((lost, None))
        else:
            self._inbox.append((lost, None))

    async def _read(self, follower: Follower) -> None:
        now_s = asyncio.get_running_loop().time
        async for entry in follower:
            if isinstance(entry, Entry):
                self._heard_at_s = now_s()
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
            self._performer.ref_audio = reference_voice(said.session)
            return OpenAs(
                command=said,
                session_id=ref.session_id,
                incarnation=ref.incarnation,
                model=self.claim.model,
                info=card_for(self._model.info, said.session),
                max_session_s=self._max_session_s,
            )
        return said

    def _hear(self, signal: Signal) -> None:
        self._inbox.append((signal, None))
        self._awake.set()

    async def _turn(self) -> None:
        """Decide on all there is, write once, act."""
        first_seq = self._journal.seq + 1
        records: list[Record] = []
        acts: list[Act] = []
        for _ in range(min(BATCH, len(self._inbox))):
            said, entry_id = self._inbox.popleft()
            records += await self._decide(said, entry_id, acts)
            if isinstance(said, OpenAs):
                break  # Nothing else is decided before it is known whether the model opens.
        if records:
            await self._log.append_output(self.claim, first_seq, records)
        for act in acts:
            try:
                await self._performer.perform(act.effect, act.session, self._journal, act.heard)
            except OpeningFailed as failed:
                self._lose_model(failed, opening=True)
                break
        await self._keep_house()
        self._arm_timers()

    async def _decide(self, said: Input, entry_id: EntryId | None, acts: list[Act]) -> list[Record]:
        """Decide on one input. What it is taken apart into is one decision in the log: all of it counts, or nothing."""
        consumed = max(self._journal.consumed, entry_id) if entry_id is not None else self._journal.consumed
        decisions: list[Decision] = []
        now_ms = self._clock_ms()
        for part in await self._intake.take(self.session, said):
            decision = step(self.session, part.said, now_ms)
            self.session = decision.session
            self._intake.note(decision.effects)
            acts += [Act(effect, decision.session, part.sound(effect)) for effect in decision.effects]
            decisions.append(decision)
        return self._journal.take_in(decisions, consumed, now_ms) if decisions else []

    async def _wait(self, reader: asyncio.Task[None]) -> None:
        """Until there may be something to do. Raises: SessionUnknown when there will be nothing any more."""
        self._awake.clear()
        if reader.done():
            reader.result()
            raise SessionUnknown(self.claim.ref.session_id)
        await self._awake.wait()

    async def _keep_house(self) -> None:
        """Checkpoint what no record has taken along in time, drop sound that is too old, and wake up for the next."""
        if self._performer.ended:
            return
        now_ms = self._clock_ms()
        due_ms = self._journal.checkpoint_due_ms(CHECKPOINT_AFTER_MS)
        if due_ms is not None and due_ms <= now_ms:
            await self._log.checkpoint(self.claim, self._journal.checkpoint())
            due_ms = None
        self._retention.note(Mark(now_ms, self._journal.consumed, self._journal.seq))
        if (bounds := self._retention.due(now_ms)) is not None:
            await self._drop_sound(*bounds)
        wake_ms = min((at_ms for at_ms in (due_ms, self._retention.due_ms) if at_ms is not None), default=None)
        if self._alarm is None and wake_ms is not None:
            self._alarm = asyncio.get_running_loop().call_later(max(0, wake_ms - now_ms) / 1000, self._ring)

    async def _drop_sound(self, input_before: EntryId, output_before: int) -> None:
        try:
            await self._log.trim_audio(self.claim, input_before=input_before, output_before=output_before)
        except LogUnavailable as error:
            _log.warning("session=%s sound not dropped: %s", self.claim.ref.session_id, error)

    def _ring(self) -> None:
        self._alarm = None
        self._awake.set()

    # -- ends and timers -----------------------------------------------------------------------------------------

    def _at_boundary(self) -> bool:
        """Whether a successor loses nothing: no answer is given or owed, and nobody is in the middle of a sentence."""
        return self.session.is_at_rest and not self._inbox

    async def _hand_over(self) -> None:
        await self._log.checkpoint(self.claim, self._journal.checkpoint())
        await self._performer.close_model()
        await self._log.release(self.claim)

    def _arm_timers(self) -> None:
        """Keep exactly the timers that the state asks for; one whose length changed starts over."""
        wanted = timers(self.session)
        if wanted == self._timer_ms:
            return
        loop = asyncio.get_running_loop()
        for name in [name for name in self._timers if self._timer_ms.get(name) != wanted.get(name)]:
            self._timers.pop(name).cancel()
        for name, after_ms in wanted.items():
            if name not in self._timers:
                self._timers[name] = loop.call_later(after_ms / 1000, self._fire, name, after_ms)
        self._timer_ms = wanted

    def _fire(self, name: str, after_ms: int) -> None:
        loop = asyncio.get_running_loop()
        left_s = self._heard_at_s + after_ms / 1000 - loop.time() if name == IDLE_TIMER else 0.0
        if left_s > 0:  # Whatever the client said meanwhile started the silence over.
            self._timers[name] = loop.call_later(left_s, self._fire, name, after_ms)
            return
        del self._timers[name], self._timer_ms[name]
        self._inbox.append((TimerFired(name), None))
        self._awake.set()
