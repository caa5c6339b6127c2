"""Rows in which a gateway dies, stalls or is replaced."""

from __future__ import annotations

import asyncio
import random

from tests.chaos.rows.clients import superseded
from tests.chaos.table import Hit, Stage, none_failed, row
from tests.support.chaos_library import LibraryTalker

LEASE_S, LOOK_S, GRACE_S, MARGIN_S = 10.0, 12.0, 30.0, 5.0
"""An attachment's lease, how often workers look for lapsed ones, the grace time of a session without a socket."""


@row("gateway-killed", "SIGKILL mid-answer: clients resume elsewhere, the worker is untouched (E2)", check=none_failed)
async def gateway_killed(stage: Stage, draw: random.Random) -> Hit:
    """A gateway is gone from one moment to the next."""
    number = draw.randrange(2)
    hit = stage.on_gateway(number)
    await stage.fleet.kill(stage.fleet.gateways[number])
    return hit


@row(
    "gateway-killed-library", "the same, with the client library's own resume", caller=LibraryTalker, check=none_failed
)
async def gateway_killed_library(stage: Stage, draw: random.Random) -> Hit:
    """As ``gateway-killed``; the callers are ``duplex_es.client.DuplexClient``."""
    return await gateway_killed(stage, draw)


@row("gateways-killed-all", "every gateway SIGKILLed at once: clients come back when new ones are there",
     quick=False, silence_s=12.0, check=none_failed)  # fmt: skip
async def gateways_killed_all(stage: Stage, draw: random.Random) -> Hit:
    """No gateway is left; others are started in their place."""
    await stage.fleet.kill(*stage.fleet.gateways)
    await stage.fleet.mend()
    return stage.everybody()


async def told_to_go(stage: Stage, hit: Hit) -> list[str]:
    """A draining gateway says so before it closes with 1012."""
    wrong = await none_failed(stage, hit)
    for talker in stage.talkers:
        if talker.number in hit:
            line = next(line for line in talker.lines if line.left is not None)
            kinds = [heard.wire["type"] for heard in line.frames]
            if "session.going_away" not in kinds:
                wrong.append(f"caller {talker.number} was not told session.going_away")
            if line.code != 1012:
                wrong.append(f"caller {talker.number}'s socket was closed with {line.code}")
    return wrong


@row("gateway-drained", "SIGTERM: session.going_away, close 1012, resume elsewhere", silence_s=8.0, check=told_to_go)
async def gateway_drained(stage: Stage, draw: random.Random) -> Hit:
    """A deploy ends a gateway."""
    number = draw.randrange(2)
    service, hit = stage.fleet.gateways[number], stage.on_gateway(number)
    stage.fleet.drain(service)
    await asyncio.to_thread(service.process.wait, 30)
    return hit


@row("gateway-drained-library", "the same, with the client library, which moves by itself", caller=LibraryTalker,
     quick=False, silence_s=8.0, check=none_failed)  # fmt: skip
async def gateway_drained_library(stage: Stage, draw: random.Random) -> Hit:
    """As ``gateway-drained``; the callers are ``duplex_es.client.DuplexClient``."""
    return await gateway_drained(stage, draw)


@row("gateway-frozen", "SIGSTOP, resume elsewhere, SIGCONT: the old socket hears session.replaced (E3)",
     habits={"patience_s": 1.5}, check=superseded)  # fmt: skip
async def gateway_frozen(stage: Stage, draw: random.Random) -> Hit:
    """A gateway stalls, its clients move, it wakes up again."""
    number = draw.randrange(2)
    service, hit = stage.fleet.gateways[number], stage.on_gateway(number)
    stage.fleet.freeze(service)
    await asyncio.sleep(draw.uniform(3.0, 4.0))
    stage.fleet.thaw(service)
    await asyncio.sleep(3.0)
    return hit


async def expired_by_the_log(stage: Stage, hit: Hit) -> list[str]:
    """Nobody came back: the session ends by its grace time all the same, and gives its slot back."""
    deadline_s = asyncio.get_running_loop().time() + LEASE_S + LOOK_S + GRACE_S + MARGIN_S
    open_still = {talker.session_id for talker in stage.talkers if talker.number in hit}
    while open_still and asyncio.get_running_loop().time() < deadline_s:
        heads = [await stage.log.head(session_id) for session_id in open_still]
        open_still = {head.ref.session_id for head in heads if head.state != "closed"}
        await asyncio.sleep(0.5)
    return [
        f"{session_id} is open after {LEASE_S + LOOK_S + GRACE_S + MARGIN_S:g} s" for session_id in sorted(open_still)
    ]


@row("gateway-killed-for-good", "SIGKILL, and its clients never return: the attachment lease and the grace time end it",
     quick=False, rarity=8, may_be_told=True, check=expired_by_the_log, silence_s=60.0)  # fmt: skip
async def gateway_killed_for_good(stage: Stage, draw: random.Random) -> Hit:
    """A gateway dies, and so do the networks of its clients."""
    hit = stage.on_gateway(0)
    for talker in stage.talkers:
        talker.returns = talker.number not in hit
    await stage.fleet.kill(stage.fleet.gateways[0])
    return hit
