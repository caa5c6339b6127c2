"""The end of a session that its worker cannot serve: told to the client where that is possible, and final."""

from __future__ import annotations

import logging

import pytest

from duplex_es.log.api import Claim
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import CommitInput
from duplex_es.protocol.records import unpack_opening
from tests.support.calls import Caller, HinderedLog, SpiedModel, all_output, check_log, frame_type, pcm16
from tests.workers.test_actor import ENDLESS, Running, scripted
from workers.last_words import CODE, end_with_error

pytestmark = pytest.mark.unit


@pytest.fixture
def log() -> HinderedLog:
    return HinderedLog()


async def claimed(log: MemoryLog, model: SpiedModel) -> tuple[Caller, Claim]:
    """A session in the middle of an answer whose worker died, and its claim."""
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, model)
    await caller.append(pcm16(200))
    await caller.say(CommitInput())
    await caller.hears("response.output_audio.delta", 2)
    await running.die()
    return caller, running.actor.claim


async def test_the_client_hears_of_the_error_and_of_the_answers_end_before_the_closing_frame(log: HinderedLog) -> None:
    caller, claim = await claimed(log, scripted(ENDLESS))
    shown = len(caller.frames)
    await end_with_error(log, claim, 0)
    await caller.ends()
    kinds = [frame_type(frame) for frame in caller.frames[shown:]]
    assert {"response.done", "error"} < set(kinds[:-1])
    assert kinds[-1] == "session.closed"
    assert caller.heard("error")[0].error.code == CODE
    await check_log(log, caller.ref, ended=True)


async def test_an_unanswered_opening_is_refused(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    first = await log.claim("w1", ["scripted"])
    assert first is not None
    await end_with_error(log, first[0], 0)
    head = await log.head("call")
    assert head.opening is not None and head.state == "closed"
    assert unpack_opening(head.opening).error.code == CODE
    assert await all_output(log, caller.ref) == []


async def test_without_words_the_log_is_only_closed(log: HinderedLog) -> None:
    caller, claim = await claimed(log, scripted(ENDLESS))
    before = await all_output(log, caller.ref)
    await end_with_error(log, claim, 0, words=False)
    assert await all_output(log, caller.ref) == before
    assert (await log.head("call")).state == "closed"


async def test_a_lost_claim_is_left_to_its_new_owner(log: HinderedLog) -> None:
    caller, claim = await claimed(log, scripted(ENDLESS))
    await log.release(claim)
    assert await log.claim("w2", ["scripted"]) is not None
    before = await all_output(log, caller.ref)
    await end_with_error(log, claim, 0)
    assert await all_output(log, caller.ref) == before
    assert (await log.head("call")).state == "claimed"


async def test_an_unreachable_log_is_reported_and_nothing_raised(
    log: HinderedLog, caplog: pytest.LogCaptureFixture
) -> None:
    _, claim = await claimed(log, scripted(ENDLESS))
    log.away = True
    with caplog.at_level(logging.ERROR):
        await end_with_error(log, claim, 0)
    assert "session=call claim=1 could not be ended" in caplog.text
    log.away = False
    assert (await log.head("call")).state == "claimed"


async def test_a_session_that_is_over_gets_no_second_end(log: HinderedLog) -> None:
    caller, claim = await claimed(log, scripted(ENDLESS))
    await end_with_error(log, claim, 0)
    before = await all_output(log, caller.ref)
    await end_with_error(log, claim, 0)
    assert await all_output(log, caller.ref) == before
