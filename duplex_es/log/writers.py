"""What one writer of a stream has said and not heard back about: the appender's bookkeeping."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from .api import Record
from .errors import LogError
from .keys import SessionKeys, StreamKeys
from .recent import RecentRecords
from .scripts import Call, session_call


@dataclass(slots=True)
class Run:
    """One call of ``append``: consecutive records from ``first`` on."""

    first: int
    records: Sequence[Record]
    landed: asyncio.Future[None]
    deadline: float
    started: bool = False

    @classmethod
    def within(cls, timeout_s: float, first: int, records: Sequence[Record], *, started: bool = False) -> Run:
        """A run that is given up after ``timeout_s``. Its failure is no news to the loop: its caller may be gone."""
        loop = asyncio.get_running_loop()
        landed: asyncio.Future[None] = loop.create_future()
        landed.add_done_callback(lambda done: done.cancelled() or done.exception())
        return cls(first, records, landed, loop.time() + timeout_s, started)

    @property
    def last(self) -> int:
        """The number of its last record."""
        return self.first + len(self.records) - 1

    def fail(self, error: LogError) -> None:
        """Tell whoever waits."""
        if not self.landed.done():
            self.landed.set_exception(error)


@dataclass(slots=True)
class Right:
    """What gave a writer its generation, for a store that forgets it: digests are empty for a claim.

    ``recovery`` is the digest of the token presented last, empty once that is dead.
    """

    holder: str
    model: str
    record: bytes
    since_s: float
    token: bytes = b""
    recovery: bytes = b""


@dataclass(slots=True)
class Writer:
    """One generation's right to write one stream. ``tail`` is the last number known to be in the log."""

    session: SessionKeys
    stream: StreamKeys
    generation: int
    recent: RecentRecords
    right: Right | None = None
    tail: int | None = None
    epoch: int = 0
    runs: deque[Run] = field(default_factory=deque)

    @property
    def key(self) -> tuple[str, int]:
        """Names it among all writers."""
        return self.stream.records, self.generation

    @property
    def kind(self) -> str:
        """Which of the session's streams it writes."""
        return "output" if self.is_of_output else "input"

    @property
    def is_of_output(self) -> bool:
        """Whether it holds a claim; otherwise it holds an attachment."""
        return self.stream.records == self.session.output.records

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

    def resolve(self, now_s: float) -> bool:
        """Tell the runs up to the tail that they landed, and remember them. Whether nothing is left to send."""
        tail = self.tail or 0
        while self.runs and self.runs[0].last <= tail:
            run = self.runs.popleft()
            if run.last > self.recent.last:
                self.recent.keep(run.first, run.records, now_s)
            if not run.landed.done():
                run.landed.set_result(None)
        return not self.runs

    def expire(self, now_s: float, error: LogError) -> bool:
        """Give up the runs whose time is over, if any; whether they landed is to be looked up."""
        before = len(self.runs)
        while self.runs and self.runs[0].deadline <= now_s:
            self.tail = None
            self.runs.popleft().fail(error)
        return len(self.runs) < before

    def fail(self, error: LogError) -> None:
        """Give up every run."""
        for run in self.runs:
            run.fail(error)
        self.runs.clear()


def reinstatement(writer: Writer, lease_ms: int, publish: str) -> Call:
    """The call that gives a writer its generation again. It has to have a right."""
    assert writer.right is not None
    return session_call(
        "reinstate",
        writer.session,
        writer.right.model,
        incarnation=writer.session.ref.incarnation,
        kind="c" if writer.is_of_output else "a",
        number=writer.generation,
        holder=writer.right.holder,
        token=writer.right.token,
        recovery=writer.right.recovery,
        record=writer.right.record,
        lease_ms=lease_ms,
        member=writer.session.member,
        publish=publish,
    )


class Clock:
    """Seconds in which the store took writes: what is remembered for a store that may lose it ages by this clock only.

    A store that is away for a while may come back without what it took last, however long that is ago.
    """

    def __init__(self, time_s: Callable[[], float] | None = None) -> None:
        self._time = time_s or (lambda: asyncio.get_running_loop().time())
        self._lost_s = 0.0
        self._stopped_s: float | None = None

    def now_s(self) -> float:
        """The time on this clock."""
        return (self._time() if self._stopped_s is None else self._stopped_s) - self._lost_s

    def stop(self, at_s: float) -> None:
        """It takes none since ``at_s`` on this clock. A repeat changes nothing."""
        if self._stopped_s is None:
            self._stopped_s = at_s + self._lost_s

    def go_on(self) -> None:
        """It takes them again. A repeat changes nothing."""
        if self._stopped_s is not None:
            self._lost_s += self._time() - self._stopped_s
            self._stopped_s = None
