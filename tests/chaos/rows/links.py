"""Rows in which the link between one process and the store breaks, goes deaf, slow, or away."""

from __future__ import annotations

import asyncio
import random

from tests.chaos.rows.workers import nothing_failed
from tests.chaos.table import Hit, Stage, none_failed, row, stayed_on_the_line
from tests.support.chaos_fleet import FaultProxy, Scene

FAR_GATEWAYS, FAR_WORKERS = Scene(far="gateway"), Scene(far="worker")


def _linked_gateway(stage: Stage, draw: random.Random) -> tuple[FaultProxy, Hit]:
    number = draw.randrange(2)
    return stage.fleet.link(stage.fleet.gateways[number]), stage.on_gateway(number)


async def _linked_worker(stage: Stage) -> tuple[FaultProxy, Hit]:
    service, hit = await stage.busiest_worker()
    return stage.fleet.link(service), hit


@row("gateway-link-cut", "a gateway's connections to the store break: nothing lost", scene=FAR_GATEWAYS,
     check=nothing_failed)  # fmt: skip
async def gateway_link_cut(stage: Stage, draw: random.Random) -> Hit:
    """The link breaks, three times."""
    return await _cut(draw, *_linked_gateway(stage, draw))


@row("worker-link-cut", "a worker's connections to the store break: nothing lost", scene=FAR_WORKERS,
     check=stayed_on_the_line)  # fmt: skip
async def worker_link_cut(stage: Stage, draw: random.Random) -> Hit:
    """The link breaks, three times."""
    return await _cut(draw, *await _linked_worker(stage))


async def _cut(draw: random.Random, link: FaultProxy, hit: Hit) -> Hit:
    for _ in range(3):
        link.cut()
        await asyncio.sleep(draw.uniform(0.1, 0.7))
    return hit


@row("gateway-link-deaf", "half open, server to client: noticed by the probe, caught up from the log (E26)",
     scene=FAR_GATEWAYS, silence_s=16.0, check=nothing_failed)  # fmt: skip
async def gateway_link_deaf(stage: Stage, draw: random.Random) -> Hit:
    """A gateway hears nothing more from the store on the connections it has."""
    link, hit = _linked_gateway(stage, draw)
    link.deafen()
    return hit


@row("worker-link-deaf", "half open, server to client, at a worker (E26)", scene=FAR_WORKERS, silence_s=16.0,
     quick=False, check=stayed_on_the_line)  # fmt: skip
async def worker_link_deaf(stage: Stage, draw: random.Random) -> Hit:
    """A worker hears nothing more from the store on the connections it has."""
    link, hit = await _linked_worker(stage)
    link.deafen()
    return hit


@row("worker-link-slow", "every answer of the store 150 ms late at a worker", scene=FAR_WORKERS, quick=False,
     check=nothing_failed)  # fmt: skip
async def worker_link_slow(stage: Stage, draw: random.Random) -> Hit:
    """The link gets slow for a while."""
    link, hit = await _linked_worker(stage)
    link.delay_s = 0.15
    await asyncio.sleep(3.0)
    link.delay_s = 0.0
    return hit


@row("gateway-parted", "a gateway cut off for 14 s: its clients resume elsewhere; it lets go when the link is back",
     scene=FAR_GATEWAYS, quick=False, rarity=3, habits={"patience_s": 2.5}, check=none_failed)  # fmt: skip
async def gateway_parted(stage: Stage, draw: random.Random) -> Hit:
    """A partition between a gateway and the store."""
    return await _part(*_linked_gateway(stage, draw))


@row("worker-parted", "a worker cut off for 14 s: nothing it says becomes visible, another takes over, it is fenced",
     scene=FAR_WORKERS, quick=False, rarity=3, silence_s=18.0, check=stayed_on_the_line)  # fmt: skip
async def worker_parted(stage: Stage, draw: random.Random) -> Hit:
    """A partition between a worker and the store."""
    return await _part(*await _linked_worker(stage))


async def _part(link: FaultProxy, hit: Hit) -> Hit:
    link.part()
    await asyncio.sleep(14.0)
    link.join()
    await asyncio.sleep(3.0)
    return hit
