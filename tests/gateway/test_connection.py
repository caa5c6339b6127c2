"""How connections end, and what each end leaves in the log."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from duplex_es.log.errors import LogUnavailable
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import (
    ResponseCreated,
    ResponseDone,
    ResponseObject,
    SessionClosed,
    SessionExpired,
    SocketDetached,
)
from gateway import endings
from gateway import service as service_module
from gateway.connection import _race
from gateway.endings import Ending
from gateway.liveness import UNREAD_BYTES, LivelySocket
from gateway.server import TRANSPORT_MAX_BYTES
from tests.gateway.stage import FakeWorker, Gateway, audio_delta, error_frame, inputs_of, joined, running, types, until

pytestmark = pytest.mark.e2e


class SilentLog(MemoryLog):
    """A log whose store can be lost: then every call that changes or asks something fails."""

    silent = False
    failures = 0

    def _newest(self, session_id: str):  # type: ignore[no-untyped-def]
        if self.silent:
            raise LogUnavailable("the store is silent")
        return super()._newest(session_id)

    async def renew(self, attachments, claims):  # type: ignore[no-untyped-def]
        """As ``MemoryLog``, while there is a store."""
        if self.silent:
            self.failures += 1
            raise LogUnavailable("the store is silent")
        return await super().renew(attachments, claims)


class GatedLog(MemoryLog):
    """A log that lands appends only while its gate is open, and lands them even if nobody waits for them any more."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.appends = 0

    async def append_input(self, attachment, first_index, records):  # type: ignore[no-untyped-def]
        """See ``SessionLog``."""
        self.appends += 1
        await asyncio.shield(self._land(attachment, first_index, records))

    async def _land(self, attachment, first_index, records):  # type: ignore[no-untyped-def]
        await self.gate.wait()
        await super().append_input(attachment, first_index, records)


