"""Which server begins the next session, and what its refusals mean."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from duplex_es.protocol import ResumeSession, UpdateSession
from tests.support.realtime_server import error, session_created, session_resumed
from workers.models.bridge.line import LineLost
from workers.models.bridge.servers import NoServer, Refused, Servers, SessionGone, hang_up

pytestmark = pytest.mark.unit

UPDATE = UpdateSession(session={})
RESUME = ResumeSession(session_id="sess_1", incarnation=0, resume_token="rt_1", last_received_server_event_seq=3)
BUSY = {"type": "error", "error": "full", "code": "duplex_session_busy"}


@asynccontextmanager
async def answering(answer: Callable[[], dict[str, Any]]) -> AsyncIterator[str]:
    async def talk(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(json.dumps(answer()))
        await socket.wait_closed()

    async with serve(talk, "127.0.0.1", 0) as running:
        yield f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}/v1/realtime"


def servers(*urls: str, most: int | None = None) -> Servers:
    return Servers(urls, model=None, key=None, most=most, open_timeout_s=20.0)


async def test_the_least_busy_server_begins_the_next_session() -> None:
    async with answering(session_created) as one, answering(session_created) as other:
        there = servers(one, other)
        begun = [await there.begin(UPDATE) for _ in range(2)]
        assert {each.url for each in begun} == {one, other}
        assert begun[0].created.resume_token == "rt_1"
        for each in begun:
            await each.line.close()


async def test_a_busy_server_is_passed_over_and_all_busy_is_said() -> None:
    async with answering(lambda: BUSY) as busy, answering(session_created) as free:
        there = servers(busy, free)
        begun = await there.begin(UPDATE)
        assert (begun.url, there.running(busy), there.running(free)) == (free, 0, 1)
        await begun.line.close()
        with pytest.raises(NoServer) as none:
            await servers(busy).begin(UPDATE)
    assert none.value.busy


async def test_as_many_sessions_as_allowed_and_a_place_is_free_again() -> None:
    async with answering(session_created) as url:
        there = servers(url, most=1)
        begun = await there.begin(UPDATE)
        with pytest.raises(NoServer) as none:
            await there.begin(UPDATE)
        assert none.value.busy
        there.left(url)
        again = await there.begin(UPDATE)
        for each in (begun, again):
            await each.line.close()


async def test_settings_that_a_server_refuses_are_refused_with_its_words() -> None:
    async with answering(lambda: error("ref_audio_required", param="ref_audio")) as url:
        with pytest.raises(Refused) as refused:
            await servers(url).begin(UPDATE)
    assert (refused.value.code, refused.value.param) == ("ref_audio_required", "ref_audio")


async def test_nobody_there_is_not_busy() -> None:
    with pytest.raises(NoServer) as none:
        await servers("ws://127.0.0.1:9").begin(UPDATE)
    assert not none.value.busy
    assert await servers("ws://127.0.0.1:9").probe(UPDATE) is None


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async with answering(lambda: {"type": "vendor.news"}) as url:
        with pytest.raises(NoServer, match="did not begin"):
            await Servers((url,), model=None, key=None, most=None, open_timeout_s=0.2).begin(UPDATE)


async def test_a_session_is_taken_up() -> None:
    async with answering(lambda: session_resumed(attachment_generation=2)) as url:
        line, resumed = await servers(url).resume(url, RESUME)
        assert resumed.resume_token == "rt_2"
        await line.close()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (error("invalid_resume_token"), SessionGone),
        (error("session_resume_expired"), SessionGone),
        ({"type": "session.resync_required", "session_id": "s", "reason": "journal_gap"}, SessionGone),
        (error("runtime_resume_failed"), LineLost),
        (BUSY, LineLost),
    ],
    ids=lambda one: str(one)[:40],
)
async def test_a_resume_that_fails_is_final_or_not(answer: dict[str, Any], outcome: type[Exception]) -> None:
    async with answering(lambda: answer) as url:
        with pytest.raises(outcome):
            await servers(url).resume(url, RESUME)


async def test_hanging_up_does_not_wait_for_ever() -> None:
    async with answering(session_created) as url:
        begun = await servers(url).begin(UPDATE)
        await hang_up(begun.line, within_s=0.1)
        with pytest.raises(LineLost):
            await begun.line.hear()
