"""Rows in which a worker dies, stalls or is replaced."""

from __future__ import annotations

import asyncio
import json
import random

from tests.chaos.table import Hit, Stage, none_failed, row, stayed_on_the_line
from tests.support.chaos_check import RECITAL_MS
from tests.support.chaos_fleet import Scene
from tests.support.chaos_speaker import Speaker

TARGET_S = 2.0
"""How soon after its worker's death a caller should hear the next frame, at the median."""
RECITAL = "amber birch cedar delta ember fjord grove heron"
SCRIPT = [{"on": "generate", "every": True, "do": [{"audio_ms": RECITAL_MS, "text": RECITAL}, {"finish": True}]}]
RECITER = Scene(model="scripted", options=("can_rebuild=false", f"script={json.dumps(SCRIPT)}"))
"""Workers whose model cannot be put back into the middle of an answer."""


async def nothing_failed(stage: Stage, hit: Hit) -> list[str]:
    """The callers noticed nothing but a pause: no answer failed, no socket broke."""
    return await none_failed(stage, hit) + await stayed_on_the_line(stage, hit)


@row("worker-killed", "SIGKILL mid-answer: another worker goes on with the answer, sample for sample",
     silence_s=5.0, target_s=TARGET_S, check=nothing_failed)  # fmt: skip
async def worker_killed(stage: Stage, draw: random.Random) -> Hit:
    """A worker is gone in the middle of its answers."""
    service, hit = await stage.busiest_worker()
    await stage.fleet.kill(service)
    return hit


async def failed_with_a_reason(stage: Stage, hit: Hit) -> list[str]:
    """Of those that were hit, answers ended ``failed`` because the worker was lost; of nobody else."""
    wrong = await stayed_on_the_line(stage, hit)
    failed = 0
    for talker in stage.talkers:
        dones = [one.wire for one in talker.line.frames if one.wire["type"] == "response.done"]
        details = [
            one["response"].get("status_details") or {} for one in dones if one["response"]["status"] == "failed"
        ]
        failed += len(details)
        if details and talker.number not in hit:
            wrong.append(f"caller {talker.number} was not hit; {details}")
        if any(detail.get("reason") != "worker_lost" for detail in details) or len(details) > 1:
            wrong.append(f"caller {talker.number}'s answers failed: {details}")
    return wrong if failed else [*wrong, "no answer failed: nothing was open when the worker died"]


@row("worker-killed-unrepeatable", "the same with a model that cannot go on: the answer ends failed (worker_lost)",
     scene=RECITER, silence_s=5.0, target_s=TARGET_S, check=failed_with_a_reason,
     habits={"model": "scripted", "answer": RECITAL})  # fmt: skip
async def worker_killed_unrepeatable(stage: Stage, draw: random.Random) -> Hit:
    """A worker is gone in the middle of answers that nobody else can go on with."""
    return await worker_killed(stage, draw)


@row("worker-killed-listening", "SIGKILL while callers speak: a sentence is heard whole, its end by another worker",
     caller=Speaker, silence_s=8.0, check=nothing_failed)  # fmt: skip
async def worker_killed_listening(stage: Stage, draw: random.Random) -> Hit:
    """A worker is gone in the middle of what callers say to it."""
    await asyncio.sleep(draw.uniform(0.0, 1.0))
    return await worker_killed(stage, draw)


@row("worker-killed-idle", "SIGKILL while nobody talks: the next question is answered",
     quick=False, habits={"idles": True}, check=nothing_failed)  # fmt: skip
async def worker_killed_idle(stage: Stage, draw: random.Random) -> Hit:
    """A worker is gone between two answers."""
    return await worker_killed(stage, draw)


@row("worker-killed-twice", "the worker that took over is SIGKILLed as well: a third one goes on",
     quick=False, silence_s=9.0, check=nothing_failed)  # fmt: skip
async def worker_killed_twice(stage: Stage, draw: random.Random) -> Hit:
    """A worker is gone, and soon, perhaps in the middle of taking over, the other one too."""
    service, _ = await stage.busiest_worker()
    (other,) = [one for one in stage.fleet.workers if one is not service]
    third = await stage.fleet.replace(service)
    await stage.fleet.kill(service)
    await asyncio.sleep(draw.uniform(0.8, 2.5))
    await stage.fleet.kill(other)
    stage.fleet.forget(service)
    await asyncio.sleep(0.5)
    assert third in stage.fleet.workers
    return stage.everybody()


@row("workers-killed-all", "no worker is left: sessions wait for one, and go on", quick=False, silence_s=20.0,
     check=nothing_failed)  # fmt: skip
async def workers_killed_all(stage: Stage, draw: random.Random) -> Hit:
    """Every worker is gone at once; new ones are started."""
    await stage.fleet.kill(*stage.fleet.workers)
    await stage.fleet.mend()
    return stage.everybody()


@row("worker-frozen", "SIGSTOP past the lease, then SIGCONT: fenced when it wakes (E18, E21, E22)",
     silence_s=16.0, quick=False, rarity=3, check=nothing_failed)  # fmt: skip
async def worker_frozen(stage: Stage, draw: random.Random) -> Hit:
    """A worker stalls for longer than its claims hold, and wakes up while another one has them."""
    service, hit = await stage.busiest_worker()
    stage.fleet.freeze(service)
    await asyncio.sleep(draw.uniform(12.0, 14.0))
    stage.fleet.thaw(service)
    await asyncio.sleep(2.0)
    return hit


@row("worker-stalled", "SIGSTOP within the lease: nobody takes over, the call goes on (E18)", silence_s=7.0,
     check=nothing_failed)  # fmt: skip
async def worker_stalled(stage: Stage, draw: random.Random) -> Hit:
    """A worker stalls for less than its claims hold."""
    service, hit = await stage.busiest_worker()
    stage.fleet.freeze(service)
    await asyncio.sleep(draw.uniform(1.0, 4.0))
    stage.fleet.thaw(service)
    return hit


@row("worker-drained", "SIGTERM under talk: handed over at a turn boundary, no answer fails", check=nothing_failed)
async def worker_drained(stage: Stage, draw: random.Random) -> Hit:
    """A deploy ends a worker."""
    service, hit = await stage.busiest_worker()
    stage.fleet.drain(service)
    await asyncio.to_thread(service.process.wait, 40)
    return hit
