"""What a gateway process holds for clients that take nothing, and for those that never stop talking."""

from __future__ import annotations

import asyncio
import re
import secrets
import subprocess
from pathlib import Path

import pytest

from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from tests.gateway.stage import FakeWorker, audio_delta, joined, running, until
from tests.support.processes import StoreProcess
from tests.support.services import Deployment

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc"),
]

FRAME_BYTES = 48_000
"""A second of speech in one frame."""
FRAMES = 600
BOUND_BYTES = 12 * 1024 * 1024
"""A third of what is sent; half of this is the interpreter's own coming and going."""


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


async def test_a_client_that_does_not_read_costs_its_gateway_a_bounded_amount(own_valkey: StoreProcess):
    log = RedisLog.from_url(own_valkey.url, LogSettings(sweep_interval_s=0.05))
    await log.connect()
    model = f"m-{secrets.token_hex(4)}"
    with Deployment(own_valkey.url, workers=0, model=model) as deployment:
        (gateway,) = deployment.gateways
        url = f"{deployment.urls[0]}?duplex=1"
        async with FakeWorker(log, models=(model,)).working() as worker:
            async with joined(url) as warm:
                await warm.open(session_id="warm")
                for _ in range(60):
                    await worker.show("warm", audio_delta(bytes(FRAME_BYTES)))
                    await warm.hear_type("response.output_audio.delta")
            before = most = resident_bytes(gateway.process)
            async with joined(url, max_queue=1) as greedy, joined(url) as polite:
                await greedy.open(session_id="greedy")
                await polite.open(session_id="polite")
                greedy.socket.transport.pause_reading()
                for number in range(FRAMES):
                    await worker.show("greedy", audio_delta(bytes(FRAME_BYTES)))
                    await greedy.say("session.heartbeat")  # It lives, and asks for more and more.
                    if number % 20 == 0:
                        await polite.say("session.heartbeat")
                        await polite.hear_type("session.heartbeat_ack")
                        most = max(most, resident_bytes(gateway.process))
                assert most - before < BOUND_BYTES, f"{(most - before) / 1024 / 1024:.1f} MiB"
                greedy.socket.transport.resume_reading()
                seqs = [(await greedy.hear())["server_event_seq"] for _ in range(2 * FRAMES)]
                assert seqs == list(range(2, 2 * FRAMES + 2)), "and it gets everything when it reads"
    await log.close_connections()


async def test_a_client_that_talks_faster_than_the_log_takes_it_is_held_back(own_valkey: StoreProcess):
    log = RedisLog.from_url(own_valkey.url, LogSettings(sweep_interval_s=0.05))
    await log.connect()
    model = f"m-{secrets.token_hex(4)}"
    with Deployment(own_valkey.url, workers=0, model=model) as deployment:
        (gateway,) = deployment.gateways
        async with FakeWorker(log, models=(model,)).working(), joined(f"{deployment.urls[0]}?duplex=1") as client:
            await client.open(session_id="talks")
            before = resident_bytes(gateway.process)
            own_valkey.freeze()
            try:
                piece = "x" * 250_000
                buffered = client.socket.transport.get_write_buffer_size

                async def talk() -> None:
                    while True:
                        await client.say("input.text.append", text=piece)

                talking = asyncio.create_task(talk())
                await until(lambda: buffered() > 0 and not talking.done())
                for _ in range(20):  # Nothing to wait for: that it does not grow is the point.
                    await asyncio.sleep(0.05)
                    assert resident_bytes(gateway.process) - before < BOUND_BYTES
                assert not talking.done(), "it is not refused, only not read"
            finally:
                own_valkey.thaw()
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)
    await log.close_connections()


async def test_a_client_too_slow_for_what_is_kept_is_told_once_and_goes_on_live(own_valkey: StoreProcess):
    log = RedisLog.from_url(own_valkey.url, LogSettings(sweep_interval_s=0.05))
    await log.connect()
    model = f"m-{secrets.token_hex(4)}"
    async with (
        FakeWorker(log, models=(model,)).working() as worker,
        running(log, default_model=model) as gateway,
    ):
        await until(lambda: gateway.service.fault is None)
        async with joined(gateway.url(), max_queue=1) as client:
            created = await client.open(session_id="slow")
            client.socket.transport.pause_reading()
            for _ in range(FRAMES):
                await worker.show("slow", audio_delta(bytes(FRAME_BYTES)))
            head = await log.head("slow")
            await log.trim_history(worker.claims["slow"], input_before=head.input, output_before=FRAMES - 20)
            client.socket.transport.resume_reading()
            seqs = []
            while (frame := await client.hear())["type"] != "session.resync_required":
                seqs.append(frame["server_event_seq"])
            assert seqs == list(range(2, 2 + len(seqs)))
            assert (frame["reason"], frame["first_available"]) == ("journal_overflow", FRAMES - 20)
            live = [await client.hear() for _ in range(22)]
            await client.say("session.heartbeat")
            live.append(await client.hear_type("session.heartbeat_ack"))
            assert {frame["type"] for frame in live[:-1]} == {"response.output_audio.delta"}
            assert not any("server_event_seq" in frame for frame in live)
            client.socket.transport.abort()
        async with joined(gateway.url("autostart=0")) as client:
            await client.resume(created, seqs[-1])
            assert (await client.hear_type("session.resync_required"))["reason"] == "journal_gap"
    await log.close_connections()
