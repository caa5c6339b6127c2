"""A rolling restart under talk: callers speak through the balancer while every process behind it is replaced."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from duplex_es.client import ReconnectPolicy
from duplex_es.log.opening import open_log
from tests.rollout.site import Member, Site
from tests.support.chaos_check import Verdict, judge
from tests.support.chaos_library import LibraryTalker

BEGIN_S = 60.0
CALM_S = 8.0
"""How long everybody talks before the first restart: what silences are without one."""
SETTLE_S = 2.0
"""How long a new process runs before the next one is replaced."""


class Caller(LibraryTalker):
    """Comes back as the library does by default. ``limit_s`` is a whole rollout's."""

    policy = ReconnectPolicy()

    @property
    def resumes(self) -> int:
        """How often it had to come back."""
        return sum(heard.wire["type"] == "session.resumed" for heard in self.line.frames)


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the rollout, from its beginning to that of the next (``time.monotonic``)."""

    name: str
    began_s: float
    ended_s: float
    drain_s: float = 0.0


@dataclass(slots=True)
class Outcome:
    """What a rollout did to its callers. ``faults`` are broken promises in words.

    ``silences_s`` has, for each step, the longest time that each caller heard nothing new in it.
    """

    hosts: str
    steps: list[Step] = field(default_factory=list)
    sessions: int = 0
    lost_sessions: int = 0
    frames: int = 0
    lost: int = 0
    repeated: int = 0
    failed_answers: int = 0
    resumes: int = 0
    faults: list[str] = field(default_factory=list)
    silences_s: dict[str, list[float]] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, int, float, float, float]]:
        """For the calm before, for gateways, for workers and for all: steps, median, p99 and worst silence."""
        kinds = {"calm": "calm", "a gateway restarts": "gateway", "a worker restarts": "worker"}
        rows = [_row(words, [t for n, t in self.silences_s.items() if n.startswith(k)]) for words, k in kinds.items()]
        whole = [list(one) for n, one in self.silences_s.items() if n != "calm"]
        worst_each = [max(times) for times in zip(*whole, strict=True)]
        return [*rows, ("the whole rollout", len(whole), *_three(worst_each))]


def _row(words: str, steps: Sequence[Sequence[float]]) -> tuple[str, int, float, float, float]:
    return (words, len(steps), *_three([silence for step in steps for silence in step]))


def _three(times: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(times)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], ordered[-1]


async def roll(site: Site, *, sessions: int, seed: str = "1", murmur_ms: int = 200, calm_s: float = CALM_S) -> Outcome:
    """Let ``sessions`` callers talk, restart every gateway and worker one by one, and judge every call."""
    callers = [
        Caller(
            number, [site.url], random.Random(f"{seed}/{number}"),
            murmur_s=murmur_ms / 1000, murmur_ms=murmur_ms, limit_s=600.0,
        )
        for number in range(sessions)
    ]  # fmt: skip
    log = open_log(site.store_url)
    await log.connect()
    calls = [asyncio.create_task(caller.run()) for caller in callers]
    outcome = Outcome(site.kind)
    try:
        async with asyncio.timeout(BEGIN_S):
            await asyncio.gather(*(caller.talking.wait() for caller in callers))
        began_s = time.monotonic()
        await asyncio.sleep(calm_s)
        outcome.steps.append(Step("calm", began_s, time.monotonic()))
        for member in (*site.gateways, *site.workers):
            outcome.steps.append(await _restart(member))
        for caller in callers:
            caller.over.set()
        await asyncio.gather(*calls)
        for caller in callers:
            _add(outcome, caller, await judge(log, caller, outcome.steps[0].ended_s))
        for step in outcome.steps:
            outcome.silences_s[step.name] = [_silence(caller, step) for caller in callers if caller.lines]
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await log.close_connections()
    return outcome


def _add(outcome: Outcome, caller: Caller, verdict: Verdict) -> None:
    outcome.sessions += 1
    outcome.frames += verdict.frames
    outcome.lost += verdict.lost
    outcome.repeated += verdict.repeated
    outcome.failed_answers += verdict.failed_answers
    outcome.lost_sessions += caller.told is not None
    outcome.resumes += caller.resumes if caller.lines else 0
    wrong = list(verdict.faults)
    if caller.told is not None:
        wrong.append(f"was told {caller.told}")
    if verdict.failed_answers:
        wrong.append(f"{verdict.failed_answers} answers failed")
    outcome.faults += [f"caller {caller.number}: {fault}" for fault in wrong]


async def _restart(member: Member) -> Step:
    began_s = time.monotonic()
    drain_s = await member.restart()
    await asyncio.sleep(SETTLE_S)
    return Step(member.name, began_s, time.monotonic(), drain_s)


def _silence(caller: Caller, step: Step) -> float:
    """The longest that a caller heard nothing new, of the gaps that end within the step or reach beyond it."""
    times = [heard.at_s for heard in caller.line.frames if heard.seq is not None]
    gaps = itertools.pairwise(times)
    return max((later - at for at, later in gaps if later > step.began_s and at < step.ended_s), default=0.0)
