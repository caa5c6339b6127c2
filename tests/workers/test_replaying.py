"""The worker's half of a replay: nothing happens before it is let happen."""

from __future__ import annotations

import pytest

from duplex_es.log.api import EntryId
from duplex_es.log.memory import MemoryLog
from duplex_es.model import ModelMeasured, StageMetrics
from duplex_es.protocol import CommitInput
from duplex_es.session.lifecycle import GRACE_TIMER, IDLE_TIMER
from tests.support.calls import Caller, pcm16
from workers.replaying import HOST, ReplayHost

pytestmark = pytest.mark.unit



async def opened(log: MemoryLog, **session: object) -> tuple[Caller, ReplayHost]:
    host = HOST(log, "scripted", {"lead_ms": "none"}, lambda: 1_000)
    await host.load()
    caller = await Caller.open(log, "scripted", **session)
    await host.serve("w1")
    await host.settle(EntryId(1, 1))
    return caller, host


async def test_what_the_model_reports_waits_until_it_is_released_and_has_two_orders() -> None:
    log = MemoryLog()
    caller, host = await opened(log)
    await caller.append(pcm16(200), is_speech=True)
    await caller.say(CommitInput(response_create=True))
    await host.settle(EntryId(1, 3))
    before = host.session
    assert before.items and before.items[-1].transcribing
    assert await host.release(False, 1.0)  # What it says itself, before what it has heard.
    assert host.session.items[-1].transcribing and host.session.begun is not None
    assert await host.release(True, 1.0)
    assert not host.session.items[-1].transcribing
    assert not await host.release(True, 0.01)
    await host.close()


async def test_what_the_model_measures_is_told_as_it_was_recorded_and_not_as_it_is_now() -> None:
    log = MemoryLog()
    do = [{"speak": True}, {"measure": {"0": {"vllm_ttft_ms": 9.0}}}, {"audio_ms": 160}, {"finish": True}]
    script = [{"on": "end_turn", "do": do}]
    caller, host = await opened(log, extra_body={"script": script, "return_stage_metrics": True})
    await caller.append(pcm16(200), is_speech=True)
    await caller.say(CommitInput(response_create=True))
    await host.settle(EntryId(1, 3))
    assert await host.release(False, 1.0)
    assert host.session.begun is not None and host.session.begun.measured == {}
    recorded = ModelMeasured(epoch=0, turn=0, stages={"0": StageMetrics(vllm_ttft_ms=80.125)})
    await host.tell(recorded)
    assert host.session.begun.measured["0"].sum.vllm_ttft_ms == 80.125
    assert await host.release(False, 1.0)  # The next thing that it reports is its sound.
    assert host.session.response is not None and host.session.response.samples
    assert host.session.response.measured["0"].sum.vllm_ttft_ms == 80.125
    await host.close()


async def test_a_timer_runs_out_when_it_is_told_to() -> None:
    log = MemoryLog()
    caller, host = await opened(log)
    await host.fire(GRACE_TIMER)
    assert host.session.state == "open"  # Somebody is attached.
    await host.lose_socket(1)
    assert not host.session.attached
    await host.fire(GRACE_TIMER)
    await caller.ends("disconnect_grace_expired")
    await host.settle()
    assert host.has_ended
    await host.close()


async def test_the_next_worker_goes_on_where_the_one_before_it_died() -> None:
    log = MemoryLog()
    caller, host = await opened(log)
    await host.serve("w2")
    await host.settle()
    assert (await log.head(caller.ref.session_id)).fence == 2
    await host.fire(IDLE_TIMER)
    await caller.ends("timeout")
    await host.close()


async def test_let_go_it_is_a_worker_like_any_other() -> None:
    log = MemoryLog()
    caller, host = await opened(log)
    host.let_go()
    await caller.append(pcm16(200), is_speech=True)
    await caller.say(CommitInput(response_create=True))
    await caller.hears("response.done")
    assert host.model_name == "scripted"
    await host.close()


async def test_a_session_of_another_model_is_refused() -> None:
    log = MemoryLog()
    await Caller.open(log, "echo")
    host = HOST(log, "scripted", {}, lambda: 0)
    await host.load()
    with pytest.raises(LookupError, match="not one of scripted"):
        await host.serve("w1")
    await host.close()
