"""Finding sessions that wait for a worker: by announcement, and by looking at every partition now and then."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from redis.exceptions import ResponseError

from .api import SessionRef
from .connections import Command, Reply
from .keys import PARTITION_SLOTS, PARTITIONS, parse_member, ready
from .nodes import Nodes, from_each
from .scripts import refused

CANDIDATES_PER_QUEUE = 8
PATIENCE_S = 2.0
"""How long one node of several may hold up the look at the others."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that waited a moment ago. ``since_ms`` is on the store's clock."""

    since_ms: float
    ref: SessionRef
    model: str


def announcement(partition: int, model: str) -> str:
    """What is published when a session of ``model`` starts to wait."""
    return f"{partition} {model}"


class ReadyFinder:
    """Knows where a session of the models that were asked for may wait.

    A queue that was announced is looked at by the next ``find``; all queues at most every ``sweep_interval_s``, which
    catches lost announcements and claims whose lease ran out.
    """

    def __init__(self, nodes: Nodes, sweep_interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._nodes = nodes
        self._sweep_interval_s = sweep_interval_s
        self._clock = clock
        self._models: set[str] = set()
        self._wanted: frozenset[str] = frozenset()
        self._announced: set[tuple[int, str]] = set()
        self._candidates: deque[Candidate] = deque()
        self._next_sweep_s = 0.0
        self._wake = asyncio.Event()

    def received(self, data: bytes) -> None:
        """An announcement arrived."""
        partition, _, model = data.decode(errors="replace").partition(" ")
        if partition.isdigit():
            self.announced(int(partition), model)

    def announced(self, partition: int, model: str) -> None:
        """A session of ``model`` waits in ``partition``."""
        if model in self._models and partition < PARTITIONS:
            self._announced.add((partition, model))
            self._wake.set()

    def resumed(self) -> None:
        """Announcements may have been missed: look everywhere."""
        self._next_sweep_s = 0.0
        self._wake.set()

    async def wait(self, timeout_s: float) -> None:
        """Return when the last ``find`` may find something, at the latest after ``timeout_s``."""
        if any(candidate.model in self._wanted for candidate in self._candidates):
            return
        if any(model in self._wanted for _, model in self._announced):
            return
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()

    async def find(self, models: Sequence[str]) -> Candidate | None:
        """The session of ``models`` that waits longest among those known of; it is not reserved for the caller."""
        self._wanted = frozenset(models)
        if not self._models.issuperset(models):
            self._models.update(models)
            self._next_sweep_s = 0.0
        if not any(candidate.model in models for candidate in self._candidates):
            await self._look(self._queues(models))
        for candidate in self._candidates:
            if candidate.model in models:
                self._candidates.remove(candidate)
                return candidate
        return None

    def _queues(self, models: Sequence[str]) -> list[tuple[int, str]]:
        if self._clock() >= self._next_sweep_s:
            self._next_sweep_s = self._clock() + self._sweep_interval_s
            self._announced = {(partition, model) for partition, model in self._announced if model not in models}
            return [(partition, model) for model in dict.fromkeys(models) for partition in range(PARTITIONS)]
        queues = [queue for queue in self._announced if queue[1] in models]
        self._announced.difference_update(queues)
        return queues

    async def _look(self, queues: Sequence[tuple[int, str]]) -> None:
        if not queues:
            return

        async def ask(positions: list[int]) -> list[Candidate]:
            return await self._waiting([queues[position] for position in positions])

        slots = [PARTITION_SLOTS[partition] for partition, _ in queues]
        answers = await from_each(self._nodes, slots, ask, PATIENCE_S)
        heard = {position for positions, _ in answers for position in positions}
        self._announced.update(queue for position, queue in enumerate(queues) if position not in heard)
        found = [candidate for _, candidates in answers for candidate in candidates]
        self._candidates = deque(sorted([*self._candidates, *found], key=lambda candidate: candidate.since_ms))

    async def _waiting(self, queues: Sequence[tuple[int, str]]) -> list[Candidate]:
        """The candidates in queues of one node, by its clock."""
        commands: list[Command] = [("TIME",)]
        for partition, model in queues:
            commands.append(("ZRANGE", ready(partition, model), 0, CANDIDATES_PER_QUEUE - 1, "WITHSCORES"))
        clock, *replies = await self._nodes.calls(commands)
        now_ms = int(clock[0]) * 1000 + int(clock[1]) / 1000
        found: list[Candidate] = []
        for queue, reply in zip(queues, replies, strict=True):
            waiting = [
                Candidate(since_ms, parse_member(name), queue[1])
                for name, since_ms in _scored(reply)
                if since_ms <= now_ms
            ]
            found += waiting
            if len(waiting) == CANDIDATES_PER_QUEUE:
                self._announced.add(queue)  # there may be more
        return found


def _scored(reply: Reply) -> list[tuple[str, float]]:
    """Members and scores, whether RESP 2 or 3 shaped them."""
    if isinstance(reply, ResponseError):
        raise refused(reply)
    pairs = reply if reply and isinstance(reply[0], list | tuple) else list(zip(reply[::2], reply[1::2], strict=True))
    return [(name.decode(), float(score)) for name, score in pairs]
