"""One more process that waits: kept, taken, started again."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator

import pytest

from workers.engine import standby as module
from workers.engine.booting import start_module
from workers.engine.standby import Child, Standby
from workers.engine.wire import Message, Unpacker

pytestmark = pytest.mark.unit

PATIENCE_S = 60.0


async def spawned(factory: str = "tests.support.keeping_engine:KeepingEngine") -> Child:
    ours, theirs = socket.socketpair()
    arguments = [str(theirs.fileno()), factory, "{}"]
    process = await start_module(
        sys.executable, "workers.engine.child", arguments, descriptors=[theirs.fileno()], environment={}
    )
    theirs.close()
    return Child(process, *await asyncio.open_connection(sock=ours))


async def heard(child: Child, kind: str) -> Message:
    """The next message of that kind."""
    unpacker = Unpacker()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for message, _ in unpacker.feed(await child.reader.read(1 << 16)):
                if message["is"] == kind:
                    return message


@pytest.fixture
async def standby() -> AsyncIterator[Standby]:
    found = Standby(spawned)
    yield found
    await found.drop()


async def test_it_prepares_waits_and_loads_when_it_is_told_to(standby: Standby) -> None:
    standby.begin()
    standby.begin()
    async with asyncio.timeout(PATIENCE_S):
        await standby.prepared.wait()
    child = await standby.take()
    assert child is not None and await standby.take() is None
    assert not standby.prepared.is_set()
    child.say({"do": "load"})
    assert (await heard(child, "loaded"))["facts"]["device"] == "saw none, has its own"
    await child.end()
    assert not child.is_running


async def test_one_that_is_taken_early_still_loads() -> None:
    spawning = asyncio.Event()

    async def spawn() -> Child:
        child = await spawned()
        spawning.set()
        return child

    early = Standby(spawn)
    early.begin()
    async with asyncio.timeout(PATIENCE_S):
        await spawning.wait()
    child = await early.take()
    assert child is not None
    child.say({"do": "load"})
    await heard(child, "loaded")
    await child.end()


async def test_one_that_dies_while_it_waits_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST_S", 0.01)
    children: asyncio.Queue[Child] = asyncio.Queue()

    async def spawn() -> Child:
        child = await spawned()
        children.put_nowait(child)
        return child

    kept = Standby(spawn)
    kept.begin()
    async with asyncio.timeout(PATIENCE_S):
        first = await children.get()
        first.process.kill()
        second = await children.get()
        await kept.prepared.wait()
    assert await kept.take() is second
    await second.end()


async def test_one_that_nobody_hangs_up_on_politely_is_killed() -> None:
    child = await spawned("tests.support.stubborn_engine:make")
    await heard(child, "prepared")
    child.say({"do": "load"})
    await child.end(patience_s=0.1)
    assert child.process.returncode == -9


async def test_a_child_that_is_not_told_to_load_ends_with_whoever_started_it() -> None:
    child = await spawned()
    await heard(child, "prepared")
    await child.end()
    assert child.process.returncode == 0
