"""Group commit: everything that is ready to be appended in one turn of the event loop shares one pipeline.

Entries carry explicit ids, so Redis itself refuses a repeat of a landed write and a writer of an older generation.
What is sent is one transaction of ``XADD NOMKSTREAM`` (audio first, then its record) and the notification: refused as a
whole while the store takes no writes, so nobody is told of a record that is not there. After a failure nothing more of
a stream is sent before its end was looked up; what is missing is sent again under the same ids. That goes for records
that had landed, too, and that the store lost with its tail: those of the last moments are remembered for it.

On a cluster there is one transaction for each slot, and each is settled by itself. The notifications follow with the
next pipeline: a node does not look whether all the keys are still there when a transaction publishes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain

from redis.exceptions import ResponseError

from .api import EntryId, Record
from .connections import Broken, Command, Link, Reply
from .errors import Fenced, LogError, LogUnavailable, SessionUnknown, TailLost
from .keys import SessionKeys, StreamKeys
from .lanes import Backoff, Trouble, is_demoted, is_elsewhere, is_transient, nobody_minds, stop
from .notifications import encode_record
from .observing import append_observed
from .recent import RecentRecords
from .scripts import Scripts, refused, session_call
from .settings import LogSettings
from .writers import Clock, Right, Run, Writer, reinstatement

RECORDS_PER_PIPELINE = 512
KNOWN_WRITERS = 8192

_log = logging.getLogger(__name__)

_Portion = tuple[Writer, list[Record]]


class Appender:
    """Appends to the streams of one Redis node over one connection.

    ``by_slot`` is for a node that shares the slots with others; ``trouble`` is called when it does not do as it should.
    ``pipelines`` counts the pipelines that carried appends, ``healed`` the records that the store lost and got again.
    """

    def __init__(
        self,
        link: Link,
        scripts: Scripts,
        settings: LogSettings,
        publish: str,
        *,
        by_slot: bool = False,
        trouble: Trouble = nobody_minds,
    ) -> None:
        self._link = link
        self._scripts = scripts
        self._settings = settings
        self._publish = publish
        self._by_slot = by_slot
        self._trouble = trouble
        self._writers: dict[tuple[str, int], Writer] = {}
        self._busy: dict[tuple[str, int], Writer] = {}
        self._held: dict[int, dict[tuple[str, int], Writer]] = {}  # slots that were refused, for a moment
        self._backoffs: defaultdict[int, Backoff] = defaultdict(Backoff)
        self._leaving: list[tuple[Collection[int], Appender, Callable[[], None]]] = []
        self._news: list[Command] = []  # where slots may part: what landed and was not told yet
        self._in_turn = False
        self._wake = asyncio.Event()
        self._clock = Clock()
        self._task: asyncio.Task[None] | None = None
        self._compared_epoch = 0
        self._forget_at_s = 0.0
        self._now_s = 0.0
        self.pipelines = 0
        self.healed = 0

    async def append(
        self, session: SessionKeys, stream: StreamKeys, generation: int, first: int, records: Sequence[Record]
    ) -> None:
        """Return when ``records`` are in the log as ``<generation>-<first>`` and up, in order, each once.

        Cancelling the caller does not take them back. Raises: Fenced, SessionUnknown, TailLost, LogUnavailable.
        """
        if first < 1:
            raise ValueError("numbers of records start at 1")
        if not records:
            return
        run = Run.within(self._settings.append_timeout_s, first, records)
        writer = self._writers.get((stream.records, generation)) or self._writer(session, stream, generation)
        self._writers[writer.key] = writer
        writer.runs.append(run)
        self._want(writer)
        # Shielded: the record stays on its way when the caller is cancelled, and ``drained`` has to see that.
        await append_observed(self._settings.observer, writer.kind, records, asyncio.shield(run.landed))

    def _want(self, writer: Writer) -> None:
        """Serve this writer in the next turn, or with the others of its slot once that is not held any more."""
        queue = self._busy
        if self._held:
            queue = self._held.get(writer.session.slot, queue)
        queue[writer.key] = writer
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._serve(), name="duplex-es-appender")

    def knows(
        self, session: SessionKeys, stream: StreamKeys, generation: int, tail: int, right: Right | None = None
    ) -> None:
        """Remember where a stream ends, as a claim or an attach has just said: the first append need not ask.

        ``right`` is what to say again to a store that has lost the claim or the attach itself.
        """
        if len(self._writers) >= KNOWN_WRITERS:
            self._writers = {writer.key: writer for writer in self._waiting()}
        writer = self._writer(session, stream, generation)
        writer.tail, writer.epoch, writer.right = tail, self._link.epoch, right
        self._writers.setdefault(writer.key, writer)

    def right(self, holder: str, model: str, record: bytes, token: bytes = b"", recovery: bytes = b"") -> Right:
        """What has just given a writer its generation."""
        return Right(holder, model, record, self._clock.now_s(), token, recovery)

    def confirmed(self, stream: StreamKeys, generation: int) -> None:
        """The token that was presented for this generation is dead."""
        writer = self._writers.get((stream.records, generation))
        if writer is not None and writer.right is not None:
            writer.right.recovery = b""

    def _writer(self, session: SessionKeys, stream: StreamKeys, generation: int) -> Writer:
        recent = RecentRecords(self._settings.heal_window_s, self._settings.heal_bytes)
        return Writer(session, stream, generation, recent)

    def _waiting(self) -> list[Writer]:
        """Every writer that has something to send or to look up."""
        return [*self._busy.values(), *(writer for held in self._held.values() for writer in held.values())]

    async def drained(self, stream: StreamKeys, generation: int) -> int:
        """Return when nothing of this writer waits any more: the last number that landed, 0 when that is not known."""
        if (writer := self._writers.get((stream.records, generation))) is None:
            return 0
        # Whatever becomes of them is told to those who appended.
        await asyncio.gather(*(asyncio.shield(run.landed) for run in writer.runs), return_exceptions=True)
        return writer.tail or 0

    async def restored(self, stream: StreamKeys, generation: int) -> None:
        """Return when this writer has looked where its stream ends now, and has written again what it still can."""
        if writer := self._writers.get((stream.records, generation)):
            looked = Run.within(self._settings.append_timeout_s, (writer.tail or 0) + 1, ())
            writer.runs.append(looked)
            writer.tail = None
            self._link.doubt()
            self._want(writer)
            await asyncio.gather(asyncio.shield(looked.landed), return_exceptions=True)

    def forget(self, stream: StreamKeys, generation: int) -> None:
        """Nothing more is written under this generation."""
        self._writers.pop((stream.records, generation), None)

    def doubt(self) -> None:
        """The connection may lead to the wrong place: make it anew, and look every stream up that is remembered."""
        self._link.doubt()
        for writer in self._writers.values():
            if self._is_remembered(writer):
                self._want(writer)

    def suspect(self) -> None:
        """Something happened to the store: look whether it still has what is remembered, if nothing will anyway."""
        if not self._busy and not self._held:
            self.doubt()

    async def close(self) -> None:
        """Stop, close the connection, and fail whatever still waits."""
        task, self._task = self._task, None
        await stop(task)
        await self._link.close()

    # -- moving to another node ------------------------------------------------------------------------------------

    def move(self, slots: Collection[int], to: Appender, then: Callable[[], None]) -> None:
        """Hand the writers of ``slots`` over as soon as nothing of them is on its way, and call ``then`` in that step.

        Until then this appender goes on taking their records, and hands those over with the rest.
        """
        self._leaving.append((slots, to, then))
        if not self._in_turn:
            self._let_go()

    def _let_go(self) -> None:
        leaving, self._leaving = self._leaving, []
        for slots, to, then in leaving:
            gone = [writer for writer in self._writers.values() if writer.session.slot in slots]
            for writer in gone:
                del self._writers[writer.key]
                self._busy.pop(writer.key, None)
            for slot in slots:
                self._held.pop(slot, None)
                self._backoffs.pop(slot, None)
            to.adopt(gone)
            then()

    def adopt(self, writers: Iterable[Writer]) -> None:
        """Go on for these writers, which wrote elsewhere so far: where their streams end here is to be looked up."""
        for writer in writers:
            writer.tail, writer.epoch = None, 0
            self._writers[writer.key] = writer
            if writer.runs or self._is_remembered(writer):
                self._want(writer)

    # -- the task that owns the connection -------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            await self._commit_groups()
        finally:
            for writer in self._waiting():
                self._give_up(writer, LogUnavailable("the log is closed"))
            self._held.clear()

    async def _commit_groups(self) -> None:
        backoff = Backoff()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._busy or self._news:
                reason = "the store takes no writes for now"
                self._in_turn, began_s = True, self._clock.now_s()
                try:
                    if await self._turn():
                        self._clock.go_on()
                        backoff.reset()
                        # Whoever was just told that an append landed may have the next one ready.
                        await asyncio.sleep(0)
                        continue
                except Broken as failure:
                    reason = str(failure)
                except LogError as refusal:
                    self._news.clear()
                    for writer in list(self._busy.values()):
                        self._give_up(writer, refusal)
                finally:
                    self._in_turn = False
                    self._let_go()
                self._clock.stop(began_s)
                self._trouble()
                self._expire(reason)
                await backoff.pause()

    async def _turn(self) -> bool:
        """Look up doubtful ends, then send one pipeline. False when the store asks for patience."""
        await self._link.ensure()
        epoch = self._link.epoch
        if self._compared_epoch != epoch:
            # Behind a new connection may be a store without its tail, also of streams that nobody appends to now.
            self._busy |= {
                key: writer
                for key, writer in self._writers.items()
                if writer.epoch != epoch and self._is_remembered(writer)
            }
        doubtful = [writer for writer in self._busy.values() if writer.is_doubtful(self._link.epoch)]
        if doubtful and not await self._compare(doubtful):
            return False
        self._compared_epoch = epoch
        self._forget()
        groups = self._grouped(self._collect())
        if not groups and not self._news:
            return True
        transactions = [self._transaction(portions) for portions in groups]
        self.pipelines += bool(groups)
        news = len(self._news)
        self._settings.observer.piped()
        replies = await self._link.exchange([*self._news, *chain.from_iterable(transactions)])
        if elsewhere := [reply for reply in replies[:news] if is_elsewhere(reply)]:
            self._trouble(*elsewhere)  # those who listen there hear of it when they have found the new place
        del self._news[:news]
        has_patience, position = True, news
        for portions, transaction in zip(groups, transactions, strict=True):
            own = replies[position : position + len(transaction)]
            has_patience = await self._settle(portions, own) and has_patience
            position += len(own)
        return has_patience

    def _transaction(self, portions: Sequence[_Portion]) -> list[Command]:
        commands: list[Command] = [("MULTI",)]
        for writer, owed in portions:
            for number, record in enumerate(owed, (writer.tail or 0) + 1):
                self._add(commands, writer, number, record)
        commands.append(("EXEC",))
        return commands

    def _is_remembered(self, writer: Writer) -> bool:
        """Whether there is anything to give again to a store that has lost it."""
        right = writer.right
        return bool(writer.recent.last) or (
            right is not None and right.since_s > self._clock.now_s() - self._settings.heal_window_s
        )

    def _forget(self) -> None:
        """Now and then let go of what nobody will need again, also for streams that have fallen silent."""
        now_s = self._clock.now_s()
        if now_s >= self._forget_at_s:
            self._forget_at_s = now_s + self._settings.heal_window_s
            for writer in self._writers.values():
                writer.recent.forget(now_s)

    def _collect(self) -> list[_Portion]:
        """What the next pipeline carries, within its budget; who got a share queues up behind the others."""
        portions: list[_Portion] = []
        budget, size = RECORDS_PER_PIPELINE, 0
        for writer in list(self._busy.values()):
            owed: list[Record] = []
            for record in writer.owed():
                record_bytes = len(record.body) + len(record.audio or b"")
                if not budget or (size and size + record_bytes > self._settings.batch_bytes):
                    break
                owed.append(record)
                budget, size = budget - 1, size + record_bytes
            if owed:
                portions.append((writer, owed))
                self._busy[writer.key] = self._busy.pop(writer.key)
        return portions

    def _grouped(self, portions: list[_Portion]) -> list[list[_Portion]]:
        """By transaction: one that holds everything, or, where slots may part, one for each slot."""
        if not self._by_slot:
            return [portions] if portions else []
        groups: defaultdict[int, list[_Portion]] = defaultdict(list)
        for writer, owed in portions:
            groups[writer.session.slot].append((writer, owed))
        return list(groups.values())

    def _add(self, commands: list[Command], writer: Writer, number: int, record: Record) -> None:
        entry_id = f"{writer.generation}-{number}"
        if record.audio is not None:
            commands.append(("XADD", writer.stream.audio, "NOMKSTREAM", entry_id, "b", record.audio))
        commands.append(("XADD", writer.stream.records, "NOMKSTREAM", entry_id, "m", record.body))
        if not self._by_slot:
            commands.append(self._notification(writer, entry_id, record))

    def _notification(self, writer: Writer, entry_id: str, record: Record) -> Command:
        text = encode_record(entry_id, record, self._settings.pointer_above_bytes)
        return self._publish, writer.stream.channel, text

    async def _settle(self, portions: Sequence[_Portion], replies: list[Reply]) -> bool:
        """Tell everybody what became of a transaction. False when the store asks for patience."""
        executed = replies[-1]
        if not isinstance(executed, list):
            # Refused before it began: the first complaint says why, EXEC only that there was one.
            complaints = [reply for reply in replies if isinstance(reply, ResponseError)]
            if any(is_demoted(complaint) for complaint in complaints):
                await self._link.close()
            return self._be_patient([writer for writer, _ in portions], complaints, executed)
        position, told, self._now_s = 0, 0 if self._by_slot else 1, self._clock.now_s()
        for writer, owed in portions:
            outcomes: list[Reply] = []
            for number, record in enumerate(owed, (writer.tail or 0) + 1):
                position += 1 + told + (record.audio is not None)
                outcomes.append(executed[position - 1 - told])
                if not told and isinstance(outcomes[-1], bytes):
                    self._news.append(self._notification(writer, f"{writer.generation}-{number}", record))
            self._take(writer, outcomes)
        if self._backoffs:
            self._backoffs.pop(portions[0][0].session.slot, None)
        return True

    def _be_patient(self, writers: Sequence[Writer], complaints: Sequence[ResponseError], reply: Reply) -> bool:
        """Let writers wait that were refused, or give them up where waiting is no use. False when all should wait."""
        if self._by_slot and (reply is None or any(is_elsewhere(one) or is_transient(one) for one in complaints)):
            self._hold({writer.session.slot for writer in writers}, complaints)
            return True
        if any(is_transient(complaint) for complaint in complaints):
            return False
        error = refused(complaints[0]) if complaints else LogError(f"unexpected reply of the store: {reply!r}")
        for writer in writers:
            self._give_up(writer, error)
        return True

    def _hold(self, slots: Collection[int], complaints: Sequence[ResponseError]) -> None:
        """Leave these slots alone for a moment: who is responsible changes, and nothing of them was written."""
        self._trouble(*complaints)
        loop = asyncio.get_running_loop()
        for slot in slots:
            if slot not in self._held:
                loop.call_later(self._backoffs[slot].longer_s(), self._readmit, slot)
            held = self._held.setdefault(slot, {})
            for writer in [writer for writer in self._busy.values() if writer.session.slot == slot]:
                writer.tail = None
                writer.expire(loop.time(), LogUnavailable(f"slot {slot} is not served: {[*map(str, complaints)]}"))
                held[writer.key] = self._busy.pop(writer.key)

    def _readmit(self, slot: int) -> None:
        held = self._held.pop(slot, {})
        self._busy |= held
        if held:
            self._wake.set()

    def _take(self, writer: Writer, outcomes: list[Reply]) -> None:
        for number, outcome in enumerate(outcomes, (writer.tail or 0) + 1):
            if outcome is None and not self._by_slot:
                return self._give_up(writer, SessionUnknown(writer.stream.records))
            if outcome is None:
                # Gone, or gone to another node: that of the stream tells.
                writer.tail = None
                return None
            if isinstance(outcome, ResponseError):
                if "equal or smaller" not in str(outcome):
                    return self._give_up(writer, refused(outcome))
                # Either it landed before, or a newer writer is there. The end of the stream tells.
                writer.tail = None
                return None
            writer.tail = number
        return self._resolve(writer)

    def _resolve(self, writer: Writer) -> None:
        if writer.resolve(self._now_s):
            self._busy.pop(writer.key, None)

    async def _compare(self, writers: list[Writer]) -> bool:
        """Look up where these streams end. False when the store asks for patience."""
        calls = [
            session_call("look", w.session, incarnation=w.session.ref.incarnation, after_seq=0) for w in writers
        ]
        looks = await self._scripts.run(self._link.exchange, calls)
        forgotten: list[Writer] = []
        for writer, look in zip(writers, looks, strict=True):
            if not isinstance(look, ResponseError):
                if self._compared(writer, look):
                    forgotten.append(writer)
            elif is_elsewhere(look) or is_transient(look):
                if not self._be_patient([writer], [look], look):
                    return False
            else:
                self._give_up(writer, refused(look))
        return not forgotten or await self._reinstate(forgotten)

    def _compared(self, writer: Writer, look: Reply) -> bool:
        """Take over where a stream ends. True when the store has forgotten the writer, and may be told of it again."""
        state, attachment, claim, last_input, last_seq = look[:5]
        newest = claim if writer.is_of_output else attachment
        last = last_seq if writer.is_of_output else EntryId.parse(last_input).number
        if state in (b"gone", b"past", b"closed"):
            self._give_up(writer, SessionUnknown(f"{writer.session.member} is {state.decode()}"))
        elif newest > writer.generation:
            self._give_up(writer, Fenced(f"generation {newest} is newer than {writer.generation}"))
        elif newest == writer.generation:
            self._ends_at(writer, last)
        elif writer.right is not None and self._is_remembered(writer):
            return True
        else:
            self._give_up(writer, TailLost(last))
        return False

    async def _reinstate(self, writers: Sequence[Writer]) -> bool:
        """Give writers their generations again. False when the store asks for patience."""
        lease_ms = int(self._settings.lease_s * 1000)
        calls = [reinstatement(writer, lease_ms, self._publish) for writer in writers]
        for writer, reply in zip(writers, await self._scripts.run(self._link.exchange, calls), strict=True):
            if not isinstance(reply, ResponseError):
                _log.warning("%s lost generation %d: raised again", writer.stream.records, writer.generation)
                self._ends_at(writer, int(reply))
            elif is_elsewhere(reply) or is_transient(reply):
                if not self._be_patient([writer], [reply], reply):
                    return False
            else:
                self._give_up(writer, refused(reply))
        return True

    def _ends_at(self, writer: Writer, last: int) -> None:
        self._now_s = self._clock.now_s()
        writer.tail, writer.epoch = last, self._link.epoch
        self._resolve(writer)
        self._heal(writer, last)
        while writer.runs and writer.runs[0].first > last + 1:
            writer.runs.popleft().fail(TailLost(last))
        self._resolve(writer)

    def _heal(self, writer: Writer, last: int) -> None:
        """Queue what landed after ``last`` and is not there any more in front of everything else, if it is all kept."""
        is_offered = bool(writer.runs) and writer.runs[0].first <= last + 1
        if not is_offered and (lost := writer.recent.after(last)):
            writer.runs.appendleft(Run.within(self._settings.append_timeout_s, last + 1, lost, started=True))
            self._busy[writer.key] = writer
            self.healed += len(lost)
            self._settings.observer.healed(len(lost))
            _log.warning("%s lost %d records after %d: written again", writer.stream.records, len(lost), last)

    def _give_up(self, writer: Writer, error: LogError) -> None:
        self._busy.pop(writer.key, None)
        self._writers.pop(writer.key, None)
        writer.fail(error)

    def _expire(self, reason: str) -> None:
        now_s = asyncio.get_running_loop().time()
        for writer in list(self._busy.values()):
            if writer.expire(now_s, LogUnavailable(reason)) and not writer.runs:
                del self._busy[writer.key]
