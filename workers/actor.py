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
from duplex_es.model import Model, ModelRemembered, Signal
from duplex_es.observability.origin import trace_of
from duplex_es.observability.outlets import NOWHERE, Outlets
from duplex_es.observability.tracing import TraceContext
from duplex_es.protocol import AppendAudio, SocketAttached, SocketDetached, given
from duplex_es.protocol.records import OpenSession, RecordUnreadable, RefuseCommand, unpack_input
from duplex_es.session.effects import Effect, RestartModel
from duplex_es.session.inputs import AudioArrived, Input, ModelLost, OpenAs, TimerFired, WorkerTookOver
from duplex_es.session.lifecycle import (
    DISCONNECT_GRACE_S,
    IDLE_TIMER,
    IDLE_TTL_TIMER,
    keeps_alive,
    open_model,
    timers,
)
from duplex_es.session.state import Session, replace
from duplex_es.session.step import Decision, step

from .detector import Detectors
from .intake import Intake
from .journal import Journal
from .last_words import end_with_error
from .listener import Heard
from .opening import card_for, opening_voice, reference_voice
from .performer import OpeningFailed, Performer
from .recovery import Recovered, WrittenByAnotherBuild, recover
from .rehearing import unsettled_sound
from .retention import Limits
from .upkeep import Upkeep
from .watching import SessionWatch

BATCH = 64
"""Inputs decided in one go; their records share one append."""
RELEASE_WITHIN_S = 2.0
"""How long giving a claim back may take; after that its lease has to run out."""

_log = logging.getLogger(__name__)


def _goes_on_with(said: Input) -> bool:
    """Whether this belongs to the frame whose memory came before it."""
    return isinstance(said, Signal) and not isinstance(said, ModelRemembered)


def unix_ms() -> int:
    """The wall clock, as records carry it."""
    return time.time_ns() // 1_000_000


