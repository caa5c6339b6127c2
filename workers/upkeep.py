"""What the owner of a session does beside serving it: it saves what a successor needs, and drops what nobody does."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from duplex_es.log.api import Claim, Entry, EntryId, Record, SessionLog
from duplex_es.log.errors import LogUnavailable
from duplex_es.session.events import Fact
from duplex_es.session.state import Session

from .journal import Journal
from .places import Place
from .recovery import Recovered
from .retention import ENTRY_BYTES, Bytes, Needed
from .snapshots import pack_snapshot
from .utterance import UtteranceFinder

CHECKPOINT_AFTER_MS = 1_000
SNAPSHOT_AFTER_BYTES = 16 * 1024
"""Records of about one turn. A snapshot is written when as much was recorded as it takes itself, and at least this."""
SNAPSHOT_ANYWAY_BYTES = 1024 * 1024
"""After so much, the answer that is being given is not waited for."""

_log = logging.getLogger(__name__)


class Upkeep:
    """Checkpoints, snapshots and retention of one claimed session. One per actor, which tells it all that happens.

    It adds nothing to what the session decided, and a store that does not answer it is asked again later; only a
    checkpoint that cannot be written is an error.
    """

    def __init__(self, log: SessionLog, claim: Claim, recovered: Recovered) -> None:
        self.ref_audio = recovered.ref_audio
        self._log = log
        self._claim = claim
        self._standing = recovered.standing
        self._standing.seq += len(recovered.unfinished)
        self._retention = recovered.retention
        self._caller = UtteranceFinder(recovered.standing.utterance.state())
        self._exchange_after: EntryId | None = None
        self._saved = recovered.consumed
        self._arrived: deque[tuple[EntryId, int, int]] = deque()
        self._shown_sound = self._shown_bytes = 0
        self._snapshots = deque([] if recovered.snapshot_seq is None else [recovered.snapshot_seq], maxlen=2)
        self._since_bytes = recovered.since_bytes
        self._snapshot_bytes = 0
        self._answer_after = 0

    # -- what happened -----------------------------------------------------------------------------------------------

    def arrived(self, entry: Entry) -> None:
        """An input was read."""
        self._arrived.append((entry.id, _size(entry.body), 0 if entry.audio is None else _size(entry.audio)))

    def decided(self, facts: Sequence[Fact], session: Session, journal: Journal, records: Sequence[Record]) -> None:
        """One input was decided on: what came of it, the state after it, and the records that are to be written."""
        if session.is_at_rest and not session.is_transcribing:
            self._exchange_after = None
        elif self._exchange_after is None:
            self._exchange_after = self._caller.kept_after(session)
        self._caller.take(facts, session, journal.consumed)
        if not records:
            return
        if self._standing.session.response is None:
            self._answer_after = self._standing.seq
        self._standing.take(journal.recorded, session, journal.consumed, journal.seq)
        size = sum(_size(record.body) for record in records)
        self._since_bytes += size
        self._shown_bytes += size
        self._shown_sound += sum(_size(record.audio) for record in records if record.audio)

    # -- what is due -------------------------------------------------------------------------------------------------

    async def keep(self, session: Session, journal: Journal, now_ms: int) -> int | None:
        """Do what is due. Call when all that was decided is in the log. Returns when to be called again, Unix ms.

        Raises: LogUnavailable where a checkpoint could not be written, Fenced, SessionUnknown.
        """
        due_ms = journal.checkpoint_due_ms(CHECKPOINT_AFTER_MS)
        if due_ms is not None and due_ms <= now_ms:
            await self._checkpoint(journal)
            due_ms = None
        elif due_ms is None:
            self._saved = journal.consumed
        self._note(journal, now_ms)
        try:
            if self._snapshot_is_due(journal):
                await self._snapshot()
            if self._retention.is_due(now_ms):
                await self._drop(session, journal, now_ms)
                due_ms = journal.checkpoint_due_ms(CHECKPOINT_AFTER_MS)
        except LogUnavailable as error:
            _log.warning("session=%s not tidied up: %s", self._claim.ref.session_id, error)
        return min((at_ms for at_ms in (due_ms, self._retention.due_ms) if at_ms is not None), default=None)

    def _note(self, journal: Journal, now_ms: int) -> None:
        bodies = sounds = 0
        while self._arrived and self._arrived[0][0] <= journal.consumed:
            _, body, sound = self._arrived.popleft()
            bodies, sounds = bodies + body, sounds + sound
        audio, records = Bytes(sounds, self._shown_sound), Bytes(bodies, self._shown_bytes)
        self._shown_sound = self._shown_bytes = 0
        self._retention.note(now_ms, journal.consumed, journal.seq, audio, records)

    async def _checkpoint(self, journal: Journal) -> None:
        await self._log.checkpoint(self._claim, journal.checkpoint())
        self._saved = journal.consumed

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def _snapshot_is_due(self, journal: Journal) -> bool:
        if self._standing.seq != journal.seq:
            return False
        is_at_rest = self._standing.session.is_at_rest
        enough = SNAPSHOT_AFTER_BYTES if is_at_rest else SNAPSHOT_ANYWAY_BYTES
        return self._since_bytes >= max(enough, self._snapshot_bytes)

    async def _snapshot(self) -> None:
        seq = self._standing.seq
        packed = pack_snapshot(self._standing, self.ref_audio, self._retention)
        # Whatever becomes of it: the next one is for the next turn.
        self._since_bytes, self._snapshot_bytes = 0, len(packed)
        await self._log.snapshot(self._claim, seq, packed)
        if not self._snapshots or self._snapshots[-1] != seq:
            self._snapshots.append(seq)

    # -- retention ---------------------------------------------------------------------------------------------------

    async def _drop(self, session: Session, journal: Journal, now_ms: int) -> None:
        """Drop what is too old or too much. First save what a successor would otherwise look for in it."""
        if self._saved != journal.consumed:
            await self._checkpoint(journal)
        if not self._snapshots and self._standing.seq == journal.seq:
            await self._snapshot()
        head = await self._log.head(self._claim.ref.session_id)
        told_until = self._snapshots[0] if len(self._snapshots) == 2 else 0
        needed = Needed(
            input_after=min(self._saved, self._heard_again_after(session)),
            snapshot_seq=told_until if session.response is None else min(told_until, self._answer_after),
            has_snapshot=bool(self._snapshots),
            acknowledged_seq=head.acknowledged_seq,
        )
        audio, history = self._retention.cuts(now_ms, needed)
        try:
            if history is not None:
                await self._log.trim_history(self._claim, **history._asdict())
            if audio is not None:
                await self._log.trim_audio(self._claim, **audio._asdict())
        except LogUnavailable:
            self._retention.failed()
            raise

    def _heard_again_after(self, session: Session) -> EntryId:
        """After which input a successor may want to hear all: the turn that is not over, and what is being answered."""
        after = self._caller.kept_after(session)
        if self._exchange_after is not None:
            after = min(after, max(self._exchange_after, self._caller.longest_after(session)))
        for answer in (session.response, session.begun):
            sound = answer.recipe.sound if answer is not None and answer.recipe is not None else None
            place = Place.read(sound.first) if sound is not None else None
            if place is not None:
                after = min(after, EntryId(place.entry.generation, place.entry.number - 1))
        return after


def _size(stored: bytes) -> int:
    return ENTRY_BYTES + len(stored)
