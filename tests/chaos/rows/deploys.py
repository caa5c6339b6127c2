"""Rows with much to carry: deploys under load, a storm of clients that come back, a client that never reads.

The rate is said, as these rows share one machine with what they load: see ``CROWDED``.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from typing import Any

from tests.chaos.table import Hit, Stage, none_failed, row, stayed_on_the_line
from tests.support.chaos_crowd import Hog, Idler, open_all
from tests.support.chaos_fleet import Scene

CROWDED: dict[str, Any] = {"murmur_s": 0.5, "murmur_ms": 20, "words": 6, "patience_s": 60.0}
"""Fifty callers each hear speech in real time, two frames every 200 ms, and append 20 ms of sound twice a second."""
ROOMY = Scene(slots=80)
HALL = Scene(slots=1200)
NARROW = Scene(slots=400, gateway_options=("--drain-s", "2.5", "--admit-at-once", "2", "--admit-waiting", "30"))
FAST = Scene(options=("lead_ms=none",))
"""Workers that make speech as fast as they can, so that a client that does not read falls far behind at once."""
STORM_S = 120.0
HOG_WORDS = 3500
RSS_BOUND_BYTES = 24 * 1024 * 1024


async def _replace_all(stage: Stage) -> Hit:
    for service in [*stage.fleet.workers, *stage.fleet.gateways]:
        await stage.fleet.replace(service)
        stage.fleet.forget(service)
        stage.fleet.drain(service)
        await asyncio.to_thread(service.process.wait, 60)
    return stage.everybody()


@row("rolling-restart", "every gateway and worker replaced one by one under talk: nothing lost, no answer fails (E38)",
     quick=False, silence_s=8.0, check=none_failed)  # fmt: skip
async def rolling_restart(stage: Stage, draw: random.Random) -> Hit:
    """A deploy of everything: a new process first, then the old one drained."""
    return await _replace_all(stage)


@row("rolling-restart-50", "the same under 50 talking sessions (E38)", scene=ROOMY, sessions=50, quick=False, rarity=8,
     silence_s=15.0, habits=CROWDED, check=none_failed)  # fmt: skip
async def rolling_restart_50(stage: Stage, draw: random.Random) -> Hit:
    """A deploy of everything while fifty callers talk."""
    return await _replace_all(stage)


@row("reconnect-storm", "every gateway killed under a crowd of idle sessions and six talking ones: all come back (E41)",
     scene=HALL, quick=False, rarity=8, silence_s=30.0, habits={"patience_s": 60.0}, check=none_failed)  # fmt: skip
async def reconnect_storm(stage: Stage, draw: random.Random) -> Hit:
    """All clients lose their sockets in one moment and find new gateways."""
    return await _storm(stage, draw, stage.crowd)


async def told_when(stage: Stage, hit: Hit) -> list[str]:
    """Some were sent away with a time to come again."""
    wrong = await none_failed(stage, hit)
    return wrong if stage.measured["told to wait"] else [*wrong, "nobody was told to come again later"]


@row("reconnect-storm-narrow", "the same where few may wait: others are told when to come again, each its own (E41)",
     scene=NARROW, quick=False, rarity=8, silence_s=30.0, habits={"patience_s": 60.0}, check=told_when)  # fmt: skip
async def reconnect_storm_narrow(stage: Stage, draw: random.Random) -> Hit:
    """All clients lose their sockets in one moment and find gateways that let two in at a time and thirty wait."""
    return await _storm(stage, draw, min(stage.crowd, 300))


async def _storm(stage: Stage, draw: random.Random, crowd: int) -> Hit:
    idlers = [Idler(number, stage.fleet.urls, random.Random(draw.random())) for number in range(crowd)]
    began_s = time.monotonic()
    try:
        await open_all(idlers)
        stage.measured["crowd opened s"] = round(time.monotonic() - began_s, 1)
        lost = [asyncio.create_task(idler.gone()) for idler in idlers]
        await stage.fleet.kill(*stage.fleet.gateways)
        await stage.fleet.mend()
        await asyncio.gather(*lost)
        ready_s = time.monotonic()
        await asyncio.gather(*(idler.come_back(ready_s + STORM_S) for idler in idlers))
        _sum_up(stage, idlers)
    finally:
        await asyncio.gather(*(idler.close() for idler in idlers))
    return stage.everybody()


@row("reconnect-storm-beside", "one gateway killed: its crowd storms the other one, whose talking sessions go on (E41)",
     scene=HALL, quick=False, rarity=8, silence_s=5.0, habits={"patience_s": 60.0}, check=none_failed)  # fmt: skip
async def reconnect_storm_beside(stage: Stage, draw: random.Random) -> Hit:
    """A crowd loses its gateway and comes to the one where others are talking."""
    idlers = [Idler(number, stage.fleet.urls[:1], random.Random(draw.random())) for number in range(stage.crowd)]
    undisturbed = stage.on_gateway(1)
    try:
        await open_all(idlers)
        lost = [asyncio.create_task(idler.gone()) for idler in idlers]
        for idler in idlers:
            idler.urls = stage.fleet.urls[1:]
        await stage.fleet.kill(stage.fleet.gateways[0])
        await asyncio.gather(*lost)
        began_s = time.monotonic()
        await asyncio.gather(*(idler.come_back(began_s + STORM_S) for idler in idlers))
        _sum_up(stage, idlers)
    finally:
        await asyncio.gather(*(idler.close() for idler in idlers))
    stage.wrong += [
        f"caller {talker.number}, on the gateway that lived, had to reconnect"
        for talker in stage.talkers
        if talker.number in undisturbed and len(talker.lines) > 1
    ]
    return undisturbed


def _sum_up(stage: Stage, idlers: list[Idler]) -> None:
    back = sorted(idler.back_s for idler in idlers if idler.back_s is not None)
    stage.measured["clients back"] = len(back)
    if len(back) < len(idlers):
        away = [(idler.number, idler.told, idler.refused[-1:]) for idler in idlers if idler.back_s is None]
        stage.wrong.append(f"{len(away)} of {len(idlers)} did not come back: {away[:3]}")
    for idler in idlers:
        if idler.seqs != list(range(1, len(idler.seqs) + 1)):
            stage.wrong.append(f"idler {idler.number} heard {idler.seqs}")
    if back:
        stage.measured["back median s"] = round(statistics.median(back), 2)
        stage.measured["back p99 s"] = round(back[min(len(back) - 1, len(back) * 99 // 100)], 2)
    told = [refused.retry_after_s for idler in idlers for refused in idler.refused if refused.retry_after_s is not None]
    stage.measured["told to wait"] = len(told)
    if len(told) > 20 and len(set(told)) < len(told) // 4:
        stage.wrong.append(f"{len(told)} clients were told to come again at {len(set(told))} times: another storm")


async def kept_talking(stage: Stage, hit: Hit) -> list[str]:
    """What one client does not read is nobody else's trouble."""
    return await none_failed(stage, hit) + await stayed_on_the_line(stage, hit)


