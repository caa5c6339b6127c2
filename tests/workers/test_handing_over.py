"""Between two workers: stalls, drains, outages, and builds that cannot read each other; never two who write."""

from __future__ import annotations

import asyncio
import logging

import msgpack
import pytest

from duplex_es.log.api import Claim, Entry, EntryId, Record
from duplex_es.log.errors import Fenced, LogUnavailable, SessionUnknown
from duplex_es.log.settings import LogSettings
from duplex_es.model import FeedAudio
from duplex_es.protocol import ClearInput, CloseSession, CommitInput, Heartbeat
from tests.support.calls import Caller, HinderedLog, all_output, check_log, pcm16, serving, until
from tests.workers.test_actor import ENDLESS, Running, answering, scripted
from tests.workers.test_host import Clock
from workers import actor as actor_module
from workers import host as host_module
from workers import last_words, strangers
from workers.recovery import recover
from workers.snapshots import pack_snapshot

pytestmark = pytest.mark.unit


@pytest.fixture
def log() -> HinderedLog:
    return HinderedLog()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker waits for in seconds, it waits for in hundredths here."""
    for name in ("RENEW_EVERY_S", "WAIT_S", "RETRY_S"):
        monkeypatch.setattr(host_module, name, 0.02)
    monkeypatch.setattr(strangers, "PAUSE_S", 0.01)


async def fences(log: HinderedLog, caller: Caller) -> list[int]:
    return [entry.id.generation for entry in await all_output(log, caller.ref)]


# -- leases and stalls ---------------------------------------------------------------------------------------------


async def test_a_busy_worker_that_renews_keeps_its_session_and_one_that_stopped_renewing_is_refused() -> None:
    """E18: three leases long nobody takes over; then somebody does, and every later append is fenced."""
    clock = Clock()
    log = HinderedLog(LogSettings(lease_s=10), clock)
    caller = await Caller.open(log, "scripted")
    model = scripted(ENDLESS)
    busy = await Running.on(log, model)
    await caller.append(pcm16(200))
    await caller.say(CommitInput())
    await caller.hears("response.output_audio.delta", 2)
    for _ in range(6):
        clock.now_s += 5
        assert await log.renew([], [busy.actor.claim]) == []
        assert await log.claim("w2", ["scripted"]) is None
    clock.now_s += 11
    successor = await Running.on(log, scripted(), "w2")
    await caller.hears("response.done")
    assert await log.renew([], [busy.actor.claim]) == [busy.actor.claim]
    asked = len(model.asked)
    with pytest.raises(Fenced):
        await log.append_output(busy.actor.claim, (await log.head("call")).output.number + 1, [Record(b"late")])
    busy.actor.socket_lost(1)
    await busy.ended()
    assert model.asked[asked:] in ([], model.asked[-1:]), "nothing but the model's end"
    assert await fences(log, caller) == sorted(await fences(log, caller))
    await successor.die()


async def test_a_worker_that_wakes_up_after_its_lease_is_refused_before_it_does_anything() -> None:
    """E21: both were told that they own the session; from the takeover on the log is one generation's."""
    clock = Clock()
    log = HinderedLog(LogSettings(lease_s=10), clock)
    model = scripted(ENDLESS)
    caller, stalled = await answering(log, model)
    log.gate.clear()
    await caller.say(Heartbeat())
    await until(lambda: log.held == 1)
    clock.now_s += 30
    second = await log.claim("w2", ["scripted"])
    assert second is not None
    log.gate.set()
    await stalled.ended()
    assert max(await fences(log, caller)) == 1
    taken = Running(actor_module.Actor(log, *second, scripted()))
    await caller.hears("session.heartbeat_ack")
    (done,) = caller.heard("response.done")
    assert done.response.status_details.reason == "worker_lost"
    found = await fences(log, caller)
    assert found == sorted(found) and set(found) == {1, 2}
    assert len(caller.heard("session.heartbeat_ack")) == 1
    await check_log(log, caller.ref, ended=True)
    await taken.die()


async def test_a_stalled_worker_cannot_close_the_session_of_its_successor(log: HinderedLog) -> None:
    """E22: the close is refused where it is carried out, not looked up before."""
    caller, stalled = await answering(log, scripted(ENDLESS))
    closing = asyncio.Event()
    close = log.close

    async def held(claim: Claim, reason: str) -> None:
        if claim == stalled.actor.claim:
            closing.set()
            await gate.wait()
        await close(claim, reason)

    gate = asyncio.Event()
    log.close = held  # type: ignore[method-assign]
    await caller.say(CloseSession())
    await asyncio.wait_for(closing.wait(), 30)
    await log.release(stalled.actor.claim)
    successor = await log.claim("w2", ["scripted"])
    assert successor is not None
    gate.set()
    await stalled.ended()
    assert (await log.head("call")).state == "claimed"
    taken = Running(actor_module.Actor(log, *successor, scripted()))
    await caller.ends("session_close")
    await taken.ended()


