"""One life of a session in the memory log: its head, both streams, and what may be read of them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from .api import START, Entry, EntryId, Head, SessionRef
from .errors import PositionAhead, PositionGone

UNCONFIRMED = 7
"""How many tokens of a row that nobody confirmed are kept; then only the last one."""


@dataclass
class MemorySession:
    """The state behind a ``Head``. Streams are ascending lists; what was trimmed is not in them."""

    ref: SessionRef
    model: str
    token: bytes
    recovery: bytes | None = None
    unconfirmed: list[bytes] = field(default_factory=list)
    state: str = "waiting"
    reason: str = ""
    generation: int = 0
    attached: bool = False
    attached_until_s: float = 0.0
    left_s: float = 0.0
    gateway: str = ""
    fence: int = 0
    worker: str = ""
    claimable_from_s: float = 0.0
    expires_s: float | None = None
    acknowledged_seq: int = 0
    opening: bytes | None = None
    checkpoint: bytes | None = None
    snapshots: list[tuple[int, bytes]] = field(default_factory=list)
    input: list[Entry] = field(default_factory=list)
    output: list[Entry] = field(default_factory=list)
    last_input: EntryId = START
    last_seq: int = 0
    trimmed_input: EntryId = START
    silenced_seq: int = 0
    first_seqs: dict[int, int] = field(default_factory=dict)
    created_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    # -- who may take it ------------------------------------------------------------------------------------------

    def is_good(self, digest: bytes, *, attached: bool) -> bool:
        """Whether this takes the session now: what was presented last does only while nothing is attached."""
        return digest in (self.token, *self.unconfirmed) or (digest == self.recovery and not attached)

    def rotate_token(self, presented: bytes, following: bytes) -> None:
        """What was given out since ``presented`` and not confirmed may be the newest that the client has: it stays."""
        if presented == self.token:
            self.unconfirmed = []
        else:
            if presented in self.unconfirmed and presented != self.recovery:
                del self.unconfirmed[: self.unconfirmed.index(presented) + 1]
            self.unconfirmed = [*self.unconfirmed, self.token] if len(self.unconfirmed) < UNCONFIRMED else [self.token]
        self.token, self.recovery = following, presented

    def confirm_token(self) -> None:
        """Only the present token is good from now on."""
        self.recovery, self.unconfirmed = None, []

    # -- what is written -------------------------------------------------------------------------------------------

    def add_input(self, entry: Entry) -> None:
        """Append to ``input``."""
        self.input.append(entry)
        self.last_input = entry.id

    def add_output(self, entry: Entry) -> None:
        """Append to ``output``."""
        self.output.append(entry)
        self.last_seq = max(self.last_seq, entry.id.number)

    def raise_fence(self) -> None:
        """The next claim writes from here on."""
        self.fence += 1
        self.first_seqs[self.fence] = self.last_seq + 1

    def changed(self) -> None:
        """Wake whoever follows; the next waiter gets a fresh event."""
        self.wake.set()
        self.wake = asyncio.Event()

    # -- what is dropped -------------------------------------------------------------------------------------------

    def trim_audio(self, input_before: EntryId, output_before: int) -> None:
        """Drop audio below these positions."""
        silenced = [e.id.number for e in self.output if e.audio is not None and e.id.number < output_before]
        self.silenced_seq = max([self.silenced_seq, *silenced])
        self.input = [Entry(e.id, e.body) if e.id < input_before else e for e in self.input]
        self.output = [Entry(e.id, e.body) if e.id.number < output_before else e for e in self.output]

    def trim_history(self, input_before: EntryId, output_before: int) -> None:
        """Drop entries below these positions; a claim's own record goes with what was written before it."""
        self.trimmed_input = max([self.trimmed_input, *(e.id for e in self.input if e.id < input_before)])
        self.input = [entry for entry in self.input if entry.id >= input_before]
        first_kept = EntryId(self._claim_of(output_before), output_before)
        self.output = [entry for entry in self.output if entry.id >= first_kept]
        self.first_seqs = {fence: first for fence, first in self.first_seqs.items() if fence >= first_kept.generation}

    def _claim_of(self, seq: int) -> int:
        return max((fence for fence, first in self.first_seqs.items() if first <= seq), default=0)

    # -- what can be read ------------------------------------------------------------------------------------------

    @property
    def first_seq(self) -> int:
        """The lowest seq that can still be read."""
        return min((entry.id.number for entry in self.output if entry.id.number), default=self.last_seq + 1)

    @property
    def unattached_from_s(self) -> float:
        """When the newest attachment ended, or will if it is not renewed."""
        return self.attached_until_s if self.attached else self.left_s

    def check_position(self, after_seq: int) -> None:
        """Return when all frames after ``after_seq`` can be replayed. Raises: PositionGone, PositionAhead."""
        first = max(self.first_seq, self.acknowledged_seq + 1, self.silenced_seq + 1)
        if after_seq + 1 < first:
            raise PositionGone(first)
        if after_seq > self.last_seq:
            raise PositionAhead(self.last_seq)

    def head(self, now_s: float) -> Head:
        """Where the session stands."""
        return Head(
            ref=self.ref,
            model=self.model,
            state=self.state,
            generation=self.generation,
            attached=self.attached and self.attached_until_s > now_s,
            gateway=self.gateway,
            fence=self.fence,
            worker=self.worker,
            output=EntryId(self.fence, self.last_seq),
            input=self.last_input,
            first_seq=self.first_seq,
            acknowledged_seq=self.acknowledged_seq,
            opening=self.opening,
            checkpoint=self.checkpoint,
        )