class Act(NamedTuple):
    """One effect to perform, the state after its decision and the last input taken in by then.

    ``heard`` is the sound it is about, if it is about any.
    """

    effect: Effect
    session: Session
    consumed: EntryId
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
        limits: Limits | None = None,
        idle_ttl_s: float | None = None,
        disconnect_grace_s: float = DISCONNECT_GRACE_S,
        max_session_s: float | None = None,
        give_back_after_s: float | None = 0.0,
        clock_ms: Callable[[], int] = unix_ms,
        outlets: Outlets = NOWHERE,
    ) -> None:
        self.claim = claim
        self.session = Session()
        self._log = log
        self._head = head
        self._model = model
        self._clock_ms = clock_ms
        self._watch = SessionWatch(claim, outlets)
        self._journal = Journal(head.output.number, START)
        self._inbox: deque[tuple[Input, EntryId | None]] = deque()
        self._awake = asyncio.Event()
        self._stopping = False
        detectors = detectors or Detectors()
        self._intake = Intake(model.info, detectors)
        self._performer = Performer(log, claim, model, self._hear, detectors, self._watch)
        self._limits = limits or Limits()
        self._upkeep = Upkeep(log, claim, Recovered(Session(), head.output.number, START))
        self._idle_ttl_s = idle_ttl_s
        self._disconnect_grace_s = disconnect_grace_s
        self._max_session_s = max_session_s
        self._give_back_after_s = give_back_after_s
        self.given_back = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._timer_ms: dict[str, int] = {}
        self._quiet_from_s = {IDLE_TIMER: 0.0, IDLE_TTL_TIMER: 0.0}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0

    # -- outside -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the session until it ends, the claim is lost, or ``stop`` found a turn boundary.

        Never raises for a lost claim or an unreachable log; both are logged, the session waits for its next owner.
        Anything else that goes wrong is logged with the session's id and seq and ends the session in the log: its
        client is told, and the input that did it is not decided on again. Other sessions are not touched.
        """
        session_id, fence = self.claim.ref.session_id, self.claim.fence
        self._watch.begins(lambda: self._journal.seq)
        try:
            async with self._log.follow_input(self.claim.ref) as follower:
                await self._serve(follower)
        except (Fenced, SessionUnknown) as error:
            self._watch.leaves("fenced")
            _log.info("session=%s claim=%d lost: %s", session_id, fence, type(error).__name__)
        except LogUnavailable as error:
            self._watch.leaves("given_back")
            _log.error("session=%s claim=%d given up, log unavailable: %s", session_id, fence, error)
            await self._release()
        except WrittenByAnotherBuild as error:
            await self._give_back(error)
        except Exception as error:
            self._watch.leaves("failed")
            _log.exception("session=%s claim=%d seq=%d failed", session_id, fence, self._journal.seq)
            await end_with_error(self._log, self.claim, self._clock_ms(), words=not isinstance(error, TailLost))
        finally:
            for handle in (*self._timers.values(), self._alarm):
                if handle is not None:
                    handle.cancel()
            self._watch.ended()
            await self._performer.close_model(goes_on=True)  # Of a session that has ended it is closed already.

    async def _give_back(self, error: WrittenByAnotherBuild) -> None:
        """Let a worker that can read the session have it; the first in the queue may well be this one again."""
        session_id, fence, wait_s = self.claim.ref.session_id, self.claim.fence, self._give_back_after_s
        if wait_s is None:
            _log.error("session=%s claim=%d nobody could read its log: %s", session_id, fence, error)
            await end_with_error(self._log, self.claim, self._clock_ms(), last_resort=True)
            return
        self.given_back = True
        self._watch.leaves("given_back")
        _log.error("session=%s claim=%d given back, its log is another build's: %s", session_id, fence, error)
        await asyncio.sleep(wait_s)
        await self._release()

    async def _release(self) -> None:
        """Let another worker have the session at once, if the log takes that; else its lease runs out."""
        try:
            async with asyncio.timeout(RELEASE_WITHIN_S):
                await self._log.release(self.claim)
        except (LogError, TimeoutError) as error:
            _log.info("session=%s claim=%d not released: %r", self.claim.ref.session_id, self.claim.fence, error)

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
        recovered = await recover(self._log, self.claim, self._head, self._clock_ms(), self._limits)
        if recovered.session.state != "new":
            self._watch.joins(await trace_of(self._log, self.claim.ref, self._head.generation))
        self._watch.takes(recovered.session, handed_over=recovered.handed_over)
        await self._take_over(recovered)
        self._watch.serves()
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
        self._upkeep = Upkeep(self._log, self.claim, recovered)
        if recovered.unfinished:
            await self._log.append_output(self.claim, recovered.seq + 1, recovered.unfinished)
        if self.session.state == "new":
            return
        if self.session.state == "open":
            items = tuple(one.turn.item_id for one in recovered.committed)
            self._inbox.append((WorkerTookOver(self.claim.fence, self._model.info.can_rebuild, items), None))
            self._performer.committed = recovered.committed
            self._intake.unheard = recovered.unheard
            self._performer.idle_ms = max(0, self._clock_ms() - recovered.retention.marks.newest.at_ms)
            if recovered.snapshot_seq is None:
                self._upkeep.ref_audio = await opening_voice(self._log, self.claim.ref)
            self._performer.ref_audio = self._upkeep.ref_audio
            try:
                await self._performer.open_model(open_model(self.session))
            except OpeningFailed as failed:
                self._lose_model(failed, opening=self._head.opening is None)
                return
        if self._head.opening is None:
            await self._performer.answer_opening(self.session, self._journal)
        if self.session.state == "closed":
            await self._log.close(self.claim, recovered.end or "closed")
            self._performer.ended = True
            return
        # First what was being said goes on; what the caller said meanwhile comes after it.
        await self._turn()
        if not self._performer.ended:
            await self._hear_again(recovered)

    async def _hear_again(self, recovered: Recovered) -> None:
        """Let the new model and the detector hear the caller's turn that is not over; nothing is decided anew."""
        if recovered.unsettled is None:
            return
        sound = unsettled_sound(self._log, self.claim.ref, recovered.unsettled, self.session, recovered.consumed)
        async for again in sound:
            await self._intake.hear_again(self.session, again.heard)
            if not self._remembers_sound:
                await self._performer.feed_again(again, self.session)

    @property
    def _remembers_sound(self) -> bool:
        """A model that steps has in its memory what it heard; it must not hear it twice."""
        info = self.session.info
        return bool(self.session.memory) and info is not None and not info.transcribes

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
                said = self._said(entry)
                self._quiet_from_s[IDLE_TIMER] = now_s()
                if keeps_alive(said):
                    self._quiet_from_s[IDLE_TTL_TIMER] = now_s()
                self._upkeep.arrived(entry)
                self._inbox.append((said, entry.id))
                self._awake.set()

    def _said(self, entry: Entry) -> Input:
        try:
            record = unpack_input(entry.body, entry.audio)
            said = record.said
        except RecordUnreadable as error:
            _log.error("session=%s input=%s unreadable: %s", self.claim.ref.session_id, entry.id, error)
            return RefuseCommand(code="internal_error", message=f"Input {entry.id} cannot be read.")
        self._watch.heard(record.at_ms)
        if isinstance(said, AppendAudio):
            return AudioArrived(command=said)
        if isinstance(said, SocketAttached):
            self._watch.joins(TraceContext.read(given(said.traceparent, None)))
        if isinstance(said, SocketAttached | SocketDetached):
            return replace(said, generation=entry.id.generation)  # What stands in it was known before the attach.
        if isinstance(said, OpenSession):
            ref = self.claim.ref
            self._upkeep.ref_audio = self._performer.ref_audio = reference_voice(said.session)
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
        self._quiet_from_s[IDLE_TTL_TIMER] = asyncio.get_running_loop().time()
        self._inbox.append((signal, None))
        self._awake.set()

    async def _turn(self) -> None:
        """Decide on all there is, write once, act."""
        began_s = self._watch.now_s()
        first_seq = self._journal.seq + 1
        records: list[Record] = []
        acts: list[Act] = []
        left, in_frame = min(BATCH, len(self._inbox)), False
        # What a model remembers of a frame is kept with all that it says of it: both are saved, or neither is.
        while self._inbox and (left > 0 or (in_frame and _goes_on_with(self._inbox[0][0]))):
            left -= 1
            said, entry_id = self._inbox.popleft()
            in_frame = isinstance(said, ModelRemembered) or (in_frame and _goes_on_with(said))
            records += await self._decide(said, entry_id, acts)
            if isinstance(said, OpenAs):
                break  # Nothing else is decided before it is known whether the model opens.
        if records:
            await self._log.append_output(self.claim, first_seq, records)
        for act in acts:
            try:
                await self._performer.perform(act.effect, act.session, self._journal, act.heard, act.consumed)
            except OpeningFailed as failed:
                self._lose_model(failed, opening=not isinstance(act.effect, RestartModel))
                break
        await self._keep_house()
        self._arm_timers()
        self._watch.turned(began_s)

    async def _decide(self, said: Input, entry_id: EntryId | None, acts: list[Act]) -> list[Record]:
        """Decide on one input. What it is taken apart into is one decision in the log: all of it counts, or nothing."""
        consumed = max(self._journal.consumed, entry_id) if entry_id is not None else self._journal.consumed
        decisions: list[Decision] = []
        now_ms = self._clock_ms()
        for part in await self._intake.take(self.session, said):
            decision = step(self.session, part.said, now_ms)
            self.session = decision.session
            self._intake.note(decision.effects, decision.session)
            acts += [Act(effect, decision.session, consumed, part.sound(effect)) for effect in decision.effects]
            decisions.append(decision)
        records = self._journal.take_in(decisions, consumed, now_ms) if decisions else []
        facts = [fact for decision in decisions for fact in decision.facts]
        self._upkeep.decided(facts, self.session, self._journal, records)
        self._watch.decided(facts)
        return records

    async def _wait(self, reader: asyncio.Task[None]) -> None:
        """Until there may be something to do. Raises: SessionUnknown when there will be nothing any more."""
        self._awake.clear()
        if reader.done():
            reader.result()
            raise SessionUnknown(self.claim.ref.session_id)
        await self._awake.wait()

    async def _keep_house(self) -> None:
        """Save and drop what is due, and wake up for the next time."""
        if self._performer.ended:
            return
        now_ms = self._clock_ms()
        wake_ms = await self._upkeep.keep(self.session, self._journal, now_ms)
        if wake_ms is None or (self._alarm is not None and self._alarm_ms <= wake_ms):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = wake_ms
        self._alarm = asyncio.get_running_loop().call_later(max(0, wake_ms - now_ms) / 1000, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._awake.set()

    # -- ends and timers -----------------------------------------------------------------------------------------

    def _at_boundary(self) -> bool:
        """Whether a successor loses nothing: no answer is given or owed, and nobody is in the middle of a sentence."""
        return self.session.is_at_rest and not self._inbox

    async def _hand_over(self) -> None:
        self._watch.leaves("handed_over")
        await self._log.checkpoint(self.claim, self._journal.checkpoint(hands_over=True))
        await self._performer.close_model(goes_on=True)
        await self._log.release(self.claim)

    def _arm_timers(self) -> None:
        """Keep exactly the timers that the state asks for; one whose length changed starts over."""
        wanted = timers(self.session, self._idle_ttl_s, self._disconnect_grace_s)
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
        left_s = self._quiet_from_s[name] + after_ms / 1000 - loop.time() if name in self._quiet_from_s else 0.0
        if left_s > 0:  # Whatever came meanwhile started the silence over.
            self._timers[name] = loop.call_later(left_s, self._fire, name, after_ms)
            return
        del self._timers[name], self._timer_ms[name]
        self._inbox.append((TimerFired(name), None))
        self._awake.set()
