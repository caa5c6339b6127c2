"""The failure table: what a row is, what it acts on, and which rows there are. The rows register themselves here."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from duplex_es.log.api import SessionLog
from tests.support.chaos_fleet import PLAIN, Fleet, Scene
from tests.support.chaos_talker import Talker
from tests.support.services import Service

Hit = set[int]
Fault = Callable[["Stage", random.Random], Awaitable[Hit]]


@dataclass(slots=True)
class Stage:
    """What a row acts on: the processes, the callers in the middle of their calls, and the log to look into.

    ``measured`` is for what a row counts besides, by name; the table shows the median and the worst of each. ``crowd``
    is how many clients a row with a crowd of its own is asked to bring.
    """

    fleet: Fleet
    log: SessionLog
    talkers: list[Talker]
    crowd: int = 0
    measured: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """What a row found wrong by itself, while it did its fault."""

    def everybody(self) -> Hit:
        """All callers."""
        return {talker.number for talker in self.talkers}

    def on_gateway(self, number: int) -> Hit:
        """Those whose socket ends at this gateway now."""
        url = self.fleet.urls[number]
        return {talker.number for talker in self.talkers if talker.line.url.startswith(url)}

    async def on_worker(self, service: Service) -> Hit:
        """Those whose session this worker holds now."""
        name = self.fleet.worker_name(service)
        heads = {talker.number: await self.log.head(talker.session_id) for talker in self.talkers}
        return {number for number, head in heads.items() if head.worker == name}

    async def busiest_worker(self) -> tuple[Service, Hit]:
        """The worker with the most of these sessions, and their callers."""
        held = [(service, await self.on_worker(service)) for service in self.fleet.workers]
        return max(held, key=lambda one: len(one[1]))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a fault, done to a service under talk, and what the service promises through it.

    ``scene`` is the deployment it needs, of one of the kinds of ``stores``; one that it ``spoils`` is not used again.
    ``may_be_told`` allows that a caller is told that its session is over; ``must_be_told`` demands it. ``silence_s`` is
    the longest that a caller who was hit may wait, ``target_s`` what the median over many rounds should stay under.
    ``habits`` are those of the callers; ``check`` looks for what this fault in particular must leave behind and returns
    what is wrong. Of the long form, the row is in every ``rarity``-th deck. ``known`` names a fault of the service that
    is known and not mended: the row still runs and still shows; what is wrong in a round counts as known only where it
    contains ``excused``.
    """

    name: str
    fault: Fault
    promise: str
    scene: Scene = PLAIN
    stores: tuple[str, ...] = ("valkey", "redis")
    spoils: bool = False
    quick: bool = True
    rarity: int = 1
    sessions: int = 0
    may_be_told: bool = False
    must_be_told: bool = False
    silence_s: float = 5.0
    target_s: float = 0.0
    habits: dict[str, Any] = field(default_factory=dict)
    check: Callable[[Stage, Hit], Awaitable[list[str]]] | None = None
    caller: type[Talker] = Talker
    known: str = ""
    excused: str = ""


ROWS: dict[str, Row] = {}


def row(name: str, promise: str, **settings: Any) -> Callable[[Fault], Fault]:
    """Enter a fault into the table. Raises: ValueError for a name that is taken."""

    def enter(fault: Fault) -> Fault:
        if name in ROWS:
            raise ValueError(f"two rows are called {name}")
        ROWS[name] = Row(name, fault, promise, **settings)
        return fault

    return enter


async def none_failed(stage: Stage, hit: Hit) -> list[str]:
    """For rows that may cost no answer: none ended ``failed``."""
    return [f"caller {talker.number}: {talker.statuses}" for talker in stage.talkers if "failed" in talker.statuses]


async def stayed_on_the_line(stage: Stage, hit: Hit) -> list[str]:
    """For rows that happen behind the gateways: nobody's socket was lost."""
    return [f"caller {talker.number} had to reconnect" for talker in stage.talkers if len(talker.lines) > 1]
