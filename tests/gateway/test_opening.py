"""Opening a session through a gateway: admission, identity, refusals."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import CloseSession, OpenSession, RefuseCommand
from gateway.handshake import OpenWish
from gateway.opening import first_inputs
from tests.gateway.stage import FakeWorker, Gateway, inputs_of, joined, running, types, until

pytestmark = pytest.mark.e2e


async def test_an_unknown_model_is_refused_with_the_field_and_what_is_served(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        await client.say("session.update", event_id="e1", session={"model": "nope"})
        error = (await client.hear_type("error"))["error"]
        assert error["code"] == error["type"] == "invalid_request_error"
        assert (error["param"], error["event_id"]) == ("session.model", "e1")
        assert "cascade" in error["message"]
        assert await client.closed() == (1000, "")
    assert await gateway.service.log.sessions() == []


async def test_an_unknown_model_in_the_query_is_named_as_such(gateway: Gateway) -> None:
    async with joined(gateway.url("duplex=1&model=nope")) as client:
        assert (await client.hear_type("error"))["error"]["param"] == "model"


async def test_the_session_names_the_model_before_the_query_does(log: MemoryLog) -> None:
    async with FakeWorker(log, models=("cascade", "echo")).working(), running(log) as gateway:
        async with joined(gateway.url("model=cascade&autostart=0")) as client:
            assert (await client.open(model="echo"))["session"]["model"] == "echo"
        async with joined(gateway.url("model=echo&autostart=0")) as client:
            assert (await client.open())["session"]["model"] == "echo"


async def test_a_full_fleet_is_busy_and_says_how_many_it_takes(log: MemoryLog) -> None:
    worker = FakeWorker(log, slots=3, used=3)
    async with worker.working(), running(log) as gateway, joined(gateway.url("duplex=1&model=cascade")) as client:
        error = (await client.hear_type("error"))["error"]
        assert (error["code"], error["type"]) == ("duplex_session_busy", "rate_limit_error")
        assert "max_sessions=3" in error["message"]
        assert await client.closed() == (1000, "")
    assert await log.sessions() == []


async def test_sessions_that_wait_for_a_worker_use_up_its_slots(log: MemoryLog) -> None:  # V54
    async with (
        FakeWorker(log, slots=1, mute=True).working(),
        running(log) as gateway,
        joined(gateway.url("duplex=1&model=cascade")) as first,
        joined(gateway.url("duplex=1&model=cascade")) as second,
    ):
        hearing = [asyncio.create_task(client.hear()) for client in (first, second)]
        done, waiting = await asyncio.wait(hearing, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result()["error"]["code"] for task in done] == ["duplex_session_busy"]
        assert len(waiting) == 1
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_without_any_worker_it_is_busy_not_unknown(log: MemoryLog) -> None:  # V52
    async with running(log) as gateway, joined(gateway.url()) as client:
        await client.say("session.update", session={"model": "whatever"})
        error = (await client.hear_type("error"))["error"]
        assert error["code"] == "duplex_session_busy"
        assert "no worker" in error["message"]


async def test_a_live_session_id_is_refused_and_the_session_goes_on(gateway: Gateway) -> None:
    async with joined(gateway.url()) as owner, joined(gateway.url()) as other:
        await owner.open(session_id="mine")
        await other.say("session.update", event_id="e2", session={"session_id": "mine"})
        error = (await other.hear_type("error"))["error"]
        assert (error["code"], error["event_id"]) == ("internal_error", "e2")
        assert "exists" in error["message"]
        assert await other.closed() == (1000, "")
        await owner.say("session.heartbeat")
        await owner.hear_type("session.heartbeat_ack")


async def test_a_closed_id_may_be_used_again_as_the_next_incarnation(gateway: Gateway, worker: FakeWorker) -> None:
    for incarnation in (0, 1):
        worker._seqs.clear()
        async with joined(gateway.url()) as client:
            assert (await client.open(session_id="mine"))["incarnation"] == incarnation
            await client.say("session.close")
            await client.hear_type("session.closed")


async def test_what_the_worker_refuses_is_told_and_ends_the_connection(log: MemoryLog) -> None:
    refusal = RefuseCommand(code="ref_audio_required", message="a voice, please", param="ref_audio", event_id="e1")
    async with FakeWorker(log, refusal=refusal).working(), running(log) as gateway, joined(gateway.url()) as client:
        await client.say("session.update", event_id="e1", session={"session_id": "mine"})
        error = await client.hear_type("error")
        assert error["error"] == {
            "type": "invalid_request_error",
            "code": "ref_audio_required",
            "message": "a voice, please",
            "param": "ref_audio",
            "event_id": "e1",
        }
        assert "server_event_seq" not in error
        assert await client.closed() == (1000, "")


async def test_a_refusal_under_a_code_this_build_does_not_know_is_still_told(log: MemoryLog) -> None:
    refusal = RefuseCommand(code="code_of_tomorrow", message="no")
    async with (
        FakeWorker(log, refusal=refusal).working(),
        running(log) as gateway,
        joined(gateway.url("duplex=1&model=cascade")) as client,
    ):
        assert (await client.hear_type("error"))["error"]["code"] == "internal_error"


async def test_a_worker_that_never_opens_is_reported_and_the_session_is_asked_to_close(log: MemoryLog) -> None:
    worker = FakeWorker(log, mute=True)
    async with worker.working(), running(log, opening_timeout_s=0.05) as gateway:
        async with joined(gateway.url("duplex=1&model=cascade&session_id=mine")) as client:
            assert (await client.hear_type("error"))["error"]["code"] == "runtime_open_failed"
            assert await client.closed() == (1000, "")
        await until(lambda: not gateway.service.connections)
        said = await inputs_of(log, "mine")
        assert types(said) == ["SocketAttached", "OpenSession", "CloseSession", "SocketDetached"]


async def test_a_client_that_leaves_before_its_session_is_created_leaves_it_to_close(log: MemoryLog) -> None:
    worker = FakeWorker(log, mute=True)
    async with worker.working(), running(log) as gateway:
        async with joined(gateway.url("duplex=1&model=cascade&session_id=mine")):
            await until(lambda: bool(gateway.service.connections))
        await until(lambda: not gateway.service.connections)
        said = await inputs_of(log, "mine")
        assert CloseSession() in said
        assert types(said)[-1] == "SocketDetached"


async def test_a_session_that_cannot_be_resumed_gets_no_token(log: MemoryLog) -> None:
    async with (
        FakeWorker(log, resumable=False).working(),
        running(log) as gateway,
        joined(gateway.url("duplex=1&model=cascade")) as client,
    ):
        created = await client.hear_type("session.created")
        assert not {"incarnation", "attachment_generation", "resume_token"} & created.keys()


async def test_no_token_is_written_anywhere_in_the_log(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        token = (await client.open(session_id="mine"))["resume_token"]
        await client.resume({"session_id": "mine", "incarnation": 0, "resume_token": token}, 0)
        await client.hear_type("error")
    stored = repr(vars(gateway.service.log))
    assert "mine" in stored
    assert token not in stored


@pytest.mark.parametrize("event_id", [None, "e1"])
def test_the_first_inputs_are_the_opening_and_what_started_it(event_id: str | None) -> None:
    wish = OpenWish({"a": 1}, updated=True, event_id=event_id, first=CloseSession())
    opening, first = first_inputs(wish, "echo", "duplex")
    named = {} if event_id is None else {"event_id": event_id}
    assert opening == OpenSession(session={"a": 1}, model="echo", **named)
    assert first == CloseSession()
