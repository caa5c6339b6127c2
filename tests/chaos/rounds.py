"""One round: callers talk, a fault happens at a drawn moment, they talk on, and everything is judged."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from dataclasses import dataclass, field

from duplex_es.log.opening import open_log
from tests.chaos.rows import Hit, Row, Stage
from tests.support.chaos_check import Verdict, judge
from tests.support.chaos_fleet import Fleet
from tests.support.chaos_library import LibraryTalker
from tests.support.chaos_talker import Talker

SESSIONS = 6
BEGIN_S = 45.0
LATEST_S = 1.6
"""The fault comes at most this long after everybody began to talk."""


@dataclass(slots=True)
class Tally:
    """A row's line in the table, over all of its rounds. ``faults`` are by seed."""

    row: Row
    rounds: int = 0
    sessions: int = 0
    frames: int = 0
    lost: int = 0
    repeated: int = 0
    told: int = 0
    failed_answers: int = 0
    silences_s: list[float] = field(default_factory=list)
    faults: dict[str, list[str]] = field(default_factory=dict)
    known: dict[str, list[str]] = field(default_factory=dict)
    """As ``faults``; what the row's known fault explains, and nothing else."""

    @property
    def median_s(self) -> float:
        """The median time until a caller that was hit heard the next frame."""
        return statistics.median(self.silences_s) if self.silences_s else 0.0

    @property
    def worst_s(self) -> float:
        """The longest."""
        return max(self.silences_s, default=0.0)

    def add(self, seed: str, verdicts: list[Verdict], hit: Hit, more: list[str]) -> None:
        """Count one round."""
        self.rounds += 1
        wrong = list(more)
        for number, verdict in enumerate(verdicts):
            self.sessions += 1
            self.frames += verdict.frames
            self.lost += verdict.lost
            self.repeated += verdict.repeated
            self.failed_answers += verdict.failed_answers
            self.told += verdict.told is not None
            wrong += [f"caller {number}: {fault}" for fault in verdict.faults]
            if verdict.told is None and number in hit and not self.row.must_be_told:
                self.silences_s.append(verdict.silence_s)
                if verdict.silence_s > self.row.silence_s:
                    wrong.append(f"caller {number} heard nothing for {verdict.silence_s:.1f} s")
        excused = [fault for fault in wrong if self.row.excused and self.row.excused in fault]
        if excused:
            self.known[seed] = excused
        if len(wrong) > len(excused):
            self.faults[seed] = [fault for fault in wrong if fault not in excused]


async def play(row: Row, fleet: Fleet, seed: str, tally: Tally, sessions: int = SESSIONS) -> None:
    """Play one round of ``row`` and count it; the fleet is whole again afterwards."""
    draw = random.Random(f"{row.name}/{seed}")
    kind = LibraryTalker if row.library else Talker
    talkers = [
        kind(number, fleet.urls, random.Random(f"{seed}/{number}"), first=number % 2, **row.habits)
        for number in range(sessions)
    ]
    log = open_log(fleet.store.url)
    await log.connect()
    stage = Stage(fleet, log, list(talkers))
    calls = [asyncio.create_task(talker.run()) for talker in talkers]
    try:
        async with asyncio.timeout(BEGIN_S):
            await asyncio.gather(*(talker.talking.wait() for talker in talkers))
        await asyncio.sleep(draw.uniform(0.0, LATEST_S))
        fault_at_s = time.monotonic()
        hit = await row.fault(stage, draw)
        for talker in talkers:
            talker.over.set()
        await asyncio.gather(*calls)
        verdicts = [await judge(log, talker, fault_at_s) for talker in talkers]
        wrong = _told_wrongly(row, stage)
        if not hit:
            wrong.append("the fault hit nobody")
        if row.check is not None:
            wrong += await row.check(stage, hit)
        tally.add(seed, verdicts, hit, wrong)
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await log.close_connections()
        await fleet.mend()


def _told_wrongly(row: Row, stage: Stage) -> list[str]:
    wrong = []
    for talker in stage.talkers:
        if talker.told is not None and (not row.may_be_told or talker.told.startswith("no")):
            wrong.append(f"caller {talker.number} was told {talker.told}; {talker.standing}")
        if talker.told is None and row.must_be_told:
            wrong.append(f"caller {talker.number} was told nothing")
    return wrong
