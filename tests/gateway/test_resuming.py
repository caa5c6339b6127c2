"""Resuming on another gateway that shares nothing but the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duplex_es.log.api import EntryId, Head, SessionLog, SessionRef
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import ProtocolError
from gateway.peer import Peer
from gateway.resuming import JournalGap, check_position
from tests.gateway.stage import Client, FakeWorker, Gateway, inputs_of, joined, running, types, until

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
    async with asyncio.timeout(5):
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


async def test_a_closed_session_has_expired(gateway: Gateway, other: Gateway) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open()
        await client.say("session.close")
        await client.hear_type("session.closed")
    await refused(other, created, 1, "session_resume_expired")


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


@pytest.mark.parametrize(
    ("after_seq", "outcome"), [(3, JournalGap), (4, JournalGap), (5, None), (9, None), (10, ProtocolError)]
)
def test_the_position_must_lie_between_what_is_kept_and_the_last_frame(
    after_seq: int, outcome: type[Exception] | None
) -> None:
    head = Head(
        *(SessionRef("s", 0), "m", "claimed", 1, False, "g", 1, "w"),
        output=EntryId(1, 9),
        input=EntryId(1, 0),
        first_seq=5,
        acknowledged_seq=5,
        opening=None,
        checkpoint=None,
    )
    if outcome is None:
        check_position(head, after_seq)
    else:
        with pytest.raises(outcome):
            check_position(head, after_seq)
