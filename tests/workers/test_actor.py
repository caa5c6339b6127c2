"""One claimed session: write, then act; and a well-formed ending whatever happens to whom."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from duplex_es.log.api import Claim, Record
from duplex_es.log.errors import LogUnavailable, SessionUnknown, TailLost
from duplex_es.log.memory import MemoryLog
from duplex_es.model import (
    CloseModel,
    EndTurn,
    FeedAudio,
    Interrupt,
    Model,
    ModelHeardSpeech,
    ModelListened,
    OpenModel,
)
from duplex_es.protocol import (
    AcknowledgePlayback,
    CancelResponse,
    ClearInput,
    CloseSession,
    CommitInput,
    Heartbeat,
    UpdateSession,
)
from duplex_es.protocol.records import SocketAttached, pack_input
from duplex_es.session import lifecycle, step
from tests.support.calls import (
    Caller,
    HinderedLog,
    SpiedModel,
    all_output,
    check_log,
    frame_type,
    pcm16,
    until,
)
from workers import upkeep
from workers.actor import Actor
from workers.models.echo import EchoModel
from workers.models.scripted import ScriptedModel

pytestmark = pytest.mark.unit

ENDLESS = '[{"on": "end_turn", "transcript": "hi", "do": [{"audio_ms": 320, "text": "Well."}, {"speak": true}]}]'
"""An answer that begins and never ends by itself."""

SLOW = """[{"on": "end_turn", "do": [{"audio_ms": 320, "text": "Well."}, {"wait_ms": 300}, {"audio_ms": 160},
  {"finish": true}]}]"""


def scripted(script: str | None = None, **options: str) -> SpiedModel:
    return SpiedModel(ScriptedModel({"lead_ms": "none", **({"script": script} if script else {}), **options}))


class Running:
    """One actor at work on the next session that waits."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.task = asyncio.create_task(actor.run())

    @classmethod
    async def on(cls, log: MemoryLog, model: Model | SpiedModel, worker: str = "w1", **settings: Any) -> Running:
        claimed = await log.claim(worker, [model.info.name])
        assert claimed is not None
        return cls(Actor(log, *claimed, model, **settings))

    async def ended(self) -> None:
        await asyncio.wait_for(self.task, 30)

    async def die(self) -> None:
        """End at once, as a process does that is killed: nothing is said to the log any more."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
def log() -> HinderedLog:
    return HinderedLog()


async def answering(log: HinderedLog, model: SpiedModel, **settings: Any) -> tuple[Caller, Running]:
    """A call in the middle of an answer that does not end by itself."""
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, model, **settings)
    await caller.append(pcm16(200))
    await caller.say(CommitInput())
    await caller.hears("response.output_audio.delta", 2)
    await until(lambda: running.actor.session.response is not None)
    return caller, running


# -- opening -------------------------------------------------------------------------------------------------------


async def test_an_opening_by_update_is_answered_with_the_session_and_echoed_as_a_frame(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted", instructions="Be kind.")
    running = await Running.on(log, scripted())
    answer = await caller.answer()
    assert answer.session["instructions"] == "Be kind."
    assert answer.session["id"] == "call"
    (updated,) = await caller.hears("session.updated")
    assert updated.session["instructions"] == "Be kind."
    await running.die()


async def test_a_session_that_started_by_itself_shows_no_frame_for_it(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted", updated=False)
    running = await Running.on(log, scripted())
    assert (await caller.answer()).session["model"] == "scripted"
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack")
    assert [frame_type(frame) for frame in caller.frames] == ["session.heartbeat_ack"]
    await running.die()


async def test_settings_that_cannot_be_are_refused_with_their_field_and_end_the_session(log: HinderedLog) -> None:
    model = scripted()
    caller = await Caller.open(log, "scripted", input_audio_format="opus")
    running = await Running.on(log, model)
    error = (await caller.answer()).error
    assert (error.code, error.param) == ("unsupported_audio_format", "audio.input.format")
    await running.ended()
    await caller.ends()
    assert model.asked == []
    assert caller.frames == []


async def test_a_model_that_refuses_the_settings_refuses_the_opening(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted", extra_body={"script": "no script"})
    running = await Running.on(log, scripted())
    error = (await caller.answer()).error
    assert (error.code, error.param) == ("invalid_duplex_runtime_config", "session.extra_body.script")
    await running.ended()
    await caller.ends()


async def test_a_model_that_fails_to_open_refuses_the_opening_without_telling_its_secrets(log: HinderedLog) -> None:
    model = scripted()
    model.opens = RuntimeError("out of memory at 0xdeadbeef")
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, model)
    error = (await caller.answer()).error
    assert error.code == "runtime_open_failed"
    assert "0xdeadbeef" not in error.message
    await running.ended()
    await caller.ends()


async def test_what_is_said_before_the_opening_is_answered_waits_for_it(log: HinderedLog) -> None:
    model = scripted()
    model.opens = RuntimeError("no")
    caller = await Caller.open(log, "scripted")
    await caller.say(Heartbeat(), UpdateSession(session={"instructions": "x"}), Heartbeat())
    running = await Running.on(log, model)
    assert (await caller.answer()).error.code == "runtime_open_failed"
    await running.ended()
    await caller.ends()
    assert [frame_type(frame) for frame in caller.frames] == ["session.updated"]


# -- write, then act -----------------------------------------------------------------------------------------------


async def test_the_model_hears_of_a_decision_only_after_it_is_in_the_log(log: HinderedLog) -> None:
    model = scripted()
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, model)
    await caller.append(pcm16(200))
    await caller.hears("input_audio_buffer.speech_started")
    log.gate.clear()
    await caller.say(CommitInput())
    await until(lambda: log.held == 1)
    await caller.catch_up()
    assert model.requests(EndTurn) == []
    assert caller.heard("input_audio_buffer.committed") == []
    log.gate.set()
    await until(lambda: bool(model.requests(EndTurn)))
    await caller.catch_up()
    assert len(caller.heard("input_audio_buffer.committed")) == 1
    await caller.hears("response.done")
    await running.die()


async def test_nothing_is_shown_before_the_append_returns_even_if_the_actor_dies_meanwhile(log: HinderedLog) -> None:
    model = scripted()
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, model)
    await caller.append(pcm16(200))
    await caller.hears("input_audio_buffer.speech_started")
    log.gate.clear()
    await caller.say(CommitInput(), Heartbeat())
    await until(lambda: log.held == 1)
    await running.die()
    log.gate.set()
    assert model.requests(EndTurn) == []
    await log.release(running.actor.claim)
    running = await Running.on(log, scripted(), "w2")
    await caller.hears("session.heartbeat_ack")
    assert len(caller.heard("input_audio_buffer.committed")) == 1
    await check_log(log, caller.ref)
    await running.die()


async def test_a_fenced_actor_stops_without_a_word_to_anyone(
    log: HinderedLog, caplog: pytest.LogCaptureFixture
) -> None:
    model = scripted()
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, model)
    await caller.append(pcm16(200))
    await caller.hears("input_audio_buffer.speech_started")
    await log.release(running.actor.claim)
    assert await log.claim("w2", ["scripted"]) is not None
    before = await all_output(log, caller.ref)
    await caller.say(CommitInput())
    with caplog.at_level(logging.WARNING):
        await running.ended()
    assert await all_output(log, caller.ref) == before
    assert model.requests(EndTurn) == []
    assert isinstance(model.asked[-1], CloseModel)
    assert caplog.records == []


async def test_inputs_are_decided_in_the_order_they_were_said_however_many_there_are(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    for count in range(200):
        await caller.say(UpdateSession(session={"instructions": str(count)}))
    running = await Running.on(log, scripted())
    updates = await caller.hears("session.updated", 201)
    assert [update.session["instructions"] for update in updates[1:]] == [str(count) for count in range(200)]
    await check_log(log, caller.ref)
    await running.die()


# -- silent facts --------------------------------------------------------------------------------------------------


async def test_silent_facts_are_saved_even_while_the_caller_never_pauses(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CHECKPOINT_AFTER_MS", 20)
    saved: list[bytes] = []
    checkpoint = log.checkpoint

    async def noting(claim: Claim, packed: bytes, *, opening: bytes | None = None) -> None:
        saved.append(packed)
        await checkpoint(claim, packed, opening=opening)

    monkeypatch.setattr(log, "checkpoint", noting)
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.answer()
    async with asyncio.timeout(30):
        while len(saved) < 5:
            await caller.append(pcm16(20, level=0))
            await asyncio.sleep(0)
    running.actor.stop()
    await running.ended()
    clock = running.actor.session.input.clock
    successor = await Running.on(log, scripted(), "w2")
    await until(lambda: successor.actor.session.input.clock == clock)
    await successor.die()


# -- taking over ---------------------------------------------------------------------------------------------------


async def test_an_answer_whose_worker_died_ends_as_failed_and_the_call_goes_on(log: HinderedLog) -> None:
    caller, running = await answering(log, scripted(ENDLESS))
    await running.die()
    shown = len(await caller.catch_up())
    await log.release(running.actor.claim)
    model = scripted(can_rebuild="no")
    successor = await Running.on(log, model, "w2")
    (done,) = await caller.hears("response.done")
    assert done.response.status == "failed"
    assert done.response.status_details.reason == "worker_lost"
    assert len(await all_output(log, caller.ref, after_seq=shown)) > 0
    (opened,) = model.requests(OpenModel)
    assert [(item.role, item.text) for item in opened.history if item.role == "user"] == [("user", "hi")]
    await caller.append(pcm16(200))
    await caller.say(CommitInput())
    await caller.hears("response.done", 2)
    assert caller.frames[-1] is not done
    await caller.say(CloseSession())
    await caller.ends("session_close")
    await successor.ended()
    await check_log(log, caller.ref, ended=True)


@pytest.mark.parametrize("written", range(1, 6))
async def test_a_decision_that_a_dead_worker_left_half_written_is_finished_first(
    log: HinderedLog, written: int
) -> None:
    caller, running = await answering(log, scripted(ENDLESS))
    await asyncio.gather(caller.say(CancelResponse()), _die_after_append(log, running, written=written))
    shown = list(await caller.catch_up())
    successor = await Running.on(log, scripted(), "w2")
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack")
    assert caller.frames[: len(shown)] == shown
    assert [done.response.status for done in caller.heard("response.done")] == ["cancelled"]
    await check_log(log, caller.ref, ended=True)
    await successor.die()


async def test_an_opening_that_a_dead_worker_did_not_get_to_answer_is_answered(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted", instructions="Be kind.")
    await _land_then_die(log, scripted())
    assert len(await all_output(log, caller.ref)) == 1
    assert (await log.head("call")).opening is None
    successor = await Running.on(log, scripted(), "w2")
    assert (await caller.answer()).session["instructions"] == "Be kind."
    await successor.die()


async def test_an_opening_taken_over_by_a_worker_whose_model_fails_is_refused(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    await _land_then_die(log, scripted())
    assert (await log.head("call")).opening is None
    broken = scripted()
    broken.opens = RuntimeError("no")
    successor = await Running.on(log, broken, "w2")
    assert (await caller.answer()).error.code == "runtime_open_failed"
    await successor.ended()
    await caller.ends()


async def test_a_model_that_cannot_be_rebuilt_ends_the_session_with_an_error(log: HinderedLog) -> None:
    caller, running = await answering(log, scripted(ENDLESS))
    await running.die()
    await log.release(running.actor.claim)
    broken = scripted()
    broken.opens = RuntimeError("no")
    successor = await Running.on(log, broken, "w2")
    await caller.ends("runtime_open_failed")
    assert [error.error.code for error in caller.heard("error")] == ["runtime_open_failed"]
    assert caller.heard("response.done")[0].response.status == "failed"
    await successor.ended()
    await check_log(log, caller.ref, ended=True)


async def test_a_session_that_closed_without_being_closed_in_the_log_is_closed_with_its_reason(
    log: HinderedLog,
) -> None:
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.answer()
    await asyncio.gather(caller.say(CloseSession()), _die_after_append(log, running))
    assert (await log.head("call")).state == "waiting"
    model = scripted()
    successor = await Running.on(log, model, "w2")
    await successor.ended()
    await caller.ends("session_close")
    assert log._current["call"].reason == "session_close"
    assert model.asked == []


async def _land_then_die(log: HinderedLog, model: SpiedModel) -> None:
    """A worker whose first append lands and who is gone before it returns; the session waits again."""
    await _die_after_append(log, await Running.on(log, model))


async def _die_after_append(log: HinderedLog, running: Running, *, written: int = 500) -> None:
    """The next append lands, its first ``written`` records do, and its writer dies before it hears of it."""
    append, landed = log.append_output, asyncio.Event()

    async def landing(claim: Claim, first_seq: int, records: list[Record]) -> None:
        await append(claim, first_seq, records[:written])
        landed.set()
        await asyncio.Event().wait()

    log.append_output = landing  # type: ignore[method-assign]
    await asyncio.wait_for(landed.wait(), 30)
    await running.die()
    log.append_output = append  # type: ignore[method-assign]
    await log.release(running.actor.claim)


# -- handing over --------------------------------------------------------------------------------------------------


async def test_a_stopping_worker_hands_a_quiet_session_over_at_once_with_no_seq_lost(log: HinderedLog) -> None:
    model = scripted()
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, model)
    await caller.append(*[pcm16(40, level=0)] * 5)
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack")
    running.actor.stop()
    await running.ended()
    assert (await log.head("call")).state == "waiting"
    assert isinstance(model.asked[-1], CloseModel)
    shown = len(caller.frames)
    successor = await Running.on(log, scripted(), "w2")
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack", 2)
    assert len(caller.frames) == shown + 1
    await check_log(log, caller.ref)
    await successor.die()


async def test_a_stopping_worker_finishes_the_answer_first(log: HinderedLog) -> None:
    model = scripted(
        '[{"on": "end_turn", "do": [{"audio_ms": 320}, {"wait_audio_ms": 900}, {"audio_ms": 160}, {"finish": true}]}]'
    )
    caller, running = await answering(log, model)
    running.actor.stop()
    await asyncio.sleep(0)
    assert (await log.head("call")).state == "claimed"
    await caller.append(*[pcm16(100, level=0)] * 10)
    await running.ended()
    await caller.catch_up()
    assert [done.response.status for done in caller.heard("response.done")] == ["completed"]
    assert (await log.head("call")).state == "waiting"
    await check_log(log, caller.ref, ended=True)


async def test_a_stopping_worker_lets_the_caller_finish_the_sentence_and_answers_it(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.append(pcm16(200))
    await caller.hears("input_audio_buffer.speech_started")
    running.actor.stop()
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack")
    assert (await log.head("call")).state == "claimed"
    await caller.say(CommitInput())
    await running.ended()
    await caller.catch_up()
    assert len(caller.heard("response.done")) == 1
    assert (await log.head("call")).state == "waiting"


async def test_stopping_before_the_first_word_gives_the_session_back_untouched(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    claimed = await log.claim("w1", ["scripted"])
    assert claimed is not None
    actor = Actor(log, *claimed, scripted())
    actor.stop()
    await asyncio.wait_for(actor.run(), 30)
    assert await all_output(log, caller.ref) == []
    successor = await Running.on(log, scripted(), "w2")
    assert (await caller.answer()).session["id"] == "call"
    await successor.die()


# -- timers --------------------------------------------------------------------------------------------------------


async def test_a_client_that_falls_silent_is_timed_out(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted", idle_timeout_s=0.1)
    running = await Running.on(log, scripted())
    await running.ended()
    await caller.ends("timeout")
    assert log._current["call"].reason == "timeout"


async def test_an_answer_in_progress_ends_before_a_timeout_closes_the_session(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted", idle_timeout_s=0.1)
    running = await Running.on(log, scripted(ENDLESS))
    await caller.append(pcm16(100))
    await caller.say(CommitInput())
    await running.ended()
    await caller.ends("timeout")
    await check_log(log, caller.ref, ended=True)
    assert caller.heard("response.done")[0].response.status == "cancelled"


async def test_every_word_of_the_client_starts_the_silence_over(log: HinderedLog) -> None:
    loop = asyncio.get_running_loop()
    caller = await Caller.open(log, "scripted", idle_timeout_s=1.0)
    running = await Running.on(log, scripted())
    await caller.answer()
    began = loop.time()
    while loop.time() < began + 1.5:
        await caller.say(Heartbeat())
        said = loop.time()
        await asyncio.sleep(0.01)
    assert not running.task.done()
    await running.ended()
    assert loop.time() - said >= 0.99
    await caller.ends("timeout")


async def test_a_session_that_only_hears_reports_of_playback_expires_as_idle(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "IDLE_TTL_LATER_MS", 0)
    caller = await Caller.open(log, "scripted", idle_timeout_s=60)
    running = await Running.on(log, scripted(), idle_ttl_s=0.3)
    await caller.answer()
    while not running.task.done():
        with contextlib.suppress(SessionUnknown):
            await caller.say(AcknowledgePlayback(item_id="nobody", played_ms=1, committed_ms=1))
        await asyncio.sleep(0.01)
    await running.ended()
    await caller.ends("idle_ttl_expired")
    assert log._current["call"].reason == "idle_ttl_expired"


async def test_what_the_client_does_and_what_the_model_says_keeps_a_session_from_expiring(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "IDLE_TTL_LATER_MS", 0)
    loop = asyncio.get_running_loop()
    model = scripted()
    caller = await Caller.open(log, "scripted", idle_timeout_s=60)
    running = await Running.on(log, model, idle_ttl_s=1.0)
    await caller.answer()
    began_s = loop.time()
    while loop.time() < began_s + 1.5:
        await caller.say(Heartbeat())
        await asyncio.sleep(0.01)
    assert model.emit is not None
    while loop.time() < began_s + 3.0:
        model.emit(ModelListened(epoch=0))
        await asyncio.sleep(0.01)
    assert not running.task.done()
    await running.ended()
    await caller.ends("idle_ttl_expired")


async def test_a_session_whose_client_is_away_goes_on_with_its_answer(log: HinderedLog) -> None:
    caller, running = await answering(log, scripted(SLOW))
    await caller.leave()
    (done,) = await caller.hears("response.done")
    assert done.response.status == "completed"
    assert not running.actor.session.attached
    await running.die()


async def test_a_client_that_does_not_come_back_loses_the_session_after_the_grace(log: HinderedLog) -> None:
    caller, running = await answering(log, scripted(ENDLESS), disconnect_grace_s=0.05)
    await caller.leave()
    await running.ended()
    await caller.ends("disconnect_grace_expired")
    await check_log(log, caller.ref, ended=True)


async def test_a_client_that_comes_back_within_the_grace_keeps_the_session(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted", idle_timeout_s=60)
    running = await Running.on(log, scripted(), disconnect_grace_s=1.0)
    await caller.answer()
    await caller.leave()
    await until(lambda: not running.actor.session.attached)
    said = SocketAttached(generation=2, gateway="g2")
    attachment, _ = await log.attach(
        caller.ref, presented_digest=b"1", next_digest=b"2", gateway="g2", record=pack_input(said, 0).body
    )
    await until(lambda: running.actor.session.attached)
    await asyncio.sleep(1.1)
    back = Caller(log, attachment)
    await back.say(Heartbeat())
    await back.hears("session.heartbeat_ack")
    await running.die()


# -- what goes wrong -----------------------------------------------------------------------------------------------


async def test_a_rule_that_raises_ends_its_session_with_an_error_and_is_logged_with_its_place(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(session: object, said: object, now_ms: int) -> tuple[()]:
        raise ZeroDivisionError("a rule broke")

    monkeypatch.setitem(step.DECIDE, ClearInput, broken)
    model = scripted(ENDLESS)
    caller, running = await answering(log, model)
    await caller.say(Heartbeat(), ClearInput(), Heartbeat())
    await running.ended()
    await caller.ends("internal_error")
    assert [error.error.code for error in caller.heard("error")] == ["internal_error"]
    assert [done.response.status for done in caller.heard("response.done")] == ["failed"]
    assert frame_type(caller.frames[-1]) == "session.closed"
    assert "ZeroDivisionError" in caplog.text
    assert "session=call claim=1 seq=" in caplog.text
    assert isinstance(model.asked[-1], CloseModel)
    await check_log(log, caller.ref, ended=True)


async def test_a_rule_that_raises_at_the_opening_refuses_it(log: HinderedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> tuple[()]:
        raise ZeroDivisionError("a rule broke")

    monkeypatch.setattr(lifecycle, "opening_settings", broken)
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    assert (await caller.answer()).error.code == "internal_error"
    await running.ended()
    await caller.ends()


async def test_a_model_that_raises_ends_its_session_with_an_error(
    log: HinderedLog, caplog: pytest.LogCaptureFixture
) -> None:
    model = scripted(ENDLESS)
    caller, running = await answering(log, model)
    model.breaks_at = Interrupt
    await caller.say(CancelResponse())
    await running.ended()
    await caller.ends("internal_error")
    assert "the model broke" in caplog.text
    assert [done.response.status for done in caller.heard("response.done")] == ["cancelled"]
    await check_log(log, caller.ref, ended=True)


async def test_a_model_that_raises_when_it_is_closed_does_not_keep_the_session_open(log: HinderedLog) -> None:
    model = scripted()
    model.breaks_at = CloseModel
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, model)
    await caller.say(CloseSession())
    await running.ended()
    await caller.ends("session_close")


async def test_a_log_that_cannot_be_folded_still_gives_its_client_an_end(
    log: HinderedLog, caplog: pytest.LogCaptureFixture
) -> None:
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.say(Heartbeat(), Heartbeat())
    await caller.hears("session.heartbeat_ack", 2)
    await running.die()
    session = log._current["call"]
    session.output = [entry for entry in session.output if entry.id.number != 2]
    await log.release(running.actor.claim)
    successor = await Running.on(log, scripted(), "w2")
    await successor.ended()
    await caller.ends()
    assert "seq 2 is missing" in caplog.text
    after = [entry.id.number for entry in await all_output(log, caller.ref, after_seq=3)]
    assert after == [4, 5]
    closing = Caller(log, caller.attachment)
    closing.frames = [*caller.frames[:3]]
    assert [frame_type(frame) for frame in (await closing.catch_up())[3:]] == ["error", "session.closed"]


async def test_a_log_that_lost_its_tail_is_closed_and_no_seq_is_used_again(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.answer()
    before = await all_output(log, caller.ref)
    log.refusal = TailLost(0)
    await caller.say(Heartbeat())
    await running.ended()
    assert await all_output(log, caller.ref) == before
    assert (await log.head("call")).state == "closed"


async def test_an_unreachable_log_ends_the_actor_and_the_next_owner_need_not_wait_for_the_lease(
    log: HinderedLog, caplog: pytest.LogCaptureFixture
) -> None:
    model = scripted(ENDLESS)
    caller, running = await answering(log, model)
    log.refusal = LogUnavailable("the store does not answer")
    await caller.say(Heartbeat())
    await running.ended()
    assert "log unavailable" in caplog.text
    assert isinstance(model.asked[-1], CloseModel)
    log.refusal = None
    assert (await log.head("call")).state == "waiting"
    successor = await Running.on(log, scripted(), "w2")
    await caller.hears("session.heartbeat_ack")
    await check_log(log, caller.ref, ended=True)
    await successor.die()


async def test_an_input_that_cannot_be_read_is_answered_with_an_error_and_the_call_goes_on(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    await log.append_input(caller.attachment, 2, [Record(b"\xc1 no record")])
    caller._index = 2
    running = await Running.on(log, scripted())
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack")
    (error,) = caller.heard("error")
    assert error.error.code == "internal_error"
    await running.die()


# -- sound ---------------------------------------------------------------------------------------------------------


async def test_the_model_is_fed_every_sample_in_order_with_the_clock_after_it(log: HinderedLog) -> None:
    model = scripted()
    caller = await Caller.open(log, "scripted", sample_rate_hz=16_000)
    running = await Running.on(log, model)
    sound = pcm16(1_000)
    await caller.append(*[sound[at : at + 640] for at in range(0, len(sound), 640)])
    await until(lambda: len(model.requests(FeedAudio)) == 50)
    fed = model.requests(FeedAudio)
    assert sum(len(request.pcm) for request in fed) == 16_000 * 4
    assert [request.end_ms for request in fed] == list(range(20, 1_001, 20))
    await running.die()


async def test_a_committed_turn_reaches_the_model_whole_before_it_ends(log: HinderedLog) -> None:
    model = scripted()
    caller = await Caller.open(log, "scripted", sample_rate_hz=8_000, input_audio_format="g711_ulaw")
    running = await Running.on(log, model)
    await caller.append(*[bytes([0x80, 0x00] * 80)] * 25)
    await caller.say(CommitInput())
    await until(lambda: bool(model.requests(EndTurn)))
    until_end = model.asked[: model.asked.index(model.requests(EndTurn)[0])]
    fed = [request for request in until_end if isinstance(request, FeedAudio)]
    assert sum(len(request.pcm) // 4 for request in fed) == 8_000
    assert fed[-1].end_ms == 500
    await running.die()


async def test_sound_that_cannot_be_understood_is_refused_and_never_fed(log: HinderedLog) -> None:
    model = scripted()
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, model)
    await caller.append(b"\x01\x02\x03")
    (error,) = await caller.hears("error")
    assert error.error.code == "bad_audio"
    assert model.requests(FeedAudio) == []
    await running.die()


async def test_a_silent_append_is_not_taken_for_speech(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.append(pcm16(200, level=0))
    await caller.say(CommitInput())
    await caller.hears("response.listen")
    assert caller.heard("input_audio_buffer.speech_started") == []
    assert caller.heard("conversation.item.created") == []
    await running.die()


async def test_what_the_model_says_after_the_end_is_ignored(log: HinderedLog) -> None:
    model = SpiedModel(EchoModel({"lead_ms": "none"}))
    caller = await Caller.open(log, "echo")
    running = await Running.on(log, model)
    await caller.say(CloseSession())
    await running.ended()
    await caller.ends("session_close")
    assert model.emit is not None
    model.emit(ModelHeardSpeech(epoch=0, start_ms=0))
    assert await all_output(log, caller.ref, after_seq=len(caller.frames)) == []
