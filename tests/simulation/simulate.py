"""Runs one schedule to its end and judges it: the same seed, the same trace, the same verdict."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from .checker import EXCUSED_AFTER_LOSS, check, is_open
from .client import Client
from .faults import Faults
from .fleet import Fleet
from .loop import Overrun, SimulatedLoop
from .node import Node
from .plan import Plan, draw_plan
from .world import World

SETTLE_S = 60.0
"""So long after the last fault everything has settled, on the virtual clock."""
AFTERWARDS_S = 0.5
CLOSING_S = 25.0
"""A session whose worker died right after its last word is closed by another, once the lease is over."""
OURS = frozenset({"_conduct", "Faults.run", "Faults._happen", "Client.run", "Client._listen", "Client._ask_again"})
"""The coroutines of the simulation itself: what they raise is its own defect."""


@dataclass(slots=True)
class Outcome:
    """What came of one schedule. ``digest`` is of all that happened; ``trace`` is kept only where it is asked for."""

    seed: int
    violations: list[str] = field(default_factory=list)
    virtual_s: float = 0.0
    steps: int = 0
    frames: int = 0
    told: int = 0
    losses: int = 0
    digest: int = 0
    trace: list[str] = field(default_factory=list)


class _Trace:
    """Folds everything that happens into one number, and keeps it as text where that is wanted."""

    def __init__(self, loop: SimulatedLoop, *, keep: bool) -> None:
        self.digest = 0
        self.lines: list[str] = []
        self._loop = loop
        self._keep = keep

    def note(self, kind: str, *details: Any) -> None:
        """One event. Cheap while nothing is kept: the clock and the draw depend on everything before."""
        if self._keep:
            line = f"{self._loop.time() - 1_000:9.4f} {kind} {' '.join(map(_short, details))}"
            self.lines.append(line)
            self.digest = crc32(line.encode(), self.digest)


def _short(detail: Any) -> str:
    """One thing of a trace on a line: commands and replies by their beginnings."""
    match detail:
        case bytes():
            return repr(detail if len(detail) <= 60 else detail[:60])[2:-1] + (
                "" if len(detail) <= 60 else f"…{len(detail)}"
            )
        case str():
            return detail if len(detail) <= 260 else f"{detail[:260]}…"
        case list() | tuple() if len(detail) > 12:
            return f"[{' '.join(map(_short, detail[:12]))} …{len(detail)}]"
        case list() | tuple():
            return f"[{' '.join(map(_short, detail))}]"
        case _:
            return str(detail)


def simulate(world: World, seed: int, *, keep_trace: bool = False, mood: str | None = None) -> Outcome:
    """Run the schedule of ``seed`` inside ``installed()``. Never raises for what the packages do."""
    plan = draw_plan(seed, mood)
    draw = random.Random(f"run {seed}")
    loop = SimulatedLoop(draw)
    world.begin(loop, random.Random(f"world {seed}"))
    trace = _Trace(loop, keep=keep_trace)
    node = Node(loop, draw, trace.note, forbids_functions=plan.forbids_functions)
    node.pace_s = plan.pace_s
    node.store.has_disk = all(fault.kind != "failover" for fault in plan.faults)
    fleet = Fleet(loop, node, draw)
    outcome = Outcome(seed)
    clients: list[Client] = []
    try:
        loop.spawn(loop.outside, _conduct(fleet, plan, clients))
        loop.run_schedule(loop.time() + plan.over_s + SETTLE_S + CLOSING_S)
        outcome.violations += [f"client {c.number}: {text}" for c in clients for text in _checked(fleet, c, plan)]
    except Overrun as overrun:
        outcome.violations.append(f"it spins: {overrun}")
    finally:
        outcome.violations += _unexpected(world, loop, plan)
        outcome.virtual_s, outcome.steps = loop.time() - 1_000.0, loop.steps
        outcome.frames = sum(len(line.frames) for client in clients for line in client.lines)
        outcome.told = sum(client.told is not None for client in clients)
        outcome.losses, outcome.digest, outcome.trace = node.losses, trace.digest, trace.lines
        loop.bury()
    return outcome


async def _conduct(fleet: Fleet, plan: Plan, clients: list[Client]) -> None:
    loop = fleet.loop
    for _ in range(2):
        fleet.add_gateway()
        fleet.add_worker()
    clients += [
        Client(number, fleet, random.Random(f"client {plan.seed} {number}"), list(program))
        for number, program in enumerate(plan.programs)
    ]
    calls = [loop.spawn(client.process, client.run()) for client in clients]
    faults = loop.create_task(Faults(fleet, clients, plan.faults).run())
    for task in (faults, *calls):
        await task
    until_s = loop.time() + CLOSING_S
    await asyncio.sleep(AFTERWARDS_S)
    while loop.time() < until_s and any(is_open(fleet.node, client) for client in clients):
        await asyncio.sleep(AFTERWARDS_S)
    loop.finish()


def _checked(fleet: Fleet, client: Client, plan: Plan) -> list[str]:
    try:
        heals = plan.heals and not fleet.node.lost_more
        return list(check(fleet.node, fleet.acknowledged, client, loses=plan.loses, heals=heals))
    except Exception as error:
        return [f"the checker failed: {error!r}"]


def _unexpected(world: World, loop: SimulatedLoop, plan: Plan) -> list[str]:
    """Exceptions that nobody of the packages expected."""
    broken = [
        task.exception()
        for task in loop.made
        if task.done() and not task.cancelled() and task.get_coro().__qualname__ in OURS
    ]
    found = [
        *world.errors,
        *loop.faults,
        *(f"the simulation failed: {error!r}" for error in broken if error is not None),
    ]
    if plan.loses:
        found = [text for text in found if not any(name in text for name in EXCUSED_AFTER_LOSS)]
    return [f"unexpected: {text[:400]}" for text in found]
