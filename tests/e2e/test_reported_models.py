"""Public reports about models and their servers, through the whole service: each is named by its case."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
from contextlib import AsyncExitStack

import numpy as np
import pytest
import websockets

from tests.support.processes import StoreProcess
from tests.support.services import Deployment
from tests.support.talking import Caller, conversing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CALLERS = 20
PING_S = 0.5
FROZEN_PINGS = 5
VOICE = np.random.default_rng(5).integers(-9_000, 9_000, 16_000, dtype="<i2").tobytes()
STORY = (
    '[{"on": "end_turn", "every": true, "transcript": "x",'
    ' "do": [{"audio_ms": 2000, "text": "A long story."}, {"finish": true}]}]'
)


async def opened(stack: AsyncExitStack, url: str) -> Caller:
    """A call whose client gives the connection up when a ping is not answered within a second."""
    connection = await stack.enter_async_context(
        websockets.connect(f"{url}?autostart=0", max_size=None, ping_interval=PING_S, ping_timeout=1.0)
    )
    caller = Caller(connection)
    await caller.say(type="session.update", session={"model": "echo"})
    await caller.hear_until("session.updated")
    return caller


async def test_pings_are_answered_while_the_model_is_stuck_and_every_call_ends_well(valkey: StoreProcess):  # V51
    with Deployment(valkey.url, options=("--slots", str(CALLERS))) as service:
        async with AsyncExitStack() as stack:
            callers = [await opened(stack, service.urls[0]) for _ in range(CALLERS)]
            worker = service.workers[0].process
            os.kill(worker.pid, signal.SIGSTOP)
            try:
                for caller in callers:
                    await caller.play(VOICE, realtime=False)
                    await caller.say(type="input_audio_buffer.commit")
                for _ in range(FROZEN_PINGS):
                    pongs = [await caller.socket.ping() for caller in callers]
                    await asyncio.wait_for(asyncio.gather(*pongs), PING_S)
                    await asyncio.sleep(PING_S)  # What is tested is that this much time passes.
                assert not any(frame["type"] == "response.done" for caller in callers for frame in caller.heard)
            finally:
                os.kill(worker.pid, signal.SIGCONT)
            ends = await asyncio.gather(*(caller.hear_until("response.done") for caller in callers))
            assert [end["response"]["status"] for end in ends] == ["completed"] * CALLERS


async def test_clients_that_vanish_in_the_middle_of_a_stream_cost_the_others_nothing(valkey: StoreProcess):  # V45
    options = ("--slots", str(2 * CALLERS), "--model-option", f"script={STORY}")
    with Deployment(valkey.url, model="scripted", options=options) as service:
        url = service.urls[0]
        async with conversing(url, model="scripted") as staying:
            gone = []
            for _ in range(CALLERS):
                connection = await websockets.connect(f"{url}?autostart=0", max_size=None, ping_interval=None)
                caller = Caller(connection)
                await caller.say(type="session.update", session={"model": "scripted"})
                await caller.hear_until("session.updated")
                await caller.play(VOICE, realtime=False)
                await caller.say(type="input_audio_buffer.commit")
                gone.append(caller)
            await staying.play(VOICE, realtime=False)
            await staying.say(type="input_audio_buffer.commit")
            await staying.hear_until("response.output_audio.delta")
            for caller in gone:
                reset = caller.socket.transport.get_extra_info("socket")
                reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                caller.socket.transport.abort()
            done = await staying.hear_until("response.done")
            assert done["response"]["status"] == "completed"
            assert len(staying.answer_pcm) == 2 * 24_000 * 2
        assert [one.process.poll() for one in (*service.gateways, *service.workers)] == [None, None]
        async with conversing(url, model="scripted") as next_one:
            await next_one.play(VOICE, realtime=False)
            await next_one.say(type="input_audio_buffer.commit")
            assert (await next_one.hear_until("response.done"))["response"]["status"] == "completed"