async def test_what_a_stalled_worker_decided_without_a_record_is_decided_by_its_successor(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    stalled = await Running.on(log, scripted())
    await caller.answer()
    await caller.append(pcm16(300))
    await until(lambda: stalled.actor.session.input.clock.ms == 300)
    await log.release(stalled.actor.claim)
    model = scripted()
    taken = await Running.on(log, model, "w2")
    await until(lambda: taken.actor.session.input.clock.ms == 300)
    assert sum(len(request.pcm) for request in model.requests(FeedAudio)) == 300 * 16 * 4
    await caller.say(Heartbeat())
    await stalled.ended()
    await caller.hears("session.heartbeat_ack")
    assert len(caller.heard("session.heartbeat_ack")) == 1
    await taken.die()


# -- outages -------------------------------------------------------------------------------------------------------


async def test_an_outage_while_a_record_is_written_costs_no_frame_and_nobody_waits_for_the_lease() -> None:
    clock = Clock()
    log = HinderedLog(LogSettings(lease_s=10), clock)
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.answer()
    log.refusal = LogUnavailable("the store does not answer")
    await caller.say(Heartbeat())
    await running.ended()
    log.refusal = None
    taken = await Running.on(log, scripted(), "w2")
    await caller.hears("session.heartbeat_ack")
    await check_log(log, caller.ref)
    await taken.die()


async def test_giving_the_claim_back_takes_only_so_long_where_the_log_is_silent(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def silent(claim: Claim) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(actor_module, "RELEASE_WITHIN_S", 0.05)
    monkeypatch.setattr(log, "release", silent)
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.answer()
    log.refusal = LogUnavailable("the store does not answer")
    with caplog.at_level(logging.INFO):
        await caller.say(Heartbeat())
        await running.ended()
    assert "not released: TimeoutError" in caplog.text
    assert (await log.head("call")).state == "claimed"


# -- drains --------------------------------------------------------------------------------------------------------


async def followed(log: HinderedLog, caller: Caller, shown: list[Entry]) -> None:
    async with log.follow_output(caller.ref) as follower:
        follower.start(EntryId(0, 0))
        async for item in follower:
            if isinstance(item, Entry):
                shown.append(item)


async def test_a_drained_session_reaches_its_socket_without_a_jump_or_a_gap(log: HinderedLog) -> None:
    shown: list[Entry] = []
    caller = await Caller.open(log, "scripted")
    socket = asyncio.create_task(followed(log, caller, shown))
    for worker in ("w1", "w2", "w3"):
        async with serving(log, scripted(), worker):
            await caller.append(*[pcm16(100)] * 3)
            await caller.say(CommitInput())
            await caller.hears("response.done", int(worker[1]))
        assert (await log.head("call")).state == "waiting"
        await caller.append(pcm16(100))
    await until(lambda: bool(shown) and shown[-1].id.number == len(caller.frames))
    assert [entry.id.number for entry in shown] == list(range(1, len(shown) + 1))
    assert [done.response.status for done in caller.heard("response.done")] == ["completed"] * 3
    await check_log(log, caller.ref, ended=True)
    socket.cancel()


async def test_a_session_that_never_rests_is_handed_over_at_the_deadline_and_its_socket_misses_nothing(
    log: HinderedLog,
) -> None:
    shown: list[Entry] = []
    caller = await Caller.open(log, "scripted")
    socket = asyncio.create_task(followed(log, caller, shown))
    loop = asyncio.get_running_loop()
    async with serving(log, scripted(ENDLESS), "w1", drain_s=0.1):
        await caller.append(pcm16(200))
        await caller.say(CommitInput())
        await caller.hears("response.output_audio.delta", 2)
        began_s = loop.time()
    assert 0.1 <= loop.time() - began_s < 20
    assert (await log.head("call")).state == "waiting"
    async with serving(log, scripted(), "w2"):
        await caller.say(Heartbeat(), CloseSession())
        await caller.ends("session_close")
    await until(lambda: bool(shown) and shown[-1].id.number == len(caller.frames))
    assert [entry.id.number for entry in shown] == list(range(1, len(shown) + 1))
    assert len(caller.heard("response.done")) == len(caller.heard("response.created")) == 1
    await check_log(log, caller.ref, ended=True)
    socket.cancel()


# -- builds that cannot read each other ----------------------------------------------------------------------------


async def unreadable(log: HinderedLog) -> Caller:
    """A session at rest whose only snapshot is of a later build, its beginning gone."""
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.say(*[Heartbeat()] * 5)
    await caller.hears("session.heartbeat_ack", 5)
    await running.die()
    claim, head = running.actor.claim, await log.head("call")
    found = await recover(log, claim, head, 0)
    packed = msgpack.unpackb(pack_snapshot(found.standing, None, found.retention))
    await log.snapshot(claim, found.seq, msgpack.packb({**packed, "v": 2}))
    await log.trim_history(claim, input_before=EntryId(0, 0), output_before=found.seq + 1)
    await log.release(claim)
    return caller


async def test_a_session_that_cannot_be_read_is_given_back_and_a_worker_that_can_read_it_takes_it(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caller = await unreadable(log)
    seq = (await log.head("call")).output.number
    with caplog.at_level(logging.ERROR):
        async with serving(log, scripted(), "old") as old:
            await until(lambda: "given back, its log is another build's" in caplog.text)
            other = await Caller.open(log, "scripted", "other")
            await other.answer()
            assert old.used >= 1
    assert (await log.head("call")).state == "waiting"
    assert (await log.head("call")).output.number == seq
    monkeypatch.setattr("workers.snapshots._Packed.VERSION", 2)
    async with serving(log, scripted(), "new"):
        await caller.say(Heartbeat())
        await until(lambda: log._current["call"].last_seq == seq + 1)
    (answer,) = await all_output(log, caller.ref, after_seq=seq)
    assert msgpack.unpackb(answer.body)["frame"]["type"] == "session.heartbeat_ack"


async def test_giving_back_does_not_spin(log: HinderedLog, caplog: pytest.LogCaptureFixture) -> None:
    await unreadable(log)
    loop = asyncio.get_running_loop()
    async with serving(log, scripted(), "old"):
        await until(lambda: caplog.text.count("given back, its log") == 1)
        began_s = loop.time()
        await until(lambda: caplog.text.count("given back, its log") == 3)
        # It says so before it holds the claim: half a second after the second time.
        assert loop.time() - began_s >= 0.5


async def test_a_session_that_nobody_could_read_for_long_ends_with_a_word_to_its_client(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await unreadable(log)
    shown = (await log.head("call")).output.number
    monkeypatch.setattr(strangers, "PATIENCE_S", 0.0)
    monkeypatch.setattr(strangers.Strangers, "wait_s", lambda self, ref: None)
    async with serving(log, scripted(), "old"):
        await until(lambda: log._current["call"].state == "closed")
    said = [
        msgpack.unpackb(entry.body)["frame"]["type"] for entry in await all_output(log, caller.ref, after_seq=shown)
    ]
    assert said == ["error", "session.closed"]


async def test_last_words_leave_a_log_of_another_build_to_those_who_can_read_it(
    log: HinderedLog, caplog: pytest.LogCaptureFixture
) -> None:
    await unreadable(log)
    claimed = await log.claim("w2", ["scripted"])
    assert claimed is not None
    await last_words.end_with_error(log, claimed[0], 0)
    assert "given back" in caplog.text
    assert (await log.head("call")).state == "waiting"


async def test_last_words_begin_from_a_snapshot_where_the_beginning_is_gone(log: HinderedLog) -> None:
    caller, running = await answering(log, scripted(ENDLESS))
    await running.die()
    claim, head = running.actor.claim, await log.head("call")
    found = await recover(log, claim, head, 0)
    await log.snapshot(claim, found.seq, pack_snapshot(found.standing, None, found.retention))
    await log.trim_history(claim, input_before=EntryId(0, 0), output_before=found.seq + 1)
    await last_words.end_with_error(log, claim, 0)
    said = [
        msgpack.unpackb(entry.body)["frame"]["type"] for entry in await all_output(log, caller.ref, after_seq=found.seq)
    ]
    assert "response.done" in said and said[-1] == "session.closed"


# -- leaks ---------------------------------------------------------------------------------------------------------


async def test_many_sessions_leave_nothing_in_a_worker(log: HinderedLog) -> None:
    """E19, this side: whatever ended is forgotten by the host and by the event loop."""
    async with serving(log, scripted(), slots=8) as host:
        await until(lambda: host.ready)
        before = len(asyncio.all_tasks())
        for number in range(60):
            caller = await Caller.open(log, "scripted", f"call-{number}")
            await caller.say(ClearInput(), CloseSession())
            await caller.ends("session_close")
        await until(lambda: host.used == 0 and len(asyncio.all_tasks()) <= before)
        with pytest.raises(SessionUnknown):
            await caller.say(Heartbeat())
