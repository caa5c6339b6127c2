"""A lane: one connection behind a queue. Callers await futures, so cancelling one never touches the connection."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from redis.exceptions import AskError, ClusterDownError, ReadOnlyError, ResponseError, TryAgainError

from .connections import Broken, Command, Link, Reply
from .errors import ConfigurationError, LogError, LogUnavailable
from .settings import LogSettings

TRANSIENT = ("LOADING", "MISCONF", "OOM", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY ", "READONLY")
"""How error replies begin that may go away by themselves."""

PIPELINE_JOBS = 64


def is_transient(reply: Reply) -> bool:
    """Whether the same command may succeed in a moment."""
    # redis-py cuts the code off the errors it has a class for.
    return isinstance(reply, ResponseError) and (
        _said(reply).startswith(TRANSIENT) or type(reply).__name__ in _TRANSIENT_CLASSES
    )


_TRANSIENT_CLASSES = frozenset(
    {"ReadOnlyError", "OutOfMemoryError", "ClusterDownError", "TryAgainError", "MasterDownError"}
)


def is_demoted(reply: Reply) -> bool:
    """Whether the node became a replica: the connection leads to the wrong place."""
    return isinstance(reply, ReadOnlyError) or (
        isinstance(reply, ResponseError) and _said(reply).startswith("READONLY")
    )


def _said(reply: ResponseError) -> str:
    """An error's text; of a transaction that was refused at its very end, why."""
    return str(reply).rpartition("discarded because of: ")[2]


def is_elsewhere(reply: Reply) -> bool:
    """Whether another node of the cluster is responsible, or will be in a moment: MOVED, ASK, TRYAGAIN, CLUSTERDOWN."""
    return isinstance(reply, AskError | TryAgainError | ClusterDownError)


class Trouble(Protocol):
    """Called when a node does not do as it should, with the error replies if there were any. Returns at once."""

    def __call__(self, *complaints: Reply) -> None: ...


def nobody_minds(*complaints: Reply) -> None:
    """The ``Trouble`` of whoever has no other node to turn to."""


class Backoff:
    """Pauses that double from 20 ms to ``longest_s``, with jitter."""

    def __init__(self, longest_s: float = 0.5) -> None:
        self._longest_s = longest_s
        self._pause_s = 0.0

    def longer_s(self) -> float:
        """How long to wait now: a little longer than the last time."""
        self._pause_s = min(max(0.02, self._pause_s * 2), self._longest_s)
        return self._pause_s * random.uniform(0.5, 1.0)

    async def pause(self) -> None:
        """Wait a little longer than the last time."""
        await asyncio.sleep(self.longer_s())

    def reset(self) -> None:
        """The next failure is a first one."""
        self._pause_s = 0.0


async def stop(task: asyncio.Task[None] | None) -> None:
    """Cancel ``task`` and return once it has ended; what it raised is of no interest any more."""
    while task is not None and not task.done():
        # Again and again: up to Python 3.11, asyncio.wait_for loses a cancellation that meets a result.
        task.cancel()
        await asyncio.wait([task], timeout=0.1)
    if task is not None and not task.cancelled():
        task.exception()


class Moved(LogUnavailable):
    """Ask again: another node may be responsible now."""

    def __init__(self) -> None:
        super().__init__("another node may be responsible now")


@dataclass(slots=True)
class _Job:
    commands: Sequence[Command]
    future: asyncio.Future[list[Reply]]
    deadline: float


class Lane:
    """Runs pipelines in order on one connection, and again after a failure: only for what may run twice.

    Jobs that wait together travel together. A job that finds no answer until its deadline ends in LogUnavailable.
    ``by_slot`` is for a node that shares the slots with others: what it says of them is an answer like any other.
    ``trouble`` is called when the node does not do as it should.
    """

    def __init__(
        self, link: Link, settings: LogSettings, *, by_slot: bool = False, trouble: Trouble = nobody_minds
    ) -> None:
        self._link = link
        self._settings = settings
        self._by_slot = by_slot
        self._trouble = trouble
        self._jobs: deque[_Job] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def run(self, commands: Sequence[Command]) -> list[Reply]:
        """The replies to ``commands``, error replies as values. Raises: LogUnavailable, ConfigurationError."""
        loop = asyncio.get_running_loop()
        job = _Job(commands, loop.create_future(), loop.time() + self._settings.append_timeout_s)
        self._jobs.append(job)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._serve(), name="duplex-es-lane")
        return await job.future

    def hand_back(self) -> None:
        """End every job that waits in ``Moved``: it may be another node's by now."""
        self._fail(self._jobs, Moved())

    def doubt(self) -> None:
        """The connection may lead to the wrong place: make it anew before it is used again."""
        self._link.doubt()

    async def close(self) -> None:
        """Stop, close the connection, and fail whatever still waits."""
        task, self._task = self._task, None
        await stop(task)
        await self._link.close()

    async def _serve(self) -> None:
        try:
            await self._run_jobs()
        finally:
            self._fail(self._jobs, LogUnavailable("the log is closed"))
            self._jobs.clear()

    async def _run_jobs(self) -> None:
        backoff = Backoff()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._jobs:
                try:
                    if await self._one_pipeline():
                        backoff.reset()
                        continue
                except Broken as failure:
                    self._trouble()
                    self._expire(str(failure))
                except ConfigurationError as refusal:
                    self._fail(self._jobs, refusal)
                    self._jobs.clear()
                await backoff.pause()

    async def _one_pipeline(self) -> bool:
        """Run the jobs that wait; answered ones leave the queue. False when the store asks for patience."""
        batch = [self._jobs[n] for n in range(min(len(self._jobs), PIPELINE_JOBS))]
        failure: Broken | None = None
        refused: list[_Job] = []
        demoted = False
        try:
            await self._link.ensure()
            replies = await self._link.exchange([command for job in batch for command in job.commands])
        except Broken as broken:
            replies, failure = broken.replies, broken
        position = 0
        for job in batch:
            own = replies[position : position + len(job.commands)]
            position += len(job.commands)
            if len(own) < len(job.commands):
                break
            self._jobs.popleft()
            if any(self._is_to_wait(reply) for reply in own):
                refused.append(job)
                demoted = demoted or any(is_demoted(reply) for reply in own)
            elif not job.future.done():
                job.future.set_result(own)
        self._jobs.extendleft(reversed(refused))
        if failure is not None:
            raise failure
        if demoted:
            await self._link.close()
        if refused:
            self._trouble()
            self._expire("the store takes no writes for now")
        return not refused

    def _is_to_wait(self, reply: Reply) -> bool:
        return is_transient(reply) and not (self._by_slot and is_elsewhere(reply))

    def _expire(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        late = [job for job in self._jobs if job.deadline <= now or job.future.done()]
        self._fail(late, LogUnavailable(reason))
        for job in late:
            self._jobs.remove(job)

    @staticmethod
    def _fail(jobs: Sequence[_Job] | deque[_Job], error: LogError) -> None:
        for job in jobs:
            if not job.future.done():
                job.future.set_exception(error)
