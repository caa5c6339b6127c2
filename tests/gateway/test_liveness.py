"""Who is dead, who is only slow: over real sockets, with the times made short."""

from __future__ import annotations

import asyncio
import time

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import SocketDetached
from gateway import liveness
from tests.gateway.stage import FakeWorker, Gateway, audio_delta, joined, running, until

pytestmark = pytest.mark.e2e

QUICK = {"ping_interval_s": 0.1, "ping_timeout_s": 0.2}


@pytest.fixture(autouse=True)
def _quick_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "SECOND_LOOK_S", 0.05)


def lost(worker: FakeWorker) -> bool:
    """Whether the session's socket is known to be gone."""
    return SocketDetached(generation=1, reason="connection_lost") in worker.heard["mine"]


def server_side(gateway: Gateway) -> liveness.LivelySocket:
    """The gateway's end of the only socket."""
    (socket,) = (
        connection
        for connection in gateway.server.server_state.connections
        if isinstance(connection, liveness.LivelySocket)
    )
    return socket


async def test_a_peer_that_went_silent_is_noticed(log: MemoryLog, worker: FakeWorker) -> None:  # E39
    async with running(log, **QUICK) as gateway, joined(gateway.url()) as client:
        await client.open(session_id="mine")
        client.socket.transport.pause_reading()
        await until(lambda: lost(worker))


async def test_a_silent_peer_is_noticed_also_when_it_owes_us_megabytes(log: MemoryLog, worker: FakeWorker) -> None:
    async with running(log, **QUICK) as gateway, joined(gateway.url()) as client:
        await client.open(session_id="mine")
        client.socket.transport.pause_reading()
        for _ in range(100):
            await worker.show("mine", audio_delta(bytes(100_000)))
        await until(lambda: server_side(gateway).transport.get_write_buffer_size() > 0)
        await until(lambda: lost(worker))
        await until(lambda: not gateway.server.server_state.connections)


async def test_a_peer_that_talks_lives_even_if_its_pongs_are_stuck(log: MemoryLog, worker: FakeWorker) -> None:
    async with running(log, **QUICK) as gateway, joined(gateway.url()) as client:
        await client.open(session_id="mine")
        client.socket.transport.pause_reading()
        timeouts_s = 4 * (QUICK["ping_interval_s"] + QUICK["ping_timeout_s"])
        started_s = time.monotonic()
        while time.monotonic() - started_s < timeouts_s:
            await client.say("session.heartbeat")
            await asyncio.sleep(0.05)  # The pace of a caller's audio.
        assert not lost(worker)
        client.socket.transport.resume_reading()
        await client.hear_type("session.heartbeat_ack")


async def test_a_stall_of_the_event_loop_ends_no_call(log: MemoryLog, worker: FakeWorker) -> None:  # E40
    async with running(log, **QUICK) as gateway, joined(gateway.url()) as client:
        await client.open(session_id="mine")
        socket = server_side(gateway)
        client.socket.transport.pause_reading()
        await until(lambda: socket.pong_timer is not None)
        client.socket.transport.resume_reading()
        time.sleep(1.0)  # Both ends stand still for several timeouts, with a ping on its way.
        await asyncio.sleep(0)  # The overdue timer runs before anything the client says can be read.
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")
        assert not lost(worker)


async def test_a_close_nobody_takes_is_cut_off(log: MemoryLog, worker: FakeWorker) -> None:
    async with running(log) as gateway, joined(gateway.url()) as client:
        await client.open(session_id="mine")
        socket = server_side(gateway)
        socket.close_timeout = 0.1
        client.socket.transport.pause_reading()
        while not socket.transport.get_write_buffer_size():
            await worker.show("mine", audio_delta(bytes(16_000)))
            for _ in range(200):  # the gateway has sent it before the next one is shown, however slow the machine is
                await asyncio.sleep(0)
        assert socket.writable.is_set(), "the close itself must be able to leave"
        await client.say("session.close")
        await until(lambda: not gateway.server.server_state.connections)


async def test_a_peer_too_full_to_hear_the_close_is_cut_off(
    log: MemoryLog, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway import peer

    monkeypatch.setattr(peer, "FAREWELL_S", 0.1)
    async with running(log) as gateway, joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        socket = server_side(gateway)
        socket.close_timeout = 0.1
        client.socket.transport.pause_reading()
        for _ in range(100):
            await worker.show("mine", audio_delta(bytes(100_000)))
        await until(lambda: socket.transport.get_write_buffer_size() > 0)
        async with joined(gateway.url("autostart=0")) as second:
            await second.resume(created, 1)
            await second.hear_type("session.resumed")
            await until(lambda: socket not in gateway.server.server_state.connections)
