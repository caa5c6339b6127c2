"""Resuming on another gateway that shares nothing but the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duplex_es.log.api import START, SessionLog
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import AppendText, SessionExpired
from duplex_es.testing.log_stage import eventually
from gateway import resuming
from gateway.peer import Peer
from tests.gateway.stage import Client, FakeWorker, Gateway, audio_delta, inputs_of, joined, running, types, until

pytestmark = pytest.mark.e2e


@pytest.fixture
async def other(log: MemoryLog, worker: FakeWorker) -> AsyncIterator[Gateway]:
    """A second gateway on the same log."""
    async with running(log, "gateway-2") as gateway:
        yield gateway


async def refused(gateway: Gateway, created: dict[str, Any], after_seq: int, code: str, **changes: Any) -> None:
    """A resume that must fail with ``code``, flat, and end its own connection only."""
    async with joined(gateway.url("autostart=0")) as client:
        await client.resume(created, after_seq, **changes)
        error = await client.hear_type("error")
        assert (error["code"], type(error["error"])) == (code, str)
        assert await client.closed() == (1000, "")


async def acknowledged(log: SessionLog, session_id: str, seq: int) -> None:
    """Return once the log knows that everything up to ``seq`` has arrived."""
    async with asyncio.timeout(30):
        while (await log.head(session_id)).acknowledged_seq < seq:
            await asyncio.sleep(0.005)


async def listened(client: Client, words: int) -> list[dict[str, Any]]:
    """Have the worker say something and hear it."""
    await client.say("input.text.append", text=f"say {words}")
    return [await client.hear() for _ in range(words)]


async def test_every_frame_after_the_last_one_comes_once_and_in_order(
    gateway: Gateway, other: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        before = await listened(client, 5)
        assert [frame["server_event_seq"] for frame in before] == [2, 3, 4, 5, 6]
    await until(lambda: types(worker.heard["mine"])[-1] == "SocketDetached")
    await worker.show("mine", *(await _words(4)))
    async with joined(other.url("autostart=0")) as client:
        await client.resume(created, 4)
        resumed = await client.hear_type("session.resumed")
        assert "server_event_seq" not in resumed
        assert (resumed["session_id"], resumed["incarnation"], resumed["attachment_generation"]) == ("mine", 0, 2)
        assert resumed["resume_token"] != created["resume_token"]
        replayed = [await client.hear() for _ in range(6)]
        assert [frame["server_event_seq"] for frame in replayed] == [5, 6, 7, 8, 9, 10]
        assert replayed[:2] == before[3:], "byte-identical, event_id included"
        live = await listened(client, 2)
        assert [frame["server_event_seq"] for frame in live] == [11, 12]


async def _words(count: int) -> list[Any]:
    from tests.gateway.stage import text_delta

    return [text_delta(f"unheard {index}") for index in range(count)]


async def test_the_old_socket_is_replaced_while_it_is_still_healthy(gateway: Gateway, other: Gateway) -> None:
    async with joined(gateway.url()) as old, joined(other.url("autostart=0")) as new:
        created = await old.open(session_id="mine")
        await new.resume(created, 1)
        await new.hear_type("session.resumed")
        replaced = await old.hear_type("session.replaced")
        assert (replaced["session_id"], replaced["attachment_generation"]) == ("mine", 1)
        assert "server_event_seq" not in replaced
        assert await old.closed() == (1000, "session_replaced")
        await new.say("session.heartbeat")
        assert (await new.hear_type("session.heartbeat_ack"))["server_event_seq"] == 2
        said = types(await inputs_of(gateway.service.log, "mine"))
        assert said == ["SocketAttached", "OpenSession", "SocketAttached", "Heartbeat"], "no detach of the old one"


async def test_of_racing_resumes_exactly_one_wins(gateway: Gateway, other: Gateway) -> None:
    async with joined(gateway.url()) as owner:
        created = await owner.open()
    async with asyncio.TaskGroup() as group:

        async def attempt(gateway: Gateway) -> str:
            async with joined(gateway.url("autostart=0")) as client:
                await client.resume(created, 1)
                answer = await client.hear()
                await won.wait() if answer["type"] == "session.resumed" else lost.release()
                return str(answer.get("code", answer["type"]))

        won, lost = asyncio.Event(), asyncio.Semaphore(0)
        attempts = [group.create_task(attempt(target)) for target in (gateway, other, gateway, other, other)]
        for _ in range(4):
            await lost.acquire()
        won.set()
    answers = sorted(task.result() for task in attempts)
    assert answers == ["invalid_resume_token"] * 4 + ["session.resumed"]


async def test_what_is_not_a_resume_is_refused_by_its_shape(other: Gateway) -> None:
    good = {"session_id": "mine", "incarnation": 0, "resume_token": "rt_x"}
    for wrong in ({"session_id": ""}, {"incarnation": -1}, {"resume_token": 5}):
        await refused(other, good, 0, "invalid_session_resume", **wrong)


async def test_a_session_nobody_knows_has_expired(other: Gateway) -> None:
    await refused(other, {"session_id": "x", "incarnation": 0, "resume_token": "rt_x"}, 0, "session_resume_expired")


async def ended(gateway: Gateway, words: int = 4) -> dict[str, Any]:
    """``session.created`` of a session that was closed after a few words; its last frame has seq ``words + 2``."""
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        await listened(client, words)
        await client.say("session.close")
        closed = await client.hear_type("session.closed")
        assert closed["server_event_seq"] == words + 2
        assert await client.closed() == (1000, "")
    return created


async def test_a_session_that_is_over_is_replayed_to_its_last_word(gateway: Gateway, other: Gateway) -> None:
    """E5: a finished session can be read again while its log is kept: the rest, the closed marker, then the close."""
    created = await ended(gateway)
    for after_seq in (0, 3, 5):
        async with joined(other.url("autostart=0")) as client:
            await client.resume(created, after_seq)
            resumed = await client.hear_type("session.resumed")
            assert (resumed["attachment_generation"], resumed["resume_token"]) == (1, created["resume_token"])
            frames = await client.hear_all()
        assert [frame["server_event_seq"] for frame in frames] == list(range(after_seq + 1, 7))
        assert frames[-1]["type"] == "session.closed"
        assert (client.socket.close_code, client.socket.close_reason) == (1000, "")
    assert types(await inputs_of(gateway.service.log, "mine"))[-1] == "CloseSession", "nothing was taken or written"


async def test_a_session_that_is_over_is_replayed_to_a_stock_client_too(gateway: Gateway, other: Gateway) -> None:
    created = await ended(gateway)
    async with joined(other.url("dialect=ga&resume=1")) as client:
        await client.resume(created, 3)
        again = await client.hear_type("session.created")
        assert again["duplex"]["resume_token"] == created["resume_token"]
        frames = await client.hear_all()
        assert [frame["delta"] for frame in frames[:2]] == ["word 2", "word 3"]


async def test_of_a_session_that_is_over_nothing_is_shown_without_its_token_or_beyond_its_end(
    gateway: Gateway, other: Gateway
) -> None:
    created = await ended(gateway)
    await refused(other, created, 0, "invalid_resume_token", resume_token="rt_guess")
    await refused(other, created, 0, "session_resume_conflict", incarnation=3)
    await refused(other, created, 7, "session_resume_conflict")
    await refused(other, created, 6, "session_resume_expired")


async def test_a_session_that_was_given_up_has_expired(gateway: Gateway, other: Gateway, worker: FakeWorker) -> None:
    """E6: what is gone is said in a frame that no position filters out."""
    for last in ((), (SessionExpired(session_id="mine", incarnation=0, reason="disconnect_grace_expired"),)):
        async with joined(gateway.url()) as client:
            created = await client.open(session_id="mine")
        await worker.end("mine", "disconnect_grace_expired", *last)
        for after_seq in (0, 1, 50):
            await refused(other, created, after_seq, "session_resume_expired")
        worker._seqs.clear()


async def test_a_session_that_is_over_and_was_trimmed_is_a_gap(
    gateway: Gateway, other: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        await listened(client, 4)
        log = gateway.service.log
        await log.trim_history(worker.claims["mine"], input_before=START, output_before=4)
        await client.say("session.close")
        await client.hear_type("session.closed")
    async with joined(other.url("autostart=0")) as client:
        await client.resume(created, 1)
        gap = await client.hear_type("session.resync_required")
        assert (gap["reason"], gap["first_available"]) == ("journal_gap", 4)


async def test_the_last_event_that_arrived_is_named_so_that_the_rest_can_be_said_again(
    gateway: Gateway, other: Gateway, worker: FakeWorker
) -> None:
    """E7: after a resume a client knows which of its events arrived; it says the others again, each counts once."""
    said = [f"evt_{number}" for number in range(50)]
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        for event_id in said[:20]:
            await client.say("input.text.append", text=event_id, event_id=event_id)
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")
        client.socket.transport.abort()
    async with joined(other.url("autostart=0")) as client:
        await client.resume(created, 1)
        resumed = await client.hear_type("session.resumed")
        assert resumed["last_client_event_id"] == "evt_19"
        for event_id in said[said.index(resumed["last_client_event_id"]) + 1 :]:
            await client.say("input.text.append", text=event_id, event_id=event_id)
        await client.say("session.no_such_event", event_id="evt_50")
        await client.hear_type("session.heartbeat_ack")
        error = await client.hear_type("error")
        assert error["error"]["event_id"] == "evt_50", "what is not taken is refused by its id"
    heard = [one.text for one in worker.heard["mine"] if isinstance(one, AppendText)]
    assert heard == said


async def test_what_a_superseded_socket_still_holds_does_not_arrive_after_the_resume_was_answered(
    worker: FakeWorker,
) -> None:
    log = worker.log
    async with running(log) as first, running(log, "gateway-2") as second:
        async with joined(first.url()) as old, joined(second.url("autostart=0")) as new:
            created = await old.open(session_id="mine")
            for number in range(200):
                await old.say("input.text.append", text="x", event_id=f"evt_{number}")
            await new.resume(created, 1)
            resumed = await new.hear_type("session.resumed")
            await old.hear_all()
        arrived = [one.event_id for one in await inputs_of(log, "mine") if isinstance(one, AppendText)]
    assert resumed["last_client_event_id"] == (arrived[-1] if arrived else None)


async def test_a_client_that_hangs_up_while_it_waits_its_turn_takes_nothing(
    log: MemoryLog, gateway: Gateway, worker: FakeWorker
) -> None:
    async with running(log, "narrow", admit_at_once=1) as narrow, joined(gateway.url()) as owner:
        created = await owner.open(session_id="mine")
        held = narrow.service.gate.ticket()
        await held.admitted()
        async with joined(narrow.url("autostart=0")) as waiting:
            await waiting.resume(created, 1)
            await until(lambda: bool(narrow.service.gate._queue))
        await until(lambda: not narrow.service.gate._queue)
        held.release()
        await owner.say("session.heartbeat")
        await owner.hear_type("session.heartbeat_ack")
        assert (await log.head("mine")).generation == 1


async def test_a_crowd_is_served_in_order_and_told_to_come_again_beyond_the_bound(
    log: MemoryLog, gateway: Gateway, worker: FakeWorker
) -> None:
    async with running(log, "narrow", admit_at_once=1, admit_waiting=0) as narrow:
        async with joined(gateway.url()) as owner:
            created = await owner.open(session_id="mine")
        held = narrow.service.gate.ticket()
        await held.admitted()
        async with joined(narrow.url("autostart=0")) as client:
            await client.resume(created, 1)
            error = await client.hear_type("error")
            assert (error["code"], type(error["error"])) == ("duplex_session_busy", str)
            assert error["retry_after_ms"] >= 1_000
            assert await client.closed() == (1013, "duplex_session_busy")
        async with joined(narrow.url()) as client:
            await client.say("session.update", session={}, event_id="evt_1")
            error = (await client.hear_type("error"))["error"]
            assert (error["code"], error["type"]) == ("duplex_session_busy", "rate_limit_error")
            assert (error["event_id"], error["retry_after_ms"] >= 1_000) == ("evt_1", True)
            assert await client.closed() == (1013, "duplex_session_busy")
        held.release()
        async with joined(narrow.url("autostart=0")) as client:
            await client.resume(created, 1)
            await client.hear_type("session.resumed")


async def test_a_catch_up_keeps_its_place_at_the_gate_until_it_is_done_or_too_slow(
    gateway: Gateway, log: MemoryLog, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "CATCH_UP_S", 0.2)
    async with joined(gateway.url()) as owner:
        created = await owner.open(session_id="mine")
        for _ in range(300):
            await worker.show("mine", audio_delta(bytes(50_000)))
        async with (
            running(log, "narrow", admit_at_once=1) as narrow,
            joined(narrow.url("autostart=0"), max_queue=1) as slow,
        ):
            await slow.resume(created, 1)
            await slow.hear_type("session.resumed")
            assert narrow.service.gate._free == 0, "it has not got what it missed"
            await until(lambda: narrow.service.gate._free == 1)
            assert [(await slow.hear())["server_event_seq"] for _ in range(300)] == list(range(2, 302))


async def test_a_session_that_is_not_open_yet_cannot_be_resumed(log: MemoryLog) -> None:
    async with (
        FakeWorker(log, mute=True).working(),
        running(log) as gateway,
        joined(gateway.url("duplex=1&model=cascade&session_id=mine")),
    ):
        await until(lambda: bool(gateway.service.connections))
        wanted = {"session_id": "mine", "incarnation": 0, "resume_token": "rt_x"}
        await refused(gateway, wanted, 0, "session_resume_expired")


async def test_a_model_that_cannot_resume_says_so(log: MemoryLog) -> None:
    async with (
        FakeWorker(log, resumable=False).working(),
        running(log) as gateway,
        joined(gateway.url("duplex=1&model=cascade&session_id=mine")) as client,
    ):
        await client.hear_type("session.created")
        wanted = {"session_id": "mine", "incarnation": 0, "resume_token": "rt_x"}
        await refused(gateway, wanted, 0, "unsupported_session_resume")


async def test_another_incarnation_is_a_conflict(gateway: Gateway, other: Gateway) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open()
        await refused(other, created, 0, "session_resume_conflict", incarnation=1)


async def test_a_wrong_token_is_refused_and_the_session_stays_where_it_is(gateway: Gateway, other: Gateway) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open()
        await refused(other, created, 0, "invalid_resume_token", resume_token="rt_guess")
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")


async def test_a_seq_beyond_the_last_frame_is_a_conflict(gateway: Gateway, other: Gateway) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open()
        await refused(other, created, 2, "session_resume_conflict")


async def test_a_seq_that_is_written_again_within_a_second_is_none(
    gateway: Gateway, other: Gateway, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has lost its last moments, and the worker has not written them again yet."""
    monkeypatch.setattr(resuming, "HEALED_WITHIN_S", 30.0)  # a second may be over before a busy machine has asked twice
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        async with joined(other.url("autostart=0")) as resuming_client:
            await resuming_client.resume(created, 3)
            await asyncio.sleep(resuming.ASKED_EVERY_S / 2)
            await worker.show("mine", *(await _words(4)))
            resumed = await resuming_client.hear_type("session.resumed")
            assert resumed["attachment_generation"] == 2
            assert [(await resuming_client.hear())["server_event_seq"] for _ in range(2)] == [4, 5]


