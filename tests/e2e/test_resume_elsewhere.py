"""A call whose socket breaks goes on at another gateway, with every frame exactly once."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.ordering import check_order
from tests.support.services import Deployment
from tests.support.talking import Caller, calling, conversing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


async def ask(caller: Caller, text: str) -> None:
    part = {"type": "input_text", "text": text}
    await caller.say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
    await caller.say(type="response.create")


def without_edges(frames: list[dict]) -> list[str]:
    return [json.dumps(frame, sort_keys=True) for frame in frames if "server_event_seq" in frame]


async def test_a_client_that_drops_mid_answer_resumes_on_the_other_gateway(pair: Deployment):  # V46
    async with conversing(pair.urls[0], model="echo") as first:
        created = first.heard[0]
        await ask(first, LONG)
        await first.hear_until("response.output_audio.delta")
        first.socket.transport.abort()  # the network goes, nobody says goodbye

    async with calling(pair.urls[1], query="?duplex=1&autostart=0") as second:
        await second.say(
            type="session.resume",
            session_id=created["session"]["id"],
            incarnation=created["incarnation"],
            resume_token=created["resume_token"],
            last_received_server_event_seq=first.seqs[-1],
        )
        resumed = await second.hear()
        await second.hear_until("rate_limits.updated")
        await second.say(type="session.close")
        await second.hear_until("session.closed")

    assert resumed["type"] == "session.resumed" and resumed["attachment_generation"] == 2
    assert resumed["resume_token"] != created["resume_token"]
    seqs = first.seqs + second.seqs
    assert seqs == list(range(1, len(seqs) + 1))
    check_order(first.heard + second.heard)


async def test_a_replay_is_the_same_bytes(pair: Deployment):
    async with conversing(pair.urls[0], model="echo") as first:
        created = first.heard[0]
        await ask(first, "say this again")
        await first.hear_until("rate_limits.updated")
        first.socket.transport.abort()

    async with calling(pair.urls[1], query="?duplex=1&autostart=0") as second:
        await second.say(
            type="session.resume",
            session_id=created["session"]["id"],
            incarnation=created["incarnation"],
            resume_token=created["resume_token"],
            last_received_server_event_seq=0,
        )
        await second.hear_until("rate_limits.updated")

    assert without_edges(second.heard) == without_edges(first.heard)


async def test_a_client_that_names_no_incarnation_resumes_the_current_one(pair: Deployment):
    async with conversing(pair.urls[0], model="echo") as first:
        created = first.heard[0]
        first.socket.transport.abort()

    async with calling(pair.urls[1], query="?duplex=1&autostart=0") as second:
        token, session_id = created["resume_token"], created["session"]["id"]
        await second.say(type="session.resume", session_id=session_id, resume_token=token)
        resumed = await second.hear()

    assert resumed["type"] == "session.resumed", resumed
    assert (resumed["type"], resumed["incarnation"]) == ("session.resumed", created["incarnation"])


async def test_the_superseded_socket_is_told_and_closed(pair: Deployment):
    async with conversing(pair.urls[0], model="echo") as first:
        created = first.heard[0]
        async with calling(pair.urls[1], query="?duplex=1&autostart=0") as second:
            await second.say(
                type="session.resume",
                session_id=created["session"]["id"],
                incarnation=created["incarnation"],
                resume_token=created["resume_token"],
                last_received_server_event_seq=first.seqs[-1],
            )
            await second.hear_until("session.resumed")
            replaced = await first.hear_until("session.replaced")
            async with asyncio.timeout(30):
                await first.socket.wait_closed()

    assert replaced["attachment_generation"] == 1
    assert (first.socket.close_code, first.socket.close_reason) == (1000, "session_replaced")
