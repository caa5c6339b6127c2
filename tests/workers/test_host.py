"""The worker host: slots, leases, readiness, and one bad session that harms nobody else."""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec
import pytest

from duplex_es.log.errors import ConfigurationError, SessionUnknown
from duplex_es.log.settings import LogSettings
from duplex_es.model import CloseModel, ModelInfo
from duplex_es.protocol import ClearInput, CloseSession, CommitInput, Heartbeat
from duplex_es.session import step
from tests.support.calls import (
    Caller,
    HinderedLog,
    SpiedModel,
    all_output,
    check_log,
    pcm16,
    serving,
    until,
)
from tests.workers.test_actor import ENDLESS, scripted
from workers import host as host_module
from workers.host import Host, slots_of
from workers.models.echo import EchoModel

pytestmark = pytest.mark.unit


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def log() -> HinderedLog:
    return HinderedLog()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker waits for in seconds, it waits for in hundredths here."""
    monkeypatch.setattr(host_module, "RENEW_EVERY_S", 0.02)
    monkeypatch.setattr(host_module, "WAIT_S", 0.02)
    monkeypatch.setattr(host_module, "RETRY_S", 0.02)


async def test_a_host_serves_whole_calls_and_frees_the_slot_after_each(log: HinderedLog) -> None:
    async with serving(log, EchoModel({"lead_ms": "none"}), slots=1) as host:
        for number in range(3):
            caller = await Caller.open(log, "echo", f"call-{number}")
            await caller.append(pcm16(300), *[pcm16(100, level=0)] * 8)
            await caller.hears("response.done")
            assert host.used == 1
            await caller.say(CloseSession())
            await caller.ends("session_close")
            await check_log(log, caller.ref, ended=True)
            await until(lambda: host.used == 0)


async def test_no_more_sessions_are_claimed_than_there_are_slots(log: HinderedLog) -> None:
    async with serving(log, scripted(), slots=2) as host:
        callers = [await Caller.open(log, "scripted", f"call-{number}") for number in range(3)]
        for caller in callers[:2]:
            await caller.answer()
        await until(lambda: host.used == 2)
        for _ in range(5):
            await callers[0].say(Heartbeat())
        await callers[0].hears("session.heartbeat_ack", 5)
        assert (await log.head("call-2")).state == "waiting"
        await callers[0].say(CloseSession())
        assert (await callers[2].answer()).session["id"] == "call-2"
        assert host.used == 2


async def test_sessions_of_other_models_are_left_waiting(log: HinderedLog) -> None:
    async with serving(log, scripted()):
        other = await Caller.open(log, "cascade", "other")
        own = await Caller.open(log, "scripted", "own")
        await own.answer()
        assert (await log.head("other")).state == "waiting"
        assert await all_output(log, other.ref) == []


async def test_two_hosts_share_the_sessions_and_each_has_one_owner(log: HinderedLog) -> None:
    async with serving(log, scripted(), "w1", slots=3) as one, serving(log, scripted(), "w2", slots=3) as two:
        callers = [await Caller.open(log, "scripted", f"call-{number}") for number in range(6)]
        for caller in callers:
            await caller.answer()
        assert (one.used, two.used) == (3, 3)
        heads = [await log.head(caller.ref.session_id) for caller in callers]
        assert {head.fence for head in heads} == {1}


# -- readiness and the log -----------------------------------------------------------------------------------------


async def test_a_host_is_ready_once_the_log_answers_and_says_so_to_the_fleet(log: HinderedLog) -> None:
    host = Host(log, scripted(), worker="w1", slots=3)
    assert (host.ready, host.reason) == (False, "starting")
    task = asyncio.create_task(host.run())
    await until(lambda: host.ready)
    assert host.reason == ""
    (card,) = await log.fleet()
    assert (card.worker, card.slots, card.used, list(card.models)) == ("w1", 3, 0, ["scripted"])
    host.stop()
    assert (host.ready, host.reason) == (False, "stopping")
    await asyncio.wait_for(task, 30)
    assert await log.fleet() == []


async def test_a_log_that_is_away_at_the_start_is_waited_for(log: HinderedLog) -> None:
    log.away = True
    async with serving(log, scripted()) as host:
        await until(lambda: host.reason.startswith("log unavailable"))
        assert not host.ready
        log.away = False
        await until(lambda: host.ready)
        assert (await (await Caller.open(log, "scripted")).answer()).session["id"] == "call"


@pytest.mark.parametrize("slots", [1, 2])
async def test_while_the_log_is_away_a_host_is_not_ready_and_says_why_and_then_is_again(
    log: HinderedLog, slots: int
) -> None:
    async with serving(log, scripted(), slots=slots) as host:
        caller = await Caller.open(log, "scripted")
        await caller.answer()
        await until(lambda: host.ready and host.used == 1)
        log.away = True
        await until(lambda: not host.ready)
        assert "the store does not answer" in host.reason
        log.away = False
        await until(lambda: host.ready)
        assert host.reason == ""
        await caller.say(Heartbeat())
        await caller.hears("session.heartbeat_ack")


async def test_an_outage_that_costs_a_session_does_not_cost_the_host(log: HinderedLog) -> None:
    clock = Clock()
    log = HinderedLog(LogSettings(lease_s=10), clock)
    async with serving(log, scripted()) as host:
        caller = await Caller.open(log, "scripted")
        await caller.answer()
        log.away = True
        await caller.say(Heartbeat())
        await until(lambda: host.used == 0)
        log.away = False
        clock.now_s += 11
        await caller.hears("session.heartbeat_ack")
        assert (await log.head("call")).fence == 2
        await check_log(log, caller.ref)


async def test_a_log_that_is_not_fit_ends_the_host(log: HinderedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unfit() -> None:
        raise ConfigurationError("maxmemory-policy is allkeys-lru")

    monkeypatch.setattr(log, "connect", unfit)
    with pytest.raises(ConfigurationError):
        await Host(log, scripted(), worker="w1", slots=1).run()


async def test_one_renewal_that_fails_in_an_unknown_way_is_not_the_last(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    renew, failures = log.renew, iter([RuntimeError("what is this")])

    async def failing_once(*arguments):  # type: ignore[no-untyped-def]
        for failure in failures:
            raise failure
        return await renew(*arguments)

    monkeypatch.setattr(log, "renew", failing_once)
    async with serving(log, scripted()) as host:
        await until(lambda: "what is this" in caplog.text)
        await until(lambda: host.ready)


# -- leases --------------------------------------------------------------------------------------------------------


async def test_claims_are_renewed_for_as_long_as_their_host_lives() -> None:
    clock = Clock()
    log = HinderedLog(LogSettings(lease_s=10), clock)
    async with serving(log, scripted()):
        caller = await Caller.open(log, "scripted")
        await caller.answer()
        session = log._current["call"]
        for _ in range(5):
            clock.now_s += 8
            await until(lambda: session.claimable_from_s > clock.now_s + 9)
        assert session.fence == 1


async def test_the_sessions_of_a_dead_host_are_taken_over_when_its_lease_runs_out() -> None:
    clock = Clock()
    log = HinderedLog(LogSettings(lease_s=10), clock)
    dead = Host(log, scripted(ENDLESS), worker="w1", slots=2)
    task = asyncio.create_task(dead.run())
    caller = await Caller.open(log, "scripted")
    await caller.append(pcm16(200))
    await caller.say(CommitInput())
    await caller.hears("response.output_audio.delta", 2)
    actors = [actor for _, actor in dead._actors.values()]
    for victim in [task, *actors]:
        victim.cancel()
    await asyncio.gather(task, *actors, return_exceptions=True)
    async with serving(log, scripted(can_rebuild="no"), "w2"):
        await caller.say(Heartbeat())
        assert (await log.head("call")).fence == 1
        clock.now_s += 11
        await caller.hears("session.heartbeat_ack")
        (done,) = caller.heard("response.done")
        assert (done.response.status, done.response.status_details.reason) == ("failed", "worker_lost")
        assert (await log.head("call")).fence == 2
        await caller.say(CloseSession())
        await caller.ends("session_close")
    await check_log(log, caller.ref, ended=True)


async def test_a_claim_that_was_lost_meanwhile_ends_its_actor_at_once(log: HinderedLog) -> None:
    model = scripted(ENDLESS)
    async with serving(log, model) as host:
        caller = await Caller.open(log, "scripted")
        await caller.answer()
        (claim,) = host._actors
        await log.release(claim)
        stolen = await log.claim("thief", ["scripted"])
        assert stolen is not None
        await until(lambda: host.used == 0)
        assert isinstance(model.asked[-1], CloseModel)
        assert (await log.head("call")).worker == "thief"


# -- stopping ------------------------------------------------------------------------------------------------------


async def test_a_stopped_host_hands_its_sessions_to_the_next_with_no_seq_missing(log: HinderedLog) -> None:
    async with serving(log, scripted(), "w1") as host:
        callers = [await Caller.open(log, "scripted", f"call-{number}") for number in range(3)]
        for caller in callers:
            await caller.say(Heartbeat())
            await caller.hears("session.heartbeat_ack")
        await until(lambda: host.used == 3)
    assert {(await log.head(caller.ref.session_id)).state for caller in callers} == {"waiting"}
    async with serving(log, scripted(), "w2"):
        for caller in callers:
            await caller.append(pcm16(200))
            await caller.say(CommitInput())
            await caller.hears("response.done")
            await check_log(log, caller.ref, ended=True)


async def test_a_session_that_finds_no_boundary_in_time_is_let_go_for_others_to_take(
    log: HinderedLog, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(log, scripted(ENDLESS), "w1", drain_s=0.05):
        caller = await Caller.open(log, "scripted")
        await caller.append(pcm16(200))
        await caller.say(CommitInput())
        await caller.hears("response.output_audio.delta", 2)
    assert "let go in the middle of a turn" in caplog.text
    assert (await log.head("call")).state == "waiting"
    async with serving(log, scripted(can_rebuild="no"), "w2"):
        (done,) = await caller.hears("response.done")
        assert done.response.status_details.reason == "worker_lost"


async def test_an_answer_that_is_let_go_in_the_middle_goes_on_in_the_next_host(log: HinderedLog) -> None:
    said = '[{"on": "end_turn", "do": [{"audio_ms": 2700, "text": "One two three."}, {"finish": true}]}]'
    paced = {"lead_ms": "300", "chunk_ms": "300"}  # so that most of it is still to come, also on a busy machine
    async with serving(log, scripted(said, **paced), "w1", drain_s=0.05):
        caller = await Caller.open(log, "scripted")
        await caller.append(pcm16(200))
        await caller.say(CommitInput())
        await caller.hears("response.output_audio.delta", 2)
    assert caller.heard("response.done") == []
    async with serving(log, scripted(said, **paced), "w2"):
        (done,) = await caller.hears("response.done")
    assert done.response.status == "completed"
    deltas = caller.heard("response.output_audio.delta")
    assert [len(frame.delta) for frame in deltas] == [14_400] * 9
    assert deltas[-1].metadata.playback.generated_ms == 2_700
    await caller.catch_up()
    await check_log(log, caller.ref, ended=True)


async def test_a_draining_host_still_serves_what_it_has_and_takes_nothing_new(log: HinderedLog) -> None:
    async with serving(log, scripted(ENDLESS), drain_s=10.0) as host:
        caller = await Caller.open(log, "scripted")
        await caller.append(pcm16(200))
        await caller.say(CommitInput())
        await caller.hears("response.output_audio.delta", 2)
        host.stop()
        await Caller.open(log, "scripted", "late")
        await caller.say(Heartbeat())
        await caller.hears("session.heartbeat_ack")
        assert (await log.head("late")).state == "waiting"
        await until(lambda: log._cards["w1"][1].slots == 0)
        await caller.say(CloseSession())
        await caller.ends("session_close")


async def test_stopping_an_idle_host_takes_no_time(log: HinderedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "WAIT_S", 30.0)
    host = Host(log, scripted(), worker="w1", slots=1)
    task = asyncio.create_task(host.run())
    await until(lambda: host.ready)
    began = time.monotonic()
    host.stop()
    await asyncio.wait_for(task, 30)
    assert time.monotonic() - began < 20


async def test_a_full_host_stops_too(log: HinderedLog) -> None:
    async with serving(log, scripted(), slots=1):
        await (await Caller.open(log, "scripted")).answer()
    assert (await log.head("call")).state == "waiting"


# -- one bad session -----------------------------------------------------------------------------------------------


async def test_one_session_that_fails_leaves_the_others_untouched(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> tuple[()]:
        raise ZeroDivisionError("a rule broke")

    monkeypatch.setitem(step.DECIDE, ClearInput, broken)
    async with serving(log, scripted()) as host:
        good, bad = await Caller.open(log, "scripted", "good"), await Caller.open(log, "scripted", "bad")
        await good.append(pcm16(200))
        await bad.answer()
        await bad.say(ClearInput())
        await bad.ends("internal_error")
        await good.say(CommitInput())
        await good.hears("response.done")
        await check_log(log, good.ref, ended=True)
        await check_log(log, bad.ref, ended=True)
        await until(lambda: host.used == 1)
        with pytest.raises(SessionUnknown):
            await bad.say(Heartbeat())


async def test_a_failed_session_is_not_claimed_again(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> tuple[()]:
        raise ZeroDivisionError("a rule broke")

    monkeypatch.setitem(step.DECIDE, ClearInput, broken)
    async with serving(log, scripted()):
        bad = await Caller.open(log, "scripted", "bad")
        with caplog.at_level(logging.ERROR):
            await bad.say(ClearInput())
            await bad.ends("internal_error")
        after = await Caller.open(log, "scripted", "after")
        await after.answer()
        assert (await log.head("bad")).fence == 1
    assert len([record for record in caplog.records if "failed" in record.message]) == 1


async def test_the_card_describes_the_model_well_enough_to_open_sessions_by_it(log: HinderedLog) -> None:
    model = SpiedModel(EchoModel({}))
    async with serving(log, model):
        await until(lambda: bool(log._cards))
        (card,) = await log.fleet()
        assert msgspec.msgpack.decode(card.models["echo"], type=ModelInfo) == model.info


async def test_the_card_shows_at_once_that_a_slot_was_taken_and_that_it_is_free_again(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "RENEW_EVERY_S", 600.0)
    async with serving(log, scripted(), slots=3) as host:
        await until(lambda: host.ready)
        caller = await Caller.open(log, "scripted")
        await caller.answer()
        await until(lambda: [card.used for _, card in log._cards.values()] == [1])
        await caller.say(CloseSession())
        await caller.ends("session_close")
        await until(lambda: [card.used for _, card in log._cards.values()] == [0])


async def test_a_session_whose_gateway_died_without_a_goodbye_is_waited_for_and_then_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_module, "LOOK_EVERY_S", 0.02)
    clock = Clock()
    log = HinderedLog(LogSettings(lease_s=10), clock)
    async with serving(log, scripted(), slots=2, disconnect_grace_s=0.05) as host:
        lost, held = await Caller.open(log, "scripted", "lost"), await Caller.open(log, "scripted", "held")
        await asyncio.gather(lost.answer(), held.answer())
        for _ in range(3):
            clock.now_s += 4
            assert await log.renew([held.attachment], []) == []
            await until(lambda: host.used <= 2)
        await lost.ends("disconnect_grace_expired")
        await held.say(Heartbeat())
        await held.hears("session.heartbeat_ack")
        await check_log(log, lost.ref, ended=True)


@pytest.mark.parametrize(("most", "capacity", "slots"), [(8, None, 8), (8, 2, 2), (2, 8, 2)])
def test_a_worker_takes_no_more_sessions_than_its_model_has_room_for(
    most: int, capacity: int | None, slots: int
) -> None:
    model = EchoModel({})
    assert slots_of(model, most) == most
    model.capacity = capacity  # type: ignore[attr-defined]
    assert slots_of(model, most) == slots
