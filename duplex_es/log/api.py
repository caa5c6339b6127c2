"""The contract of the session log: every promise a backend keeps, stated once.

A session has two streams. ``input`` holds what the client said, written only by the attached gateway;
``output`` holds what the session decided and showed, written only by the claiming worker. The id of an entry is
``<generation>-<number>``: for ``output`` the claim's fence and ``server_event_seq``, for ``input`` the attachment
generation and an index that restarts at 1 with each attachment. Number 0 of a generation is the record of the claim
or attachment itself. Bodies are opaque bytes to the log; audio travels beside its body under the same id, so it can
expire on its own.

A test suite for these promises ships as ``duplex_es.testing.log_suite``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SessionRef:
    """Names one life of a session: the id, and how often it was opened before."""

    session_id: str
    incarnation: int


@dataclass(frozen=True, slots=True, order=True)
class EntryId:
    """``<generation>-<number>``, ordered; the fence and the counter, never a clock."""

    generation: int
    number: int

    def __str__(self) -> str:
        return f"{self.generation}-{self.number}"

    @classmethod
    def parse(cls, text: str | bytes) -> EntryId:
        """Read ``7-41``. Raises: ValueError for anything else."""
        generation, number = (text.decode() if isinstance(text, bytes) else text).split("-")
        return cls(int(generation), int(number))


START = EntryId(0, 0)
"""Before the first entry of any stream."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a writer hands over: the packed body, and raw audio to keep beside it."""

    body: bytes
    audio: bytes | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored record. ``audio`` is ``None`` when there was none or when it has expired."""

    id: EntryId
    body: bytes
    audio: bytes | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """Notice on ``output``: the worker opened the session (or refused to); ``opening`` is its packed answer."""

    opening: bytes


@dataclass(frozen=True, slots=True)
class AttachmentRaised:
    """Notice on ``output``: a socket attached under ``generation``; an older one is superseded."""

    generation: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Notice on ``output``: the session is closed or gone; nothing follows."""

    reason: str


Notice = Opened | AttachmentRaised | Ended


@dataclass(frozen=True, slots=True)
class Attachment:
    """A gateway's right to write ``input``. ``generation`` starts at 1 and goes up with each attach.

    By one, or by more once the store was started anew: a number whose record it lost is given to nobody else.
    """

    ref: SessionRef
    generation: int
    gateway: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's right to write ``output``. ``fence`` starts at 1 and goes up as an attachment's generation does."""

    ref: SessionRef
    fence: int
    worker: str
    model: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where a session stands, read in one atomic step.

    ``state`` is ``waiting`` (nobody holds it), ``claimed`` or ``closed``. ``output`` and ``input`` are the last ids
    ever written, also when their entries were trimmed; a claim's own record does not count, so ``output.number`` is
    always the last ``server_event_seq`` and ``output.generation`` the newest fence. ``first_seq`` is the lowest seq
    that can still be read (one above the last when none can), ``acknowledged_seq`` what the client confirmed.
    ``attached`` is false when the attachment's lease ran out, too. ``opening`` is the worker's packed answer to the
    opening command, ``checkpoint`` its last packed checkpoint.
    """

    ref: SessionRef
    model: str
    state: str
    generation: int
    attached: bool
    gateway: str
    fence: int
    worker: str
    output: EntryId
    input: EntryId
    first_seq: int
    acknowledged_seq: int
    opening: bytes | None
    checkpoint: bytes | None


@dataclass(frozen=True, slots=True)
class WorkerCard:
    """What a worker says of itself to the fleet: its models (name → packed description), its slots, those in use."""

    worker: str
    models: dict[str, bytes]
    slots: int
    used: int