async def test_an_attempt_that_was_given_up_takes_nothing_from_the_client_that_has_a_newer_token(
    gateway: Gateway, other: Gateway
) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
    async with joined(gateway.url("autostart=0")) as client:
        await client.resume(created, 1)
        newer = await client.hear_type("session.resumed")
        client.socket.transport.abort()  # a goodbye would have confirmed it

    async def is_held() -> bool:
        return (await gateway.service.log.head("mine")).attached

    await eventually(is_held, lambda held: not held)
    async with joined(other.url("autostart=0")) as late, joined(gateway.url("autostart=0")) as client:
        await late.resume(created, 1)
        assert (await late.hear_type("session.resumed"))["attachment_generation"] == 3
        await client.resume(newer, 1)
        assert (await client.hear_type("session.resumed"))["attachment_generation"] == 4
        assert (await late.hear_type("session.replaced"))["attachment_generation"] == 3
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")
    await refused(other, created, 1, "invalid_resume_token")
    await refused(other, newer, 1, "invalid_resume_token")


async def test_below_what_was_acknowledged_is_a_gap_and_the_token_stays_good(gateway: Gateway, other: Gateway) -> None:
    log = gateway.service.log
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        await listened(client, 5)
        await client.say("session.event_ack", server_event_seq=4)
        await acknowledged(log, "mine", 4)
    async with joined(other.url("autostart=0")) as client:
        await client.resume(created, 3)
        resync = await client.hear_type("session.resync_required")
        assert (resync["session_id"], resync["reason"]) == ("mine", "journal_gap")
        assert "server_event_seq" not in resync
        assert await client.closed() == (1000, "")
    async with joined(other.url("autostart=0")) as client:
        await client.resume(created, 4)
        await client.hear_type("session.resumed")
        assert (await client.hear())["server_event_seq"] == 5


