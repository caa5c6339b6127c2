"""An event loop on virtual time whose tasks belong to processes that can stall, die, and take turns in any order.

Nothing here waits: when nobody can run, the clock jumps to the next timer. Within a process callbacks run in the order
asyncio promises; between processes a seeded draw decides who goes on, and for how many callbacks.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

BURSTS = (1, 1, 2, 5, 1000)
"""How many callbacks one process may run before the next draw."""
CANCELLED_KEPT = 500


class Process:
    """One operating system process as the loop sees it. ``skew_s`` is how far its wall clock is ahead."""

    __slots__ = ("alive", "context", "index", "name", "ready", "skew_s", "stalled")

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.alive = True
        self.stalled = False
        self.skew_s = 0.0
        self.ready: deque[events.Handle] = deque()
        self.context = copy_context()
        self.context.run(CURRENT.set, self)

    def __repr__(self) -> str:
        return self.name


CURRENT: ContextVar[Process] = ContextVar("process")


class Overrun(Exception):
    """A schedule ran for more callbacks than any sane one needs: something spins without time passing."""


class NumberedTask(asyncio.Task):  # type: ignore[type-arg]
    """A task whose hash is its number: sets of tasks then have the same order in every run."""

    def __init__(self, coro: Any, number: int, loop: SimulatedLoop, context: Context | None) -> None:
        self.number = number  # first: being made, a task enters a set
        super().__init__(coro, loop=loop, context=context)

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop of one schedule. Everything random in it comes from ``draw``."""

    def __init__(self, draw: random.Random, *, most_steps: int = 250_000) -> None:
        super().__init__()
        self._now = 1_000.0
        self._draw = draw
        self._most_steps = most_steps
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self._timer_number = 0
        self._cancelled = 0
        self.made: list[NumberedTask] = []
        self._over = False
        self.steps = 0
        self.processes: list[Process] = []
        self.outside = self.process("outside")
        self.faults: list[str] = []
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._failed)

    # -- what asyncio asks of a loop -------------------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> events.Handle:
        """Run ``callback`` in the process of its context; never, if that is dead."""
        if context is None:
            context = copy_context()
        handle = events.Handle(callback, args, self, context)
        process = context.get(CURRENT, self.outside)
        if process.alive:
            process.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> events.TimerHandle:
        """Run ``callback`` once the clock says ``when``."""
        timer = events.TimerHandle(when, callback, args, self, context)
        self._timer_number += 1
        heapq.heappush(self._timers, (when, self._timer_number, timer))
        timer._scheduled = True
        return timer

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        self._cancelled += 1
        if self._cancelled > CANCELLED_KEPT:
            self._timers = [entry for entry in self._timers if not entry[2]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """There are no threads: ``func`` runs here and now."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def _make_task(self, loop: Any, coro: Any, context: Context | None = None, **_: Any) -> NumberedTask:
        task = NumberedTask(coro, len(self.made), self, context)
        self.made.append(task)
        return task

    def _failed(self, loop: Any, details: dict[str, Any]) -> None:
        self.faults.append(f"{details.get('message')}: {details.get('exception')!r}")

    # -- processes -------------------------------------------------------------------------------------------------

    def process(self, name: str) -> Process:
        """A new process."""
        made = Process(name, len(self.processes))
        self.processes.append(made)
        return made

    def spawn(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run ``work`` in ``process``."""
        return self.create_task(work, context=process.context.copy())

    def kill(self, process: Process) -> None:
        """It runs no further callback, not even to clean up."""
        process.alive = False
        process.ready.clear()

    def stall(self, process: Process, seconds: float) -> None:
        """It runs nothing for a while; what comes due meanwhile waits."""
        process.stalled = True
        self.call_at(self._now + seconds, self.wake, process, context=self.outside.context)

    def wake(self, process: Process) -> None:
        """A stalled process goes on."""
        process.stalled = False

    # -- running ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Let ``run_schedule`` return."""
        self._over = True

    def run_schedule(self, limit_s: float) -> bool:
        """Run until ``finish``; False when the clock reached ``limit_s`` before. Raises: Overrun."""
        events._set_running_loop(self)
        try:
            while not self._over:
                runnable = [process for process in self.processes if process.ready and not process.stalled]
                if runnable:
                    self._run_some(runnable)
                elif not self._pass_time(limit_s):
                    return False
            return True
        finally:
            events._set_running_loop(None)

    def _run_some(self, runnable: list[Process]) -> None:
        draw = self._draw.random
        process = runnable[0] if len(runnable) == 1 else runnable[int(draw() * len(runnable))]
        ready = process.ready
        for _ in range(BURSTS[int(draw() * len(BURSTS))]):
            if not ready or process.stalled:
                break
            handle = ready.popleft()
            if not handle._cancelled:
                self.steps += 1
                handle._run()
        if self.steps > self._most_steps:
            raise Overrun(f"{self.steps} steps by {self._now - 1_000:.3f} s")

    def _pass_time(self, limit_s: float) -> bool:
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled -= 1
        if not timers or timers[0][0] > limit_s:
            return False
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            if timer._cancelled:
                self._cancelled -= 1
                continue
            process = timer._context.get(CURRENT, self.outside)
            if process.alive:
                process.ready.append(timer)
        return True

    def bury(self) -> None:
        """Close every coroutine that is left, without letting any of them do more."""
        for process in self.processes:
            self.kill(process)
        for task in self.made:
            if not task.done():
                task._log_destroy_pending = False
                # What a coroutine wants to do at its end is of no interest, nor that it cannot.
                with suppress(Exception):
                    task.get_coro().close()
        self.made.clear()
        self._timers.clear()