class Follower(Protocol):
    """A live reader of one stream: subscribed first, started second, so that nothing falls between.

    Iteration yields entries in id order, each exactly once, with holes filled from the stored stream, and for
    ``output`` also notices. Entries of a generation below the newest one seen are dropped (a fenced writer's
    notifications may still arrive). A reader that is slow costs no memory beyond a fixed bound: the log is its buffer.

    Claim records (``<fence>-0`` of ``output``) are left out. A follower that starts late gets ``Opened`` once if the
    session is open, and ``AttachmentRaised`` of the newest attachment; of several raises in a row it may see only the
    last. After the last entry of a closed session, and when the session is gone, ``output`` yields ``Ended`` and
    iteration ends; that of ``input`` just ends. Iteration raises PositionGone if what follows ``after``, or what a slow
    reader has yet to get, was trimmed, or if a newer claim wrote what had been delivered already, because the store had
    lost it; SessionUnknown never. One iteration at a time; cancelling a pending step loses nothing.
    """

    def start(self, after: EntryId) -> None:
        """Begin after ``after`` (exclusive).

        For ``output`` only ``number`` says where, as seqs do not restart. Its ``generation``, if it is the newest fence
        at the time that the position was known to be good, lets the reader notice that the position itself was lost and
        written again since; 0 when nobody knows.
        """

    def __aiter__(self) -> AsyncIterator[Entry | Notice]: ...


