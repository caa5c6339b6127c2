"""One round: callers talk, a fault happens at a drawn moment, they talk on, and everything is judged."""

from __future__ import annotations

import asyncio
import random
import time

from duplex_es.log.opening import open_log
from tests.chaos.results import Result, weigh
from tests.chaos.table import Row, Stage
from tests.support.chaos_check import judge
from tests.support.chaos_fleet import Fleet

SESSIONS, CROWD = 6, 1000
BEGIN_S = 45.0
LATEST_S = 1.6
"""The fault comes at most this long after everybody began to talk."""


async def play(row: Row, fleet: Fleet, seed: str, *, sessions: int = SESSIONS, crowd: int = CROWD) -> Result:
    """Play one round of ``row`` with so many callers, or as many as it has of its own; the fleet is whole afterwards.

    The same seed draws the same moments; what the processes do between them is theirs.
    """
    draw = random.Random(f"{row.name}/{seed}")
    began_s = time.monotonic()
    talkers = [
        row.caller(number, fleet.urls, random.Random(f"{seed}/{number}"), first=number % 2, **row.habits)
        for number in range(row.sessions or sessions)
    ]
    log = open_log(fleet.url)
    await log.connect()
    stage = Stage(fleet, log, list(talkers), crowd)
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
        wrong = [*stage.wrong, *_told_wrongly(row, stage)]
        if not hit:
            wrong.append("the fault hit nobody")
        if row.check is not None:
            wrong += await row.check(stage, hit)
        result = weigh(row, seed, verdicts, hit, wrong, stage.measured)
        result.wall_s = round(time.monotonic() - began_s, 2)
        return result
    finally:
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await log.close_connections()
        if not row.spoils:
            await fleet.mend()


def _told_wrongly(row: Row, stage: Stage) -> list[str]:
    wrong = []
    for talker in stage.talkers:
        if talker.told is not None and (not row.may_be_told or talker.told.startswith("no")):
            wrong.append(f"caller {talker.number} was told {talker.told}; {talker.standing}")
        if talker.told is None and row.must_be_told:
            wrong.append(f"caller {talker.number} was told nothing")
    return wrong