@row("client-never-reads", "a client that falls 45 MB behind costs its gateway little memory, and nobody waits",
     scene=FAST, quick=False, rarity=2, silence_s=4.0, habits={"pause_s": 0.4}, check=kept_talking)  # fmt: skip
async def client_never_reads(stage: Stage, draw: random.Random) -> Hit:
    """One client asks for minutes of speech and does not read; later it reads everything."""
    gateway = stage.fleet.gateways[0]
    hog = Hog(stage.fleet.urls[0])
    await hog.open()
    try:
        before = stage.fleet.rss_bytes(gateway)
        await hog.ask(HOG_WORDS)
        worst = await _watch_memory(stage, hog)
        stage.measured["gateway grew MB"] = round((worst - before) / 1e6, 1)
        written = (await stage.log.head(hog.session_id)).output.number
        stage.measured["frames unread"] = written - len(hog.seqs)
        if worst - before > RSS_BOUND_BYTES:
            stage.wrong.append(f"the gateway grew by {(worst - before) / 1e6:.1f} MB")
        await hog.read_on(60.0)
        if hog.seqs != list(range(1, len(hog.seqs) + 1)):
            stage.wrong.append("the client that read at last has not heard every frame once, in order")
    finally:
        await hog.close()
    return stage.everybody()


async def _watch_memory(stage: Stage, hog: Hog) -> int:
    """The most that the gateway held, from now until a second after all of the long answer was in the log."""
    worst, until_s = 0, float("inf")
    async with asyncio.timeout(60.0):
        while time.monotonic() < until_s:
            worst = max(worst, stage.fleet.rss_bytes(stage.fleet.gateways[0]))
            written = (await stage.log.head(hog.session_id)).output.number
            if written > 2 * HOG_WORDS and until_s == float("inf"):
                until_s = time.monotonic() + 1.0
            await asyncio.sleep(0.05)
    return worst


@row("subscriber-too-slow", "a gateway reads no notifications until the store throws it out: it reads the log (E32)",
     scene=FAST, quick=False, rarity=2, silence_s=10.0, habits={"pause_s": 0.4}, check=kept_talking)  # fmt: skip
async def subscriber_too_slow(stage: Stage, draw: random.Random) -> Hit:
    """A gateway stalls while minutes of speech are made for its clients, more than the store keeps for a subscriber."""
    fleet, hog = stage.fleet, Hog(stage.fleet.urls[0])
    await fleet.command("CONFIG", "SET", "client-output-buffer-limit", "pubsub 64kb 0 0")
    await hog.open()
    try:
        hit = stage.on_gateway(0)
        await hog.ask(HOG_WORDS)
        await asyncio.sleep(draw.uniform(0.05, 0.2))
        subscribers = await _subscribers(stage)
        fleet.freeze(fleet.gateways[0])
        await asyncio.sleep(3.0)
        fleet.thaw(fleet.gateways[0])
        if subscribers <= await _subscribers(stage):
            stage.wrong.append("the store threw nobody out")
        await hog.read_on(60.0)
        if hog.seqs != list(range(1, len(hog.seqs) + 1)):
            stage.wrong.append("the client with the long answer has not heard every frame once, in order")
    finally:
        await hog.close()
        await fleet.command("CONFIG", "SET", "client-output-buffer-limit", "pubsub 32mb 8mb 60")
    return hit


async def _subscribers(stage: Stage) -> set[str]:
    """The connections that listen to the store, each by its ``id=`` number."""
    listed = await stage.fleet.command("CLIENT", "LIST", "TYPE", "pubsub")
    assert isinstance(listed, bytes)
    return {line.split(b" ")[0].decode() for line in listed.splitlines()}
