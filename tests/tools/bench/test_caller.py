"""One caller against a server of ours: what it says, and what it takes down."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.tools.bench.caller import Caller
from duplex_es.tools.bench.plan import BenchPlan
from duplex_es.tools.bench.speech import babble
from tests.support.voice_server import VoiceServer, voice_server

pytestmark = pytest.mark.unit


QUESTION_MS = 1_200
"""In six pieces: long enough that a busy machine has opened the session, and been answered, well before the next."""


def plan(server: VoiceServer, **more: object) -> BenchPlan:
    settings: dict[str, object] = {"pause_ms": 0, "answer_timeout_s": 30.0, "chunk_ms": QUESTION_MS // 6, **more}
    return BenchPlan((server.url,), "m", babble(QUESTION_MS), **settings)  # type: ignore[arg-type]


async def call(caller: Caller, seconds: float = 0.0) -> None:
    await caller.run(asyncio.get_running_loop().time() + seconds)


async def test_a_question_is_asked_committed_answered_and_acknowledged() -> None:
    async with voice_server() as server:
        caller = Caller(plan(server), 0)
        await call(caller, QUESTION_MS / 1000)
    take = caller.take
    assert (take.error, take.unanswered, take.refusals) == (None, 0, [])
    (answer,) = take.answers
    assert answer.status == "completed"
    assert answer.ttfp_ms is not None and answer.ttfp_ms >= 0
    assert answer.audio_duration_ms == pytest.approx(200)
    assert len(server.heard("input_audio_buffer.append")) == 6
    (acknowledged,) = server.heard("playback.ack")
    assert acknowledged["played_ms"] == 200
    assert len(take.committed_unix_ms) == 1
    assert take.sent_bytes > 0 and take.received_bytes > 0


async def test_a_refused_session_is_noted_by_its_code() -> None:
    async with voice_server() as server:
        server.refusal = "duplex_session_busy"
        caller = Caller(plan(server), 0)
        await call(caller, 1)
    assert caller.take.error == "duplex_session_busy"
    assert caller.take.opening_ms is None


async def test_a_question_without_an_answer_is_counted() -> None:
    async with voice_server() as server:  # it answers a session's first question only
        caller = Caller(plan(server, answer_timeout_s=1.0), 0)
        await call(caller, 2 * QUESTION_MS / 1000)
    assert caller.take.unanswered == 1
    assert len(caller.take.answers) == 1


async def test_callers_spread_over_the_gateways() -> None:
    async with voice_server() as first, voice_server() as second:
        both = BenchPlan((first.url, second.url), "m", babble(80), pause_ms=0, chunk_ms=40)
        await asyncio.gather(*(call(Caller(both, number), 0.05) for number in range(4)))
        assert (len(first.sessions), len(second.sessions)) == (2, 2)


async def test_a_caller_of_an_endless_model_waits_for_nothing_and_keeps_what_was_said_so_far() -> None:
    async with voice_server() as server:
        server.ends = False
        caller = Caller(plan(server, continuous=True, pause_ms=300), 0)
        await call(caller, 4.0)
    take = caller.take
    assert (take.error, take.unanswered) == (None, 0)
    (answer,) = take.answers
    assert (answer.status, answer.audio_duration_ms) == ("in_progress", pytest.approx(200))
    assert not server.heard("input_audio_buffer.commit")
    assert server.heard("playback.ack")
