"""Group commit: everything that is ready to be appended in one turn of the event loop shares one pipeline.

Entries carry explicit ids, so Redis itself refuses a repeat of a landed write and a writer of an older generation.
What is sent is one transaction of ``XADD NOMKSTREAM`` (audio first, then its record) and the notification: refused as a
whole while the store takes no writes, so nobody is told of a record that is not there. After a failure nothing more of
a stream is sent before its end was looked up; what is missing is sent again under the same ids. That goes for records
that had landed, too, and that the store lost with its tail: those of the last moments are remembered for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from redis.exceptions import ResponseError

from .api import EntryId, Record
from .connections import Broken, Command, Link, Reply
from .errors import Fenced, LogError, LogUnavailable, SessionUnknown, TailLost
from .keys import SessionKeys, StreamKeys
from .lanes import Backoff, is_demoted, is_transient, stop
from .notifications import encode_record
from .recent import RecentRecords
from .scripts import Scripts, refused, session_call
from .settings import LogSettings

RECORDS_PER_PIPELINE = 512
KNOWN_WRITERS = 8192

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Run:
    """One call of ``append``: consecutive records from ``first`` on."""

    first: int
    records: Sequence[Record]
    landed: asyncio.Future[None]
    deadline: float
    started: bool = False

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1


@dataclass(slots=True)
class _Writer:
    """One generation's right to write one stream. ``tail`` is the last number known to be in the log."""

    session: SessionKeys
    stream: StreamKeys
    generation: int
    recent: RecentRecords
    tail: int | None = None
    epoch: int = 0
    runs: deque[_Run] = field(default_factory=deque)

    @property
    def key(self) -> tuple[str, int]:
        return self.stream.records, self.generation

    def is_doubtful(self, epoch: int) -> bool:
        """Whether to look up the stream's end before sending: it is not known, or the caller sees it elsewhere."""
        if self.tail is None or self.epoch != epoch:
            return True
        return bool(self.runs) and not (self.runs[0].started or self.runs[0].first == self.tail + 1)

    def owed(self) -> Iterator[Record]:
        """The records after the tail that follow without a hole; looking at them marks their run as started."""
        following = (self.tail or 0) + 1
        for run in self.runs:
            if run.first > following:
                return
            run.started = True
            yield from islice(run.records, following - run.first, None)
            following = max(following, run.last + 1)


_Portion = tuple[_Writer, list[Record]]