async def test_close_is_answered_and_nothing_follows(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        await client.say("session.close")
        closed = await client.hear_type("session.closed")
        assert (closed["session_id"], closed["reason"]) == ("mine", "session_close")
        assert closed["server_event_seq"] == 2
        assert await client.closed() == (1000, "")
    said = types(await inputs_of(gateway.service.log, "mine"))
    assert said == ["SocketAttached", "OpenSession", "CloseSession"], "a closed session is not left as well"


async def test_a_timeout_of_the_session_closes_normally(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        await worker.end("mine", "timeout", SessionClosed(session_id="mine", reason="timeout"))
        assert (await client.hear_type("session.closed"))["reason"] == "timeout"
        assert await client.closed() == (1000, "")


async def test_expiry_is_unsequenced_and_names_itself(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        expired = SessionExpired(session_id="mine", incarnation=0, reason="idle_ttl_expired")
        await worker.end("mine", "idle_ttl_expired", expired)
        frame = await client.hear_type("session.expired")
        assert "server_event_seq" not in frame
        assert frame["reason"] == "idle_ttl_expired"
        assert await client.closed() == (1000, "session_expired")


async def test_an_error_before_the_end_does_not_cut_it_off(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        reason = "runtime_append_task_failed"
        await worker.end("mine", reason, error_frame(reason), SessionClosed(session_id="mine", reason=reason))
        assert (await client.hear_type("error"))["error"]["code"] == reason
        assert (await client.hear_type("session.closed"))["reason"] == reason
        assert await client.closed() == (1000, "")


async def test_a_fatal_error_without_a_closing_frame_ends_normally(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        await worker.end("mine", "runtime_close_failed", error_frame("runtime_close_failed"))
        await client.hear_type("error")
        assert await client.closed() == (1000, "")


async def test_a_session_that_ends_without_a_word_still_gets_one(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        await worker.log.close(worker.claims["mine"], "erased")
        assert (await client.hear_type("session.expired"))["reason"] == "erased"
        assert await client.closed() == (1000, "session_expired")


@pytest.mark.parametrize("polite", [True, False])
async def test_a_client_that_vanishes_is_detached_after_all_it_said(
    gateway: Gateway, worker: FakeWorker, polite: bool
) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        for index in range(50):
            await client.say("input.text.append", text=f"{index}")
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")
        await client.say("input.text.append", text="last words")
        if not polite:
            await until(lambda: not client.socket.transport.get_write_buffer_size())
            client.socket.transport.abort()
    await until(lambda: types(worker.heard["mine"])[-1] == "SocketDetached")
    left = worker.heard["mine"][-1]
    assert left == SocketDetached(generation=1, reason="client_closed" if polite else "connection_lost")
    if polite:
        assert worker.heard["mine"][-2].text == "last words"  # type: ignore[union-attr]
    assert not (await gateway.service.log.head("mine")).attached


async def test_close_is_executed_even_if_the_client_does_not_wait_for_it(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        await client.say("session.close")
    await until(lambda: "CloseSession" in types(worker.heard["mine"]))


async def test_a_binary_frame_is_named_and_treated_as_a_disconnect(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        await client.say("input.text.append", text="before")
        await client.socket.send(b"\x00\x01")
        error = await client.hear_type("error")
        assert error["error"]["code"] == "realtime_input_failed"
        assert "server_event_seq" not in error
        assert (await client.closed())[0] == 1003
        await until(lambda: types(worker.heard["mine"])[-1] == "SocketDetached")
        assert types(worker.heard["mine"])[-2:] == ["AppendText", "SocketDetached"]
    async with joined(gateway.url("autostart=0")) as client:
        await client.resume(created, 1)
        await client.hear_type("session.resumed")


async def test_a_frame_above_the_transport_limit_closes_1009(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        with contextlib.suppress(Exception):
            await client.socket.send("x" * (TRANSPORT_MAX_BYTES + 1))
        assert (await client.closed())[0] == 1009
        await until(lambda: types(worker.heard["mine"])[-1] == "SocketDetached")


async def test_output_this_build_cannot_read_ends_with_an_error_and_can_be_resumed(
    gateway: Gateway, worker: FakeWorker
) -> None:
    from duplex_es.log.api import Record

    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        await worker.log.append_output(worker.claims["mine"], 2, [Record(b"\xc1")])
        assert (await client.hear_type("error"))["error"]["code"] == "internal_error"
        assert await client.closed() == (1000, "")
        await until(lambda: types(worker.heard["mine"])[-1] == "SocketDetached")


async def test_a_lost_log_is_told_to_a_client_that_speaks() -> None:
    log = SilentLog()
    async with FakeWorker(log).working(), running(log, log_patience_s=60.0) as gateway:
        async with joined(gateway.url()) as client:
            await client.open(session_id="mine")
            log.silent = True
            await client.say("session.heartbeat")
            error = await client.hear_type("error")
            assert error["error"]["code"] == "log_unavailable"
            assert error["error"]["type"] == "server_error"
            assert "server_event_seq" not in error
            assert await client.closed() == (1013, "log_unavailable")
        log.silent = False


async def test_a_lost_log_is_told_to_a_client_that_only_listens() -> None:
    log = SilentLog()
    async with FakeWorker(log).working(), running(log, renew_interval_s=0.02, log_patience_s=0.1) as gateway:
        async with joined(gateway.url()) as client:
            created = await client.open(session_id="mine")
            log.silent = True
            assert (await client.hear_type("error"))["error"]["code"] == "log_unavailable"
            assert await client.closed() == (1013, "log_unavailable")
        log.silent = False
        async with joined(gateway.url("autostart=0")) as client:
            await client.resume(created, 1)
            await client.hear_type("session.resumed")


async def test_a_log_that_comes_back_in_time_costs_nobody_anything() -> None:
    log = SilentLog()
    async with (
        FakeWorker(log).working(),
        running(log, renew_interval_s=0.02, log_patience_s=60.0) as gateway,
        joined(gateway.url()) as client,
    ):
        await client.open(session_id="mine")
        log.silent = True
        await until(lambda: log.failures > 3)
        log.silent = False
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")


async def test_a_missed_notice_of_a_newer_socket_is_caught_by_the_leases(gateway: Gateway) -> None:
    log = gateway.service.log
    assert isinstance(log, MemoryLog)
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        log._current["mine"].generation += 1  # As if another gateway had attached and its notice got lost.
        replaced = await client.hear_type("session.replaced")
        assert replaced["attachment_generation"] == 1
        assert await client.closed() == (1000, "session_replaced")


async def test_a_stopping_gateway_announces_it_and_closes_1012(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        gateway.server.should_exit = True
        going = await client.hear_type("session.going_away")
        assert (going["session_id"], going["grace_ms"]) == ("mine", 300)
        assert "server_event_seq" not in going
        assert await client.closed() == (1012, "gateway_stopping")
    assert worker.heard["mine"][-1] == SocketDetached(generation=1, reason="gateway_stopping")
    async with running(gateway.service.log, "gateway-2") as other, joined(other.url("autostart=0")) as client:
        await client.resume(created, 1)
        await client.hear_type("session.resumed")


async def test_what_was_read_before_the_gateway_stops_still_reaches_the_log() -> None:
    log = GatedLog()
    async with FakeWorker(log).working() as worker, running(log) as gateway, joined(gateway.url()) as client:
        await client.open(session_id="mine")
        log.gate.clear()
        appends = log.appends
        await client.say("input.text.append", text="on its way")
        await until(lambda: log.appends > appends)
        await client.say("input.text.append", text="held")
        await client.say("session.no.such")
        gateway.server.should_exit = True
        await client.hear_type("session.going_away")
        await client.closed()
        log.gate.set()
        await until(lambda: types(worker.heard["mine"])[-1] == "SocketDetached")
        assert types(worker.heard["mine"])[2:] == ["AppendText", "AppendText", "RefuseCommand", "SocketDetached"]


async def test_the_first_ending_wins_and_the_others_are_cancelled() -> None:
    cancelled = asyncio.Event()

    async def waits() -> Ending:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return endings.CLOSED

    async def ends(ending: Ending | None) -> Ending | None:
        return ending

    assert await _race(waits(), ends(None), ends(endings.EXPIRED), ends(endings.STOPPING)) == endings.EXPIRED
    assert cancelled.is_set()
    with pytest.raises(ZeroDivisionError):
        await _race(waits(), _fails())


async def _fails() -> None:
    raise ZeroDivisionError


async def test_an_attachment_that_nobody_took_but_is_gone_can_be_resumed(gateway: Gateway) -> None:
    log = gateway.service.log
    assert isinstance(log, MemoryLog)
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        log._current["mine"].attached = False  # As no gateway would do it.
        assert (await client.hear_type("error"))["error"]["code"] == "internal_error"
    async with joined(gateway.url("autostart=0")) as client:
        await client.resume(created, 1)
        await client.hear_type("session.resumed")


async def test_a_client_that_takes_nothing_is_closed_in_the_end_and_can_come_back(
    log: MemoryLog, worker: FakeWorker
) -> None:
    """Greedy clients: what is held for one that does not read is bounded, and held for a bounded time."""
    pieces = 400
    async with running(log, stall_s=0.3) as gateway:
        async with joined(gateway.url(), max_queue=1) as client:
            created = await client.open(session_id="mine")
            for _ in range(pieces):
                await worker.show("mine", audio_delta(bytes(50_000)))
            await client.say("session.heartbeat")  # It speaks, so it is not dead: it only does not listen.
            await until(lambda: types(worker.heard["mine"])[-1] == "SocketDetached")
            assert worker.heard["mine"][-1] == SocketDetached(generation=1, reason="client_stalled")
            heard = await client.hear_all()
            assert (client.socket.close_code, client.socket.close_reason) == (1013, "client_stalled")
        seqs = [frame["server_event_seq"] for frame in heard]
        assert seqs == list(range(2, 2 + len(seqs)))
        async with joined(gateway.url("autostart=0")) as client:
            await client.resume(created, seqs[-1])
            await client.hear_type("session.resumed")
            rest = [(await client.hear())["server_event_seq"] for _ in range(pieces + 1 - len(seqs))]
    assert seqs + rest == list(range(2, pieces + 3))


async def test_a_client_that_reads_slowly_but_reads_is_not_closed(log: MemoryLog, worker: FakeWorker) -> None:
    async with running(log, stall_s=1.5) as gateway, joined(gateway.url(), max_queue=1) as client:
        await client.open(session_id="mine")
        for _ in range(60):
            await worker.show("mine", audio_delta(bytes(50_000)))
        for _ in range(60):
            await client.hear_type("response.output_audio.delta")
            await asyncio.sleep(0.04)


async def test_what_is_held_for_a_client_that_does_not_read_is_bounded(log: MemoryLog, worker: FakeWorker) -> None:
    frame = 50_000
    async with running(log) as gateway, joined(gateway.url(), max_queue=1) as client:
        await client.open(session_id="mine")
        (socket,) = (s for s in gateway.server.server_state.connections if isinstance(s, LivelySocket))
        client.socket.transport.pause_reading()
        most = 0
        for _ in range(400):
            await worker.show("mine", audio_delta(bytes(frame)))
            most = max(most, socket.transport.get_write_buffer_size())
        await until(lambda: not socket.writable.is_set())
        for number in range(2_000):
            await client.socket.ping(f"{number:0120}")  # Each would be answered with as much.
        assert await log.head("mine")
        most = max(most, socket.transport.get_write_buffer_size())
        assert most <= UNREAD_BYTES + 2 * frame
        client.socket.transport.resume_reading()


async def test_a_stopping_gateway_lets_an_answer_end_and_closes_who_has_none(
    log: MemoryLog, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E37: told first, with what it takes to move; closed where the answer ends, with 1012; the session lives on."""
    monkeypatch.setattr(service_module, "NOTICE_S", 0.05)
    answer = ResponseObject(id="resp_1")
    async with running(log, drain_s=60.0) as gateway, joined(gateway.url()) as idle, joined(gateway.url()) as busy:
        await idle.open(session_id="idle")
        created = await busy.open(session_id="busy")
        await worker.show("busy", ResponseCreated(response=answer))
        await busy.hear_type("response.created")
        gateway.server.should_exit = True
        for client in (idle, busy):
            going = await client.hear_type("session.going_away")
            assert going["grace_ms"] == 60_000
        assert going["resume_token"] == created["resume_token"]
        assert await idle.closed() == (1012, "gateway_stopping")
        await worker.show("busy", audio_delta(b"\x00\x00"), ResponseDone(response=answer))
        await busy.hear_type("response.output_audio.delta")
        await busy.hear_type("response.done")
        assert await busy.closed() == (1012, "gateway_stopping")
    async with running(log, "gateway-2") as other, joined(other.url("autostart=0")) as client:
        await client.resume({**created, "resume_token": going["resume_token"]}, 4)
        await client.hear_type("session.resumed")


async def test_a_stopping_gateway_does_not_wait_for_an_answer_forever(log: MemoryLog, worker: FakeWorker) -> None:
    async with running(log, drain_s=0.2) as gateway, joined(gateway.url()) as client:
        await client.open(session_id="mine")
        await worker.show("mine", ResponseCreated(response=ResponseObject(id="resp_1")))
        await client.hear_type("response.created")
        gateway.server.should_exit = True
        await client.hear_type("session.going_away")
        assert await client.closed() == (1012, "gateway_stopping")
