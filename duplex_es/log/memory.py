"""The reference implementation of the session log: in this process, obvious on purpose, the oracle of the suite.

It keeps every promise of ``api`` without a network: lists for streams, a dictionary for heads, one event per store to
wake readers. Nothing here waits except followers and ``wait_for_ready``, so each method is atomic by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from .api import (
    START,
    Attachment,
    AttachmentRaised,
    Claim,
    Ended,
    Entry,
    EntryId,
    Head,
    Opened,
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
from .feed import Feed
from .packing import claim_record
from .settings import LogSettings


@dataclass
class _Session:
    """One life of a session: its head, and both streams."""

    ref: SessionRef
    model: str
    token: bytes
    recovery: bytes | None = None
    state: str = "waiting"
    reason: str = ""
    generation: int = 0
    attached: bool = False
    attached_until_s: float = 0.0
    gateway: str = ""
    fence: int = 0
    worker: str = ""
    claimable_from_s: float = 0.0
    expires_s: float | None = None
    acknowledged_seq: int = 0
    opening: bytes | None = None
    checkpoint: bytes | None = None
    input: list[Entry] = field(default_factory=list)
    output: list[Entry] = field(default_factory=list)
    last_input: EntryId = START
    last_seq: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def add_input(self, entry: Entry) -> None:
        self.input.append(entry)
        self.last_input = entry.id

    def add_output(self, entry: Entry) -> None:
        self.output.append(entry)
        self.last_seq = max(self.last_seq, entry.id.number)

    def changed(self) -> None:
        """Wake whoever follows; the next waiter gets a fresh event."""
        self.wake.set()
        self.wake = asyncio.Event()


class MemoryLog:
    """A ``SessionLog`` in this process. Gateways and workers that share a store share the object.

    ``clock`` returns seconds; tests pass their own to let leases run out.
    """

    def __init__(self, settings: LogSettings | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings or LogSettings()
        self._clock = clock
        self._current: dict[str, _Session] = {}
        self._past: dict[SessionRef, _Session] = {}
        self._cards: dict[str, tuple[float, WorkerCard]] = {}
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

    def _newest(self, session_id: str) -> _Session:
        self._forget_expired()
        if session_id not in self._current:
            raise SessionUnknown(session_id)
        return self._current[session_id]

    def _readable(self, ref: SessionRef) -> _Session:
        self._forget_expired()
        session = self._current.get(ref.session_id)
        if session is None or session.ref != ref:
            session = self._past.get(ref)
        if session is None:
            raise SessionUnknown(str(ref))
        return session

    def _open(self, ref: SessionRef) -> _Session:
        session = self._newest(ref.session_id)
        if session.ref != ref or session.state == "closed":
            raise SessionUnknown(f"{ref} is over")
        return session

    def _attached(self, attachment: Attachment) -> _Session:
        session = self._open(attachment.ref)
        if session.generation != attachment.generation:
            raise Fenced(f"attachment {session.generation} is newer than {attachment.generation}")
        return session

    def _claimed(self, claim: Claim) -> _Session:
        session = self._open(claim.ref)
        if session.fence != claim.fence:
            raise Fenced(f"claim {session.fence} is newer than {claim.fence}")
        return session

    def _head(self, session: _Session) -> Head:
        seqs = [entry.id.number for entry in session.output if entry.id.number]
        return Head(
            ref=session.ref,
            model=session.model,
            state=session.state,
            generation=session.generation,
            attached=session.attached and session.attached_until_s > self._clock(),
            gateway=session.gateway,
            fence=session.fence,
            worker=session.worker,
            output=EntryId(session.fence, session.last_seq),
            input=session.last_input,
            first_seq=min(seqs, default=session.last_seq + 1),
            acknowledged_seq=session.acknowledged_seq,
            opening=session.opening,
            checkpoint=session.checkpoint,
        )

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
        session = _Session(ref, model, token_digest, claimable_from_s=self._clock())
        self._current[ref.session_id] = session
        attachment = self._raise_attachment(session, gateway, record)
        self._ready.set()
        return attachment

    def _raise_attachment(self, session: _Session, gateway: str, record: bytes) -> Attachment:
        session.generation += 1
        session.gateway = gateway
        session.attached = True
        session.attached_until_s = self._clock() + self.settings.lease_s
        session.add_input(Entry(EntryId(session.generation, 0), record))
        session.changed()
        return Attachment(session.ref, session.generation, gateway)

    async def attach(
        self, ref: SessionRef, *, presented_digest: bytes, next_digest: bytes, gateway: str, record: bytes
    ) -> tuple[Attachment, Head]:
        """See ``SessionLog``."""
        session = self._newest(ref.session_id)
        if session.ref != ref:
            raise IncarnationMismatch(f"{ref.session_id} is at incarnation {session.ref.incarnation}")
        if session.state == "closed":
            raise SessionUnknown(f"{ref} is closed")
        if (session.token, session.recovery, session.gateway) == (next_digest, presented_digest, gateway):
            return Attachment(ref, session.generation, gateway), self._head(session)
        recovers = presented_digest == session.recovery and not self._head(session).attached
        if presented_digest != session.token and not recovers:
            raise TokenRefused(ref.session_id)
        session.token, session.recovery = next_digest, presented_digest
        attachment = self._raise_attachment(session, gateway, record)
        return attachment, self._head(session)

    async def confirm(self, attachment: Attachment) -> None:
        """See ``SessionLog``."""
        self._attached(attachment).recovery = None

    async def detach(self, attachment: Attachment, record: bytes) -> None:
        """See ``SessionLog``."""
        try:
            session = self._attached(attachment)
        except Fenced:
            return
        if session.attached:
            session.attached = False
            session.add_input(Entry(EntryId(attachment.generation, session.last_input.number + 1), record))
            session.changed()

    async def claim(self, worker: str, models: Sequence[str]) -> tuple[Claim, Head] | None:
        """See ``SessionLog``."""
        waiting = [session for session in self._waiting() if session.model in models]
        if not waiting:
            self._ready.clear()
            return None
        session = min(waiting, key=lambda candidate: candidate.claimable_from_s)
        session.fence += 1
        session.worker = worker
        session.state = "claimed"
        session.claimable_from_s = self._clock() + self.settings.lease_s
        session.add_output(Entry(EntryId(session.fence, 0), claim_record(worker, session.model)))
        session.changed()
        return Claim(session.ref, session.fence, worker, session.model), self._head(session)

    def _waiting(self) -> list[_Session]:
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

    async def acknowledge(self, attachment: Attachment, seq: int) -> None:
        """See ``SessionLog``."""
        session = self._attached(attachment)
        session.acknowledged_seq = max(session.acknowledged_seq, seq)

    async def trim_audio(self, claim: Claim, *, input_before: EntryId, output_before: int) -> None:
        """See ``SessionLog``."""
        session = self._claimed(claim)
        session.input = [Entry(e.id, e.body) if e.id < input_before else e for e in session.input]
        session.output = [Entry(e.id, e.body) if e.id.number < output_before else e for e in session.output]

    async def close(self, claim: Claim, reason: str) -> None:
        """See ``SessionLog``."""
        session = self._newest(claim.ref.session_id)
        if session.ref == claim.ref and session.fence == claim.fence and session.state == "closed":
            return
        session = self._claimed(claim)
        session.state, session.reason, session.attached = "closed", reason, False
        session.expires_s = self._clock() + self.settings.retention_s
        session.changed()

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

    async def read_input(
        self, ref: SessionRef, after: EntryId, *, limit: int = 500, audio: bool = True
    ) -> list[Entry]:
        """See ``SessionLog``."""
        found = [entry for entry in self._readable(ref).input if entry.id > after][:limit]
        return found if audio else [Entry(entry.id, entry.body) for entry in found]

    @asynccontextmanager
    async def follow_output(self, ref: SessionRef) -> AsyncIterator[MemoryFollower]:
        """See ``SessionLog``."""
        yield MemoryFollower(self, ref, output=True)

    @asynccontextmanager
    async def follow_input(self, ref: SessionRef) -> AsyncIterator[MemoryFollower]:
        """See ``SessionLog``."""
        yield MemoryFollower(self, ref, output=False)

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


class MemoryFollower(Feed):
    """A ``Follower`` that looks at the lists themselves: the log is its buffer."""

    def __init__(self, log: MemoryLog, ref: SessionRef, *, output: bool) -> None:
        super().__init__()
        self._log = log
        self._ref = ref
        self._output = output
        self._opened = False
        self._raised = 0

    async def _advance(self) -> None:
        try:
            session = self._log._readable(self._ref)
        except SessionUnknown:
            self._finish("gone")
            return
        wake = session.wake
        if self._output and not self._opened and session.opening is not None:
            self._opened = True
            self._pending.append(Opened(session.opening))
        if self._output and session.generation > self._raised:
            self._raised = session.generation
            self._pending.append(AttachmentRaised(session.generation))
        entries = await self._next_entries()
        if entries:
            self._last = entries[-1].id
            self._pending.extend(entries)
        elif session.state == "closed":
            self._finish(session.reason)
        elif not self._pending:
            await wake.wait()

    def _finish(self, reason: str) -> None:
        self._finished = True
        if self._output:
            self._pending.append(Ended(reason))

    async def _next_entries(self) -> list[Entry]:
        if self._output:
            return await self._log.read_output(self._ref, self._last.number)
        return await self._log.read_input(self._ref, self._last)
