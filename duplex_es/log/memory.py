"""The reference implementation of the session log: in this process, obvious on purpose, the oracle of the suite.

It keeps every promise of ``api`` without a network: lists for streams, a dictionary for heads, one event per store to
wake readers. Nothing here waits except followers and ``wait_for_ready``, so each method is atomic by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from .api import (
    Attachment,
    Claim,
    Entry,
    EntryId,
    Head,
    Record,
    SessionRef,
    WorkerCard,
)
from .errors import (
    Fenced,
    IncarnationMismatch,
    PositionGone,
    SessionExists,
    SessionUnknown,
    TailLost,
    TokenRefused,
)
from .memory_follower import MemoryFollower
from .memory_session import MemorySession
from .packing import claim_record
from .settings import LogSettings


class MemoryLog:
    """A ``SessionLog`` in this process. Gateways and workers that share a store share the object.

    ``clock`` returns seconds; tests pass their own to let leases run out.
    """

    def __init__(self, settings: LogSettings | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings or LogSettings()
        self._clock = clock
        self._current: dict[str, MemorySession] = {}
        self._past: dict[SessionRef, MemorySession] = {}
        self._cards: dict[str, tuple[float, WorkerCard]] = {}
        self.notes: dict[str, list[bytes]] = {}
        self._ready = asyncio.Event()

    async def connect(self) -> None:
        """Nothing to check."""

    async def close_connections(self) -> None:
        """Nothing to give back."""

    async def ping(self) -> None:
        """Always answers."""

    # -- looking sessions up ---------------------------------------------------------------------------------------

    def _forget_expired(self) -> None:
        now_s = self._clock()
        for session in [*self._current.values(), *self._past.values()]:
            if session.expires_s is not None and session.expires_s <= now_s:
                self._past.pop(session.ref, None)
                if self._current.get(session.ref.session_id) is session:
                    del self._current[session.ref.session_id]
                session.changed()

    def _newest(self, session_id: str) -> MemorySession:
        self._forget_expired()
        if session_id not in self._current:
            raise SessionUnknown(session_id)
        return self._current[session_id]

    def _readable(self, ref: SessionRef) -> MemorySession:
        self._forget_expired()
        session = self._current.get(ref.session_id)
        if session is None or session.ref != ref:
            session = self._past.get(ref)
        if session is None:
            raise SessionUnknown(str(ref))
        return session

    def _open(self, ref: SessionRef) -> MemorySession:
        session = self._newest(ref.session_id)
        if session.ref != ref or session.state == "closed":
            raise SessionUnknown(f"{ref} is over")
        return session

    def _attached(self, attachment: Attachment) -> MemorySession:
        session = self._open(attachment.ref)
        if session.generation != attachment.generation:
            raise Fenced(f"attachment {session.generation} is newer than {attachment.generation}")
        return session

    def _claimed(self, claim: Claim) -> MemorySession:
        session = self._open(claim.ref)
        if session.fence != claim.fence:
            raise Fenced(f"claim {session.fence} is newer than {claim.fence}")
        return session

    def _head(self, session: MemorySession) -> Head:
        return session.head(self._clock())

    # -- rare operations -------------------------------------------------------------------------------------------

    async def next_incarnation(self, session_id: str) -> SessionRef:
        """See ``SessionLog``."""
        self._forget_expired()
        session = self._current.get(session_id)
        if session is None:
            return SessionRef(session_id, 0)
        if session.state != "closed":
            raise SessionExists(session_id)
        return SessionRef(session_id, session.ref.incarnation + 1)

    async def create(
        self, ref: SessionRef, *, model: str, token_digest: bytes, gateway: str, record: bytes
    ) -> Attachment:
        """See ``SessionLog``."""
        self._forget_expired()
        current = self._current.get(ref.session_id)
        if current and current.state != "closed":
            made_by = (current.ref, current.generation, current.token, current.gateway)
            if made_by == (ref, 1, token_digest, gateway):
                return Attachment(ref, 1, gateway)
        if await self.next_incarnation(ref.session_id) != ref:
            raise SessionExists(f"{ref} is not the next incarnation any more")
        if current:
            self._past[current.ref] = current
        session = MemorySession(ref, model, token_digest, claimable_from_s=self._clock())
        self._current[ref.session_id] = session
        attachment = self._raise_attachment(session, gateway, record)
        self._ready.set()
        return attachment

    def _raise_attachment(self, session: MemorySession, gateway: str, record: bytes) -> Attachment:
        session.generation += 1
        session.gateway = gateway
        session.attached = True
        session.attached_until_s = self._clock() + self.settings.lease_s
        session.add_input(Entry(EntryId(session.generation, 0), record))
        session.changed()
        return Attachment(session.ref, session.generation, gateway)

    def _admitted(self, ref: SessionRef, presented_digest: bytes) -> MemorySession:
        session = self._newest(ref.session_id)
        if session.ref != ref:
            raise IncarnationMismatch(f"{ref.session_id} is at incarnation {session.ref.incarnation}")
        if not session.is_good(presented_digest, attached=self._head(session).attached):
            raise TokenRefused(ref.session_id)
        return session

    async def admit(self, ref: SessionRef, presented_digest: bytes) -> Head:
        """See ``SessionLog``."""
        return self._head(self._admitted(ref, presented_digest))

    async def attach(
        self,
        ref: SessionRef,
        *,
        presented_digest: bytes,
        next_digest: bytes,
        gateway: str,
        record: bytes,
        after_seq: int | None = None,
    ) -> tuple[Attachment, Head]:
        """See ``SessionLog``."""
        session = self._newest(ref.session_id)
        if session.ref != ref:
            raise IncarnationMismatch(f"{ref.session_id} is at incarnation {session.ref.incarnation}")
        if session.state == "closed":
            raise SessionUnknown(f"{ref} is closed")
        if (session.token, session.recovery, session.gateway) == (next_digest, presented_digest, gateway):
            return Attachment(ref, session.generation, gateway), self._head(session)
        self._admitted(ref, presented_digest)
        if after_seq is not None:
            session.check_position(after_seq)
        session.rotate_token(presented_digest, next_digest)
        attachment = self._raise_attachment(session, gateway, record)
        return attachment, self._head(session)

    async def confirm(self, attachment: Attachment) -> None:
        """See ``SessionLog``."""
        self._attached(attachment).confirm_token()

    async def detach(self, attachment: Attachment, record: bytes) -> None:
        """See ``SessionLog``."""
        try:
            session = self._attached(attachment)
        except Fenced:
            return
        if session.attached:
            session.attached, session.left_s = False, min(self._clock(), session.attached_until_s)
            session.add_input(Entry(EntryId(attachment.generation, session.last_input.number + 1), record))
            session.changed()

    async def claim(self, worker: str, models: Sequence[str]) -> tuple[Claim, Head] | None:
        """See ``SessionLog``."""
        waiting = [session for session in self._waiting() if session.model in models]
        if not waiting:
            self._ready.clear()
            return None
        session = min(waiting, key=lambda candidate: candidate.claimable_from_s)
        session.raise_fence()
        session.worker = worker
        session.state = "claimed"
        session.claimable_from_s = self._clock() + self.settings.lease_s
        session.add_output(Entry(EntryId(session.fence, 0), claim_record(worker, session.model)))
        session.changed()
        return Claim(session.ref, session.fence, worker, session.model), self._head(session)

    def _waiting(self) -> list[MemorySession]:
        self._forget_expired()
        now_s = self._clock()
        return [s for s in self._current.values() if s.state != "closed" and s.claimable_from_s <= now_s]

    async def wait_for_ready(self, timeout_s: float) -> None:
        """See ``SessionLog``."""
        try:
            await asyncio.wait_for(self._ready.wait(), timeout_s)
        except TimeoutError:
            return

    async def renew(self, attachments: Sequence[Attachment], claims: Sequence[Claim]) -> list[Attachment | Claim]:
        """See ``SessionLog``."""
        lost: list[Attachment | Claim] = []
        until_s = self._clock() + self.settings.lease_s
        for attachment in attachments:
            try:
                session = self._attached(attachment)
            except (Fenced, SessionUnknown):
                lost.append(attachment)
                continue
            if session.attached:
                session.attached_until_s = until_s
            else:
                lost.append(attachment)
        for claim in claims:
            try:
                session = self._claimed(claim)
            except (Fenced, SessionUnknown):
                lost.append(claim)
                continue
            if session.state == "claimed":
                session.claimable_from_s = until_s
            else:
                lost.append(claim)
        return lost

    async def release(self, claim: Claim) -> None:
        """See ``SessionLog``."""
        session = self._claimed(claim)
        if session.state == "waiting":
            return
        session.state, session.worker = "waiting", ""
        session.claimable_from_s = self._clock()
        self._ready.set()

    async def checkpoint(self, claim: Claim, checkpoint: bytes, *, opening: bytes | None = None) -> None:
        """See ``SessionLog``."""
        session = self._claimed(claim)
        session.checkpoint = checkpoint
        if opening is not None:
            session.opening = opening
            session.changed()

    async def snapshot(self, claim: Claim, seq: int, snapshot: bytes) -> None:
        """See ``SessionLog``."""
        session = self._claimed(claim)
        newest = session.snapshots[-1][0] if session.snapshots else -1
        if seq >= newest:
            older = [kept for kept in session.snapshots if kept[0] != seq]
            session.snapshots = [*older[-1:], (seq, snapshot)]

    async def acknowledge(self, attachment: Attachment, seq: int) -> None:
        """See ``SessionLog``."""
        session = self._attached(attachment)
        session.acknowledged_seq = max(session.acknowledged_seq, seq)

    async def trim_audio(self, claim: Claim, *, input_before: EntryId, output_before: int) -> None:
        """See ``SessionLog``."""
        self._claimed(claim).trim_audio(input_before, output_before)

    async def trim_history(self, claim: Claim, *, input_before: EntryId, output_before: int) -> None:
        """See ``SessionLog``."""
        self._claimed(claim).trim_history(input_before, output_before)

    async def close(self, claim: Claim, reason: str) -> None:
        """See ``SessionLog``."""
        session = self._newest(claim.ref.session_id)
        if session.ref == claim.ref and session.fence == claim.fence and session.state == "closed":
            return
        self._end(self._claimed(claim), reason)

    def _end(self, session: MemorySession, reason: str) -> None:
        session.state, session.reason, session.attached = "closed", reason, False
        session.expires_s = self._clock() + self.settings.retention_s
        session.changed()

    def adopt(self, session: MemorySession, reason: str | None) -> None:
        """Take in a session that was put together elsewhere: closed for this reason, or waiting for a worker."""
        self._current[session.ref.session_id] = session
        if reason is not None:
            self._end(session, reason)
            return
        session.claimable_from_s = session.left_s = self._clock()
        self._ready.set()

    def session_of(self, ref: SessionRef) -> MemorySession:
        """The session itself, for who plays all its writers. Raises: SessionUnknown."""
        return self._readable(ref)

    async def expire_unclaimed(self, older_than_s: float) -> list[SessionRef]:
        """See ``SessionLog``."""
        before_s = self._clock() - older_than_s
        unclaimed = [s for s in self._waiting() if max(s.claimable_from_s, s.unattached_from_s) <= before_s]
        for session in unclaimed:
            self._end(session, "unclaimed")
        return [session.ref for session in unclaimed]

    # -- the hot path ----------------------------------------------------------------------------------------------

    async def append_input(self, attachment: Attachment, first_index: int, records: Sequence[Record]) -> None:
        """See ``SessionLog``."""
        if first_index < 1:
            raise ValueError("numbers of records start at 1")
        if not records:
            return
        session = self._attached(attachment)
        for entry in self._missing(attachment.generation, session.last_input.number, first_index, records):
            session.add_input(entry)
        session.changed()

    async def append_output(self, claim: Claim, first_seq: int, records: Sequence[Record]) -> None:
        """See ``SessionLog``."""
        if first_seq < 1:
            raise ValueError("numbers of records start at 1")
        if not records:
            return
        session = self._claimed(claim)
        for entry in self._missing(claim.fence, session.last_seq, first_seq, records):
            session.add_output(entry)
        session.changed()

    @staticmethod
    def _missing(generation: int, last: int, first: int, records: Sequence[Record]) -> list[Entry]:
        """The entries that are not in the log yet."""
        if last < first - 1:
            raise TailLost(last)
        numbered = enumerate(records, first)
        return [Entry(EntryId(generation, n), record.body, record.audio) for n, record in numbered if n > last]

    async def persisted(self, ref: SessionRef) -> None:
        """At once: what is in this process is as safe as it will ever be."""

    # -- reading ---------------------------------------------------------------------------------------------------

    async def head(self, session_id: str) -> Head:
        """See ``SessionLog``."""
        return self._head(self._newest(session_id))

    async def read_output(
        self, ref: SessionRef, after_seq: int, *, limit: int = 500, audio: bool = True
    ) -> list[Entry]:
        """See ``SessionLog``."""
        session = self._readable(ref)
        first_seq = self._head(session).first_seq
        if after_seq + 1 < first_seq:
            raise PositionGone(first_seq)
        found = [entry for entry in session.output if entry.id.number > after_seq][:limit]
        return found if audio else [Entry(entry.id, entry.body) for entry in found]

    async def read_snapshot(self, ref: SessionRef, *, below_seq: int | None = None) -> tuple[int, bytes] | None:
        """See ``SessionLog``."""
        kept = self._readable(ref).snapshots
        return next((one for one in reversed(kept) if below_seq is None or one[0] < below_seq), None)

    async def read_input(
        self, ref: SessionRef, after: EntryId, *, limit: int = 500, audio: bool = True
    ) -> list[Entry]:
        """See ``SessionLog``."""
        session = self._readable(ref)
        if after < session.trimmed_input:
            raise PositionGone(session.trimmed_input.number + 1, session.trimmed_input)
        found = [entry for entry in session.input if entry.id > after][:limit]
        return found if audio else [Entry(entry.id, entry.body) for entry in found]

    async def read_input_back(
        self, ref: SessionRef, before: EntryId | None = None, *, limit: int = 100
    ) -> list[Entry]:
        """See ``SessionLog``."""
        entries = reversed(self._readable(ref).input)
        return [Entry(e.id, e.body) for e in entries if before is None or e.id < before][:limit]

    @asynccontextmanager
    async def follow_output(self, ref: SessionRef) -> AsyncIterator[MemoryFollower]:
        """See ``SessionLog``."""
        yield MemoryFollower(self, self._readable, ref, output=True)

    @asynccontextmanager
    async def follow_input(self, ref: SessionRef) -> AsyncIterator[MemoryFollower]:
        """See ``SessionLog``."""
        yield MemoryFollower(self, self._readable, ref, output=False)

    async def sessions(self) -> list[Head]:
        """See ``SessionLog``."""
        self._forget_expired()
        return [self._head(session) for session in self._current.values()]

    # -- the fleet -------------------------------------------------------------------------------------------------

    async def register(self, card: WorkerCard) -> None:
        """See ``SessionLog``."""
        self._cards[card.worker] = (self._clock() + self.settings.lease_s, card)

    async def unregister(self, worker: str) -> None:
        """See ``SessionLog``."""
        self._cards.pop(worker, None)

    async def fleet(self) -> list[WorkerCard]:
        """See ``SessionLog``."""
        now_s = self._clock()
        return [card for until_s, card in self._cards.values() if until_s > now_s]

    async def waiting(self, model: str) -> int:
        """See ``SessionLog``."""
        return sum(session.model == model for session in self._waiting())