class Appender:
    """Appends to the streams of one Redis node over one connection.

    ``pipelines`` counts the pipelines that carried appends, ``healed`` the records that the store lost and got again.
    """

    def __init__(self, link: Link, scripts: Scripts, settings: LogSettings, publish: str) -> None:
        self._link = link
        self._scripts = scripts
        self._settings = settings
        self._publish = publish
        self._writers: dict[tuple[str, int], _Writer] = {}
        self._busy: dict[tuple[str, int], _Writer] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._compared_epoch = 0
        self._forget_at_s = 0.0
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
        loop = asyncio.get_running_loop()
        run = _Run(first, records, loop.create_future(), loop.time() + self._settings.append_timeout_s)
        key = (stream.records, generation)
        writer = self._writers.get(key)
        if writer is None:
            writer = self._writers[key] = self._writer(session, stream, generation)
        writer.runs.append(run)
        self._busy[key] = writer
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._serve(), name="duplex-es-appender")
        await run.landed

    def knows(self, session: SessionKeys, stream: StreamKeys, generation: int, tail: int) -> None:
        """Remember where a stream ends, as a claim or an attach has just said: the first append need not ask."""
        if len(self._writers) >= KNOWN_WRITERS:
            self._writers = dict(self._busy)
        writer = self._writer(session, stream, generation)
        writer.tail, writer.epoch = tail, self._link.epoch
        self._writers.setdefault(writer.key, writer)

    def _writer(self, session: SessionKeys, stream: StreamKeys, generation: int) -> _Writer:
        recent = RecentRecords(self._settings.heal_window_s, self._settings.heal_bytes)
        return _Writer(session, stream, generation, recent)

    async def drained(self, stream: StreamKeys, generation: int) -> None:
        """Return when nothing of this writer waits any more, and forget the writer."""
        writer = self._writers.get((stream.records, generation))
        if writer is not None:
            # Whatever becomes of them is told to those who appended.
            await asyncio.gather(*(asyncio.shield(run.landed) for run in writer.runs), return_exceptions=True)
            self._writers.pop(writer.key, None)

    async def close(self) -> None:
        """Stop, close the connection, and fail whatever still waits."""
        task, self._task = self._task, None
        await stop(task)
        await self._link.close()

    # -- the task that owns the connection -------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            await self._commit_groups()
        finally:
            for writer in list(self._busy.values()):
                self._give_up(writer, LogUnavailable("the log is closed"))

    async def _commit_groups(self) -> None:
        backoff = Backoff()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._busy:
                reason = "the store takes no writes for now"
                try:
                    if await self._turn():
                        backoff.reset()
                        # Whoever was just told that an append landed may have the next one ready.
                        await asyncio.sleep(0)
                        continue
                except Broken as failure:
                    reason = str(failure)
                except LogError as refusal:
                    for writer in list(self._busy.values()):
                        self._give_up(writer, refusal)
                self._expire(reason)
                await backoff.pause()

    async def _turn(self) -> bool:
        """Look up doubtful ends, then send one pipeline. False when the store asks for patience."""
        await self._link.ensure()
        epoch = self._link.epoch
        if self._compared_epoch != epoch:
            # Behind a new connection may be a store without its tail, also of streams that nobody appends to now.
            self._busy |= {
                key: writer for key, writer in self._writers.items() if writer.recent.last and writer.epoch != epoch
            }
        doubtful = [writer for writer in self._busy.values() if writer.is_doubtful(self._link.epoch)]
        if doubtful and not await self._compare(doubtful):
            return False
        self._compared_epoch = epoch
        self._forget()
        portions = self._collect()
        if not portions:
            return True
        commands: list[Command] = [("MULTI",)]
        for writer, owed in portions:
            for number, record in enumerate(owed, (writer.tail or 0) + 1):
                self._add(commands, writer, number, record)
        commands.append(("EXEC",))
        self.pipelines += 1
        return await self._settle(portions, await self._link.exchange(commands))

    def _forget(self) -> None:
        """Now and then let go of what nobody will need again, also for streams that have fallen silent."""
        now_s = asyncio.get_running_loop().time()
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

    def _add(self, commands: list[Command], writer: _Writer, number: int, record: Record) -> None:
        entry_id = f"{writer.generation}-{number}"
        if record.audio is not None:
            commands.append(("XADD", writer.stream.audio, "NOMKSTREAM", entry_id, "b", record.audio))
        commands.append(("XADD", writer.stream.records, "NOMKSTREAM", entry_id, "m", record.body))
        notification = encode_record(entry_id, record, self._settings.pointer_above_bytes)
        commands.append((self._publish, writer.stream.channel, notification))

    async def _settle(self, portions: Sequence[_Portion], replies: list[Reply]) -> bool:
        """Tell everybody what became of a pipeline. False when the store asks for patience."""
        executed = replies[-1]
        if not isinstance(executed, list):
            # Refused before it began: the first complaint says why, EXEC only that there was one.
            complaints = [reply for reply in replies if isinstance(reply, ResponseError)]
            if any(is_transient(complaint) for complaint in complaints):
                if any(is_demoted(complaint) for complaint in complaints):
                    await self._link.close()
                return False
            raise refused(complaints[0]) if complaints else LogError(f"unexpected reply of the store: {executed!r}")
        position = 0
        for writer, owed in portions:
            outcomes: list[Reply] = []
            for record in owed:
                position += 3 if record.audio is not None else 2
                outcomes.append(executed[position - 2])
            self._take(writer, outcomes)
        return True

    def _take(self, writer: _Writer, outcomes: list[Reply]) -> None:
        for number, outcome in enumerate(outcomes, (writer.tail or 0) + 1):
            if outcome is None:
                return self._give_up(writer, SessionUnknown(writer.stream.records))
            if isinstance(outcome, ResponseError):
                if "equal or smaller" not in str(outcome):
                    return self._give_up(writer, refused(outcome))
                # Either it landed before, or a newer writer is there. The end of the stream tells.
                writer.tail = None
                return None
            writer.tail = number
        return self._resolve(writer)

    def _resolve(self, writer: _Writer) -> None:
        tail, now_s = writer.tail or 0, asyncio.get_running_loop().time()
        while writer.runs and writer.runs[0].last <= tail:
            run = writer.runs.popleft()
            if run.last > writer.recent.last:
                writer.recent.keep(run.first, run.records, now_s)
            if not run.landed.done():
                run.landed.set_result(None)
        if not writer.runs:
            self._busy.pop(writer.key, None)

    async def _compare(self, writers: list[_Writer]) -> bool:
        """Look up where these streams end. False when the store asks for patience."""
        calls = [
            session_call("look", w.session, incarnation=w.session.ref.incarnation, after_seq=0) for w in writers
        ]
        looks = await self._scripts.run(self._link.exchange, calls)
        for writer, look in zip(writers, looks, strict=True):
            if is_transient(look):
                return False
            if isinstance(look, ResponseError):
                self._give_up(writer, refused(look))
            else:
                self._compared(writer, look)
        return True

    def _compared(self, writer: _Writer, look: Reply) -> None:
        state, attachment, claim, last_input, last_seq = look[:5]
        is_output = writer.stream.records == writer.session.output.records
        newest = claim if is_output else attachment
        if state in (b"gone", b"past", b"closed"):
            return self._give_up(writer, SessionUnknown(f"{writer.session.member} is {state.decode()}"))
        if newest > writer.generation:
            return self._give_up(writer, Fenced(f"generation {newest} is newer than {writer.generation}"))
        last = last_seq if is_output else EntryId.parse(last_input).number
        if newest < writer.generation:
            # The store forgot the claim or attachment itself.
            return self._give_up(writer, TailLost(last))
        writer.tail, writer.epoch = last, self._link.epoch
        self._resolve(writer)
        self._heal(writer, last)
        while writer.runs and writer.runs[0].first > last + 1:
            landed = writer.runs.popleft().landed
            if not landed.done():
                landed.set_exception(TailLost(last))
        return self._resolve(writer)

    def _heal(self, writer: _Writer, last: int) -> None:
        """Queue what landed after ``last`` and is not there any more in front of everything else, if it is all kept."""
        if writer.runs and writer.runs[0].first <= last + 1:
            return
        if lost := writer.recent.after(last):
            loop = asyncio.get_running_loop()
            landed: asyncio.Future[None] = loop.create_future()
            landed.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody waits for it
            deadline = loop.time() + self._settings.append_timeout_s
            writer.runs.appendleft(_Run(last + 1, lost, landed, deadline, started=True))
            self._busy[writer.key] = writer
            self.healed += len(lost)
            _log.warning("%s lost %d records after %d: written again", writer.stream.records, len(lost), last)

    def _give_up(self, writer: _Writer, error: LogError) -> None:
        self._busy.pop(writer.key, None)
        self._writers.pop(writer.key, None)
        for run in writer.runs:
            if not run.landed.done():
                run.landed.set_exception(error)
        writer.runs.clear()

    def _expire(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        for writer in list(self._busy.values()):
            while writer.runs and writer.runs[0].deadline <= now:
                landed = writer.runs.popleft().landed
                writer.tail = None
                if not landed.done():
                    landed.set_exception(LogUnavailable(reason))
            self._resolve(writer)
