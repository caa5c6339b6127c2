"""Faults that take a process of their own: a worker of another build, and a replica that stops for moments."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import redis

from tests.support import incidents
from tests.support.processes import StoreProcess, free_port, start_store
from tests.support.talking import CHUNK_MS, Caller, calling
from tests.support.watched import Program, WatchedStack

OTHER_VERSION = "0.0.1.other"
RATE_HZ = 16_000


class OtherBuild(Program):
    """A worker whose process says it is ``OTHER_VERSION``; its model takes ``rebuild_s`` to take a session up."""

    def __init__(self, name: str, metrics_port: int, rebuild_s: float, *arguments: str) -> None:
        self._rebuild_s = rebuild_s
        super().__init__(sys.executable, name, metrics_port, *arguments)

    def _command(self, program: str, arguments: tuple[str, ...]) -> list[str]:
        launcher = Path(__file__).with_name("other_build.py")
        return [program, str(launcher), OTHER_VERSION, str(self._rebuild_s), *arguments]


def add_other_build(stack: WatchedStack, rebuild_s: float) -> Program:
    """One more worker of ``stack`` that plays scripts, ready."""
    port = free_port()
    where = ("--redis-url", stack.store.url, "--health-port", str(port))
    manner = ("--model", "scripted", "--slots", "4", "--drain-s", "1", "--disconnect-grace-s", "2")
    worker = OtherBuild(f"{stack.name}-other-build", port, rebuild_s, *where, *manner)
    stack.workers.append(worker)
    worker.wait_until_ready()
    return worker


@asynccontextmanager
async def replica_of(store: StoreProcess) -> AsyncIterator[StoreProcess]:
    """A replica that has caught up with ``store``."""
    with redis.Redis.from_url(store.url) as primary:
        primary.config_set("repl-diskless-sync-delay", 0)
        replica = await asyncio.to_thread(start_store, store.kind, "--replicaof", "127.0.0.1", str(store.port))
        try:
            async with asyncio.timeout(30):
                while primary.info("replication").get("slave0", {}).get("state") != "online":
                    await asyncio.sleep(0.1)
            yield replica
        finally:
            replica.thaw()
            replica.stop()


@asynccontextmanager
async def told_what_survives(url: str) -> AsyncIterator[Caller]:
    """A call with an endless answer whose client is told up to where it would survive; it was told once."""
    async with calling(url, query="?autostart=0&durable=1") as call:
        body = {"auto_response": False, "script": [incidents.ENDLESS]}
        await call.say(type="session.update", session={"model": "scripted", "extra_body": body})
        await call.hear_until("session.updated")
        await call.say(type="response.create")
        await call.hear_until("session.durable")
        yield call
        await call.say(type="session.close")
        await call.hear_until("session.closed")


async def stop_for_a_moment(replica: StoreProcess, call: Caller, seconds: float) -> None:
    """Nothing is confirmed by the replica for so long, and then ``call`` hears that it is."""
    replica.freeze()
    await asyncio.sleep(seconds)
    replica.thaw()
    await call.hear_until("session.durable")


async def be_cut_late(url: str, seconds: float) -> None:
    """A caller who speaks over an answer until the model, which hears it, cuts that after so long."""
    slow_to_yield = {"on": "audio_ms", "at": CHUNK_MS, "do": [{"wait_ms": seconds * 1000}, {"interrupt": "barge_in"}]}
    async with incidents.scripted(url, incidents.ENDLESS, slow_to_yield) as call:
        await call.say(type="response.create")
        await call.hear_until("response.output_audio.delta")
        speaking = asyncio.create_task(_speak_on(call))
        try:
            done = await call.hear_until("response.done")
        finally:
            speaking.cancel()
        assert done["response"]["status"] == "cancelled"


async def _speak_on(call: Caller) -> None:
    """Speech without a pause."""
    samples = RATE_HZ * CHUNK_MS // 1000
    tone = (int(12_000 * math.sin(2 * math.pi * 300 * at / RATE_HZ)) for at in range(samples))
    audio = base64.b64encode(struct.pack(f"<{samples}h", *tone)).decode()
    while True:
        await call.say(type="input_audio_buffer.append", audio=audio)
        await asyncio.sleep(CHUNK_MS / 1000)