class SessionLog(Protocol):
    """All that gateways and workers may do with a session's log.

    Every method may raise ``LogUnavailable``. Methods that take an ``Attachment`` or a ``Claim`` raise ``Fenced``
    when a newer one exists and ``SessionUnknown`` when the head is gone; in both cases nothing was written.
    """

    async def connect(self) -> None:
        """Check the store (version, eviction policy, durability), load what it needs. Idempotent.

        Raises: ConfigurationError when the store is reached but not fit, LogUnavailable when it is not reached.
        """

    async def close_connections(self) -> None:
        """Give back every connection. The log stays as it is."""

    async def ping(self) -> None:
        """Return when the store answers a write-capable command. Raises: LogUnavailable."""

    # -- rare operations, each atomic ------------------------------------------------------------------------------

    async def next_incarnation(self, session_id: str) -> SessionRef:
        """The ref a ``create`` of this id would get now. Raises: SessionExists while it is open."""

    async def create(
        self, ref: SessionRef, *, model: str, token_digest: bytes, gateway: str, record: bytes
    ) -> Attachment:
        """Make the session, attach the caller as generation 1, and queue it for a worker of ``model``.

        ``record`` becomes input entry ``1-0``. The same call again (same ref, digest and gateway) gets the same answer.
        Raises: SessionExists if ``ref`` is not the next incarnation any more.
        """

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
        """Take the session over on this gateway: compare and rotate the token, raise the generation, tell the others.

        ``after_seq`` is the last frame that the client has; with it, all frames after it must be there to be read, with
        their audio.

        ``record`` becomes input entry ``<generation>-0``; followers of ``output`` get ``AttachmentRaised``. The
        presented digest stays acceptable once more while nothing is attached, until ``confirm``. Those that were given
        out since stay so, too, attached or not: each may be the newest that the client has, while an attempt it gave
        up is answered late. With one of them all older ones die; of a long row the last few are kept. Of two calls
        that race with one digest exactly one wins; the same call again (same digests and gateway) gets the same answer
        until ``confirm``.
        Raises, in this order: SessionUnknown (also when closed), IncarnationMismatch, TokenRefused, PositionGone when
        frames after ``after_seq`` or their audio were trimmed, when they were acknowledged, and when frames up to
        ``after_seq`` may have been lost by the store and numbered again, PositionAhead when ``after_seq`` is above the
        last frame. None changes anything.
        """

    async def admit(self, ref: SessionRef, presented_digest: bytes) -> Head:
        """Check the token as ``attach`` does, but take nothing: good for reading, also after the session was closed.

        Raises, in this order: SessionUnknown, IncarnationMismatch, TokenRefused.
        """

    async def confirm(self, attachment: Attachment) -> None:
        """The new socket got its activation: every token but the newest one is dead from now on."""

    async def detach(self, attachment: Attachment, record: bytes) -> None:
        """Write ``record`` as the attachment's next input entry and mark the session unattached.

        A superseded attachment is ignored silently: its successor is what counts. A repeat changes nothing.
        """

    async def claim(self, worker: str, models: Sequence[str]) -> tuple[Claim, Head] | None:
        """Pop one waiting session of these models and claim it, or return ``None``.

        A session also waits again when its claim's lease ran out, or when its worker's process was seen to be gone,
        which needs another worker that is registered. The claim's record is output entry ``<fence>-0``.
        """

    async def wait_for_ready(self, timeout_s: float) -> None:
        """Return when a session may be waiting, at the latest after ``timeout_s``."""

    async def renew(self, attachments: Sequence[Attachment], claims: Sequence[Claim]) -> list[Attachment | Claim]:
        """Extend these leases and check their heads, so that lost notifications are caught; return the lost ones.

        Lost is what was superseded, detached, released or closed. A lease that ran out but was not taken is extended.
        """

    async def release(self, claim: Claim) -> None:
        """Give the claim back and queue the session for another worker at once. A repeat changes nothing."""

    async def checkpoint(self, claim: Claim, checkpoint: bytes, *, opening: bytes | None = None) -> None:
        """Keep ``checkpoint`` (replaces the last one); with ``opening`` also publish the answer to the opening."""

    async def snapshot(self, claim: Claim, seq: int, snapshot: bytes) -> None:
        """Keep ``snapshot``, the packed state after ``seq``, and the one before it.

        A lower seq than the newest one's changes nothing, the same seq replaces the newest one only.
        """

    async def acknowledge(self, attachment: Attachment, seq: int) -> None:
        """Raise the acknowledged seq to ``seq``; lower values change nothing."""

    async def trim_audio(self, claim: Claim, *, input_before: EntryId, output_before: int) -> None:
        """Drop stored audio below these positions, exactly; the readable history stays."""

    async def trim_history(self, claim: Claim, *, input_before: EntryId, output_before: int) -> None:
        """Drop records below these positions, exactly, and their audio; ``first_seq`` rises to ``output_before``.

        A position above the end counts as the end: seqs and indexes go on as if nothing had been dropped. A repeat, and
        a position that was passed already, changes nothing. Drop nothing that no snapshot stands in for.
        """

    async def close(self, claim: Claim, reason: str) -> None:
        """End the session for good: no attach, claim or append succeeds any more, keys expire after the retention time.

        Whatever comes later finds ``SessionUnknown``; reading still works until then. A repeat changes nothing.
        """

    async def expire_unclaimed(self, older_than_s: float) -> list[SessionRef]:
        """Close every session that nobody claimed for this long while nothing was attached; return those it closed.

        Unclaimed is what waits, and what is claimed under a lease that ran out; attached what holds an attachment whose
        lease did not. Both must be so for the whole time. Their reason is ``unclaimed``. Shared work: any process may
        ask at any time, each session is closed by one. It looks at every open session: not for every second.
        """

    # -- the hot path ----------------------------------------------------------------------------------------------

    async def append_input(self, attachment: Attachment, first_index: int, records: Sequence[Record]) -> None:
        """Append ``records`` as entries ``<generation>-<first_index>`` and up, all or a prefix, each exactly once.

        Returning means: in the log, in this order. A repeat of a landed write is not written again. Cancelling the
        caller does not take the records back. No records: nothing is done. Raises also: TailLost when the log ends
        below ``first_index - 1``, ValueError when that is not a number.
        """

    async def append_output(self, claim: Claim, first_seq: int, records: Sequence[Record]) -> None:
        """Append ``records`` as entries ``<fence>-<first_seq>`` and up; same promise as ``append_input``."""

    async def persisted(self, ref: SessionRef) -> None:
        """Return when all that this process has written to or read from this log so far would survive a lost node.

        What that takes is the durability level of the settings; with ``memory`` it returns at once. Calls share one
        question to the store. Raises: LogUnavailable when the store does not confirm it in time, ConfigurationError at
        once when the store keeps nothing that could survive. Neither says that anything was lost.
        """

    # -- reading ---------------------------------------------------------------------------------------------------

    async def head(self, session_id: str) -> Head:
        """Where the newest incarnation of this id stands. Raises: SessionUnknown."""

    async def read_output(
        self, ref: SessionRef, after_seq: int, *, limit: int = 500, audio: bool = True
    ) -> list[Entry]:
        """Entries with seq above ``after_seq``, ascending, claim records (number 0) left out.

        Raises: PositionGone when the entry after ``after_seq`` was trimmed, SessionUnknown.
        """

    async def read_snapshot(self, ref: SessionRef, *, below_seq: int | None = None) -> tuple[int, bytes] | None:
        """The newest snapshot that is kept and its seq, with ``below_seq`` of those below that; ``None`` without one.

        Raises: SessionUnknown.
        """

    async def read_input(self, ref: SessionRef, after: EntryId, *, limit: int = 500, audio: bool = True) -> list[Entry]:
        """Entries with id above ``after``, ascending, attachment records included.

        Raises: PositionGone when an entry above ``after`` was trimmed; its ``trimmed`` is the last one that was.
        SessionUnknown.
        """

    async def read_input_back(self, ref: SessionRef, before: EntryId | None = None, *, limit: int = 100) -> list[Entry]:
        """Entries with id below ``before``, or the newest ones, descending, without audio, attachment records included.

        Where input was trimmed, the list just ends: only ``1-0`` is the beginning. Raises: SessionUnknown.
        """

    def follow_output(self, ref: SessionRef) -> AbstractAsyncContextManager[Follower]:
        """Subscribe to ``output``; entering returns once the subscription is confirmed."""

    def follow_input(self, ref: SessionRef) -> AbstractAsyncContextManager[Follower]:
        """Subscribe to ``input``; attachment records are entries like any other."""

    async def sessions(self) -> list[Head]:
        """Every session the store knows, open or not yet expired. For operators; not on any hot path."""

    # -- the fleet -------------------------------------------------------------------------------------------------

    async def register(self, card: WorkerCard) -> None:
        """Say that this worker lives; forgotten 10 s after the last call."""

    async def unregister(self, worker: str) -> None:
        """Say that this worker is gone."""

    async def fleet(self) -> list[WorkerCard]:
        """The workers that live."""

    async def waiting(self, model: str) -> int:
        """How many sessions of this model wait for a worker."""


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a session that can be read: where it stands or stood, and when it was made (unix ms, store's clock).

    ``created_ms`` tells it from another of the same ref, as the count of lives starts anew once all have expired; 0 for
    one that was put back from elsewhere.
    """

    head: Head
    created_ms: int


class Keeping(Protocol):
    """What operators may do with sessions whatever their owners do: ``keeping.keeping_of`` gives it for a log.

    Every method may raise ``LogUnavailable``. Those of a closed session raise ``SessionExists`` while it is open and
    ``SessionUnknown`` when nothing of it is left; then nothing was changed.
    """

    async def lives(self, session_id: str | None = None, *, closed: bool = False) -> list[Life]:
        """Every life that can be read, of one id or of all, past ones included, which ``sessions`` leaves out.

        With ``closed`` only those that are over, which costs nothing for the others.
        """

    async def terminate(self, ref: SessionRef, reason: str) -> None:
        """End an open session whoever holds it, as ``SessionLog.close`` does. A repeat changes nothing.

        Its owner is refused from then on, and whoever is connected is told the reason. Raises: SessionUnknown.
        """

    async def shorten(self, ref: SessionRef, retention_s: float) -> None:
        """Let a closed session expire in ``retention_s`` at the latest; what expires sooner does."""

    async def replace(
        self,
        life: Life,
        input_entries: AsyncIterator[Entry],
        output_entries: AsyncIterator[Entry],
        snapshot: tuple[int, bytes] | None = None,
    ) -> None:
        """Put these entries in the place of a closed session's, all at once; ids ascend and are among those there were.

        Its opening answer becomes that of ``life``'s head, its snapshots this one; its checkpoints go. When it expires
        stays as it was, and so does where it ended.
        """

    async def erase(self, ref: SessionRef) -> None:
        """Drop all that is stored of a closed session, now."""

    async def note(self, session_id: str, note: bytes) -> None:
        """Keep ``note`` about this id, after those before it; it outlives the sessions. A repeat changes nothing."""

    async def notes(self, session_id: str) -> list[bytes]:
        """What was noted about this id, oldest first."""