async def test_the_old_token_dies_when_the_new_socket_has_shown_that_it_has_the_new_one(
    gateway: Gateway, other: Gateway
) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open()
    async with joined(other.url("autostart=0")) as client:
        await client.resume(created, 1)
        resumed = await client.hear_type("session.resumed")
    await until(lambda: not other.service.connections)
    await refused(other, created, 1, "invalid_resume_token")
    async with joined(gateway.url("autostart=0")) as client:
        await client.resume(resumed, 1)
        assert (await client.hear_type("session.resumed"))["attachment_generation"] == 3


async def test_the_old_token_stays_good_when_the_answer_was_lost_on_the_way(gateway: Gateway, other: Gateway) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open()
    async with joined(other.url("autostart=0")) as client:
        await client.resume(created, 1)
        await until(lambda: bool(other.service.connections))
        client.socket.transport.abort()
    await until(lambda: not other.service.connections)
    async with joined(gateway.url("autostart=0")) as client:
        await client.resume(created, 1)
        assert (await client.hear_type("session.resumed"))["attachment_generation"] == 3


async def test_an_acknowledgement_of_replayed_frames_is_good_before_they_were_sent_again(
    gateway: Gateway, other: Gateway, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    send = Peer.send

    async def held_back(peer: Peer, text: str) -> bool:
        if '"server_event_seq"' in text:
            await gate.wait()
        return await send(peer, text)

    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        await listened(client, 30)
    monkeypatch.setattr(Peer, "send", held_back)
    async with joined(other.url("autostart=0")) as client:
        await client.resume(created, 1)
        await client.say("session.event_ack", server_event_seq=31)
        await client.hear_type("session.resumed")
        await acknowledged(gateway.service.log, "mine", 31)
        gate.set()
        assert [(await client.hear())["server_event_seq"] for _ in range(30)] == list(range(2, 32))
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")
        assert "AcknowledgeEvents" not in types(worker.heard["mine"])


async def test_a_broken_opening_in_the_head_ends_the_connection_with_an_error(
    gateway: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        await worker.log.checkpoint(worker.claims["mine"], b"", opening=b"\xc1")
        async with joined(gateway.url("autostart=0")) as second:
            await second.resume(created, 1)
            assert (await second.hear_type("error"))["error"]["code"] == "internal_error"
