"""Background work of one session in order: one piece at a time, each piece droppable, nothing left after the end."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from duplex_es.model import ModelFailed

from .floor import AnswerCut, Floor

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Entry:
    epoch: int
    work: Work


class Agenda:
    """Gives a session's answers one after another. A piece of work that raises ends its answer as failed."""

    def __init__(self, floor: Floor, name: str) -> None:
        self._floor = floor
        self._name = name
        self._waiting: deque[_Entry] = deque()
        self._running: _Entry | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_idle(self) -> bool:
        """True when nothing runs and nothing waits."""
        return self._running is None and not self._waiting

    def add(self, epoch: int, work: Work) -> None:
        """Do ``work`` after everything added before it; forgotten when ``drop`` is told a later epoch first."""
        if self._closed:
            return
        self._waiting.append(_Entry(epoch, work))
        self._start()

    def drop(self, epoch: int) -> None:
        """Forget all work older than ``epoch`` and stop the piece that runs, if it is older, before it says more.

        Work that calls this itself goes on, as work of the new epoch.
        """
        self._waiting = deque(entry for entry in self._waiting if entry.epoch >= epoch)
        if self._running is None or self._running.epoch >= epoch or self._task is None:
            return
        if self._task is asyncio.current_task():
            self._running.epoch = epoch
        else:
            self._task.cancel()
            self._task, self._running = None, None
            self._start()

    async def close(self) -> None:
        """Stop everything and wait until it has stopped."""
        self._closed = True
        self._waiting.clear()
        task, self._task, self._running = self._task, None, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _start(self) -> None:
        if self._running is None and self._waiting:
            self._running = self._waiting.popleft()
            self._task = asyncio.create_task(self._do(self._running), name=self._name)

    async def _do(self, entry: _Entry) -> None:
        try:
            await entry.work()
        except AnswerCut:
            pass
        except Exception as error:
            log.exception("%s: an answer failed", self._name)
            self._fail(error)
        finally:
            if self._running is entry:
                self._running = None
                self._start()

    def _fail(self, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"
        if self._floor.answer is not None:
            self._floor.answer.fail("response_error", reason)
        else:
            self._floor.report(ModelFailed(epoch=self._floor.epoch, code="response_error", message=reason))
