"""The client on the real service: connections that break at the worst moment, and processes that die."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from duplex_es.client import (
    AudioDelta,
    ConnectionResumed,
    DuplexClient,
    DuplexEvent,
    DuplexProtocolError,
    EventCollector,
    ReconnectPolicy,
    ResponseDone,
    SessionConfig,
)
from tests.support.lines import Lines
from tests.support.services import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

LISTENER = Path(__file__).parents[1] / "support" / "listener.py"
AT_ONCE = ReconnectPolicy(max_attempts=20, backoff_s=(0.02, 0.2))
ANSWER = [
    {"audio_ms": 2_400, "text": "One two three four five six seven eight.", "tone_hz": 440, "chunk_ms": 80},
    {"finish": True},
]
SCRIPT = [{"on": "generate", "every": True, "do": ANSWER}]
CONFIG = SessionConfig(auto_response=False, extra_body={"script": SCRIPT})


async def within(events: AsyncIterator[DuplexEvent], type: str, timeout_s: float = 60.0) -> list[DuplexEvent]:
    """All events up to and including the next of ``type``."""
    heard: list[DuplexEvent] = []
    async with asyncio.timeout(timeout_s):
        async for event in events:
            heard.append(event)
            if event.type == type:
                return heard
    raise AssertionError(f"the session ended before {type}: {[event.type for event in heard]}")


def sound(events: list[DuplexEvent]) -> bytes:
    return b"".join(event.audio for event in events if isinstance(event, AudioDelta))


def item(text: str) -> dict[str, Any]:
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {"type": "conversation.item.create", "item": message}


def texts(events: list[DuplexEvent]) -> list[str]:
    added = (event for event in events if event.type == "conversation.item.added")
    return [event.raw["item"]["content"][0]["text"] for event in added]


async def uninterrupted(url: str) -> bytes:
    """The whole answer, heard in peace."""
    async with DuplexClient(url, model="scripted", config=CONFIG) as client:
        events = client.events()
        await client.send({"type": "response.create"})
        return sound(await within(events, "response.done"))


async def test_an_answer_over_two_broken_connections_is_the_same_sound(scripted: Deployment) -> None:
    lines = Lines()
    async with DuplexClient(
        scripted.urls, model="scripted", config=CONFIG, reconnect=AT_ONCE, connect=lines.connect
    ) as client:
        events = client.events()
        await client.send({"type": "response.create"})
        heard = await within(events, "response.output_audio.delta")
        lines.opened[-1].cut()
        heard += await within(events, "session.resumed")
        heard += await within(events, "response.output_audio.delta")
        lines.opened[-1].cut()
        heard += await within(events, "response.done")
        assert len(lines.opened) == 3

    assert sound(heard) == await uninterrupted(scripted.urls[0])
    seqs = [event.server_event_seq for event in heard if event.server_event_seq]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert sum(isinstance(event, ConnectionResumed) for event in heard) == 2


async def test_a_connection_lost_inside_a_handler_delivers_the_event_it_handles_once(
    scripted: Deployment,
) -> None:  # E4
    lines = Lines()
    seen: Counter[int] = Counter()
    async with DuplexClient(
        scripted.urls, model="scripted", config=CONFIG, reconnect=AT_ONCE, connect=lines.connect
    ) as client:
        events = client.events()
        await client.send({"type": "response.create"})

        async def on_event(event: DuplexEvent) -> None:
            seen[event.server_event_seq or 0] += 1
            if isinstance(event, AudioDelta) and len(lines.opened) < 4:
                token = client.resume_token
                lines.opened[-1].cut()
                while client.resume_token == token:
                    await asyncio.sleep(0.005)

        async with asyncio.timeout(40):
            async for event in events:
                await on_event(event)
                if isinstance(event, ResponseDone):
                    break

    assert len(lines.opened) == 4
    numbers = [seq for seq in seen if seq]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert {seen[seq] for seq in numbers} == {1}


async def test_events_sent_while_detached_all_arrive_once_and_in_order(scripted: Deployment) -> None:  # E7
    lines = Lines()
    async with DuplexClient(
        scripted.urls, model="scripted", config=CONFIG, reconnect=AT_ONCE, connect=lines.connect
    ) as client:
        events = client.events()
        lines.may_open.clear()
        lines.opened[-1].cut()
        sending = [asyncio.create_task(client.send(item(f"no. {n}"))) for n in range(50)]
        await asyncio.wait(sending, timeout=1.0)
        assert not any(task.done() for task in sending)
        lines.may_open.set()
        await asyncio.gather(*sending)
        await client.send({"type": "session.heartbeat"})
        heard = await within(events, "session.heartbeat_ack")

    assert texts(heard) == [f"no. {n}" for n in range(50)]
    assert not [event for event in heard if event.type == "error"]


async def test_events_lost_with_their_connection_are_said_again_and_arrive_once(scripted: Deployment) -> None:  # E7
    lines = Lines()
    async with DuplexClient(
        scripted.urls, model="scripted", config=CONFIG, reconnect=AT_ONCE, connect=lines.connect
    ) as client:
        events = client.events()
        for n in range(20):
            await client.send(item(f"no. {n}"))
        lines.opened[-1].lose()
        for n in range(20, 50):
            await client.send(item(f"no. {n}"))
        assert lines.opened[-1].lost_count >= 30
        lines.opened[-1].cut()
        await client.send({"type": "session.heartbeat"})
        heard = await within(events, "session.heartbeat_ack")

    assert texts(heard) == [f"no. {n}" for n in range(50)]
    [resumed] = [event for event in heard if isinstance(event, ConnectionResumed)]
    assert resumed.raw["resent"] >= 30


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_breaks_when_each_event_arrives_once_and_each_answer_is_heard_once(
    scripted: Deployment, seed: int
) -> None:
    draw, lines = random.Random(seed), Lines()
    count = 120

    async def break_things() -> None:
        while True:
            await asyncio.sleep(draw.uniform(0.01, 0.25))
            if draw.random() < 0.5:
                lines.opened[-1].lose()
                await asyncio.sleep(draw.uniform(0.0, 0.05))
            lines.opened[-1].cut()

    policy = ReconnectPolicy(max_attempts=100, backoff_s=(0.0, 0.05))
    async with DuplexClient(
        scripted.urls,
        model="scripted",
        config=CONFIG,
        reconnect=policy,
        connect=lines.connect,
        heartbeat_interval_s=0.1,
    ) as client:
        events = client.events()
        saboteur = asyncio.create_task(break_things())
        for n in range(count):
            await client.send(item(f"no. {n}"))
            await asyncio.sleep(draw.uniform(0.0, 0.03))
        saboteur.cancel()
        lines.opened[-1].cut()  # it may be one that loses everything and would never be found out
        await client.send(item("the last"))
        heard: list[DuplexEvent] = []
        async with asyncio.timeout(30):
            while "the last" not in texts(heard):
                heard.append(await anext(events))

    assert len(lines.opened) > 3, "nothing was broken"
    assert texts(heard) == [*(f"no. {n}" for n in range(count)), "the last"]
    seqs = [event.server_event_seq for event in heard if event.server_event_seq]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


async def listener(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, str(LISTENER), *arguments, stdout=PIPE)


async def test_a_process_killed_mid_answer_is_continued_by_another_sample_for_sample(
    scripted: Deployment, tmp_path: Path
) -> None:
    whole = await uninterrupted(scripted.urls[0])
    session = tmp_path / "session.json"
    session.write_text(
        json.dumps({"model": "scripted", "config": {"auto_response": False, "extra_body": CONFIG.extra_body}})
    )

    first = await listener("ask", scripted.urls[0], str(tmp_path), str(session))
    assert first.stdout is not None
    for _ in range(3):
        assert await asyncio.wait_for(first.stdout.readline(), 30)
    first.kill()
    await first.wait()
    so_far = (tmp_path / "answer.pcm").stat().st_size
    assert 0 < so_far < len(whole)

    second = await listener("resume", scripted.urls[1], str(tmp_path))
    pieces, _ = await asyncio.wait_for(second.communicate(), 60)
    assert second.returncode == 0
    assert pieces.strip(), "the second process heard nothing of the answer"
    assert (tmp_path / "answer.pcm").read_bytes() == whole


async def test_a_ticket_that_was_used_before_is_refused_by_name(scripted: Deployment) -> None:
    async with DuplexClient(scripted.urls[0], model="scripted", config=CONFIG) as client:
        ticket = client.export_resume_ticket()
        await client.leave()
    async with DuplexClient.resume(scripted.urls[1], ticket):
        with pytest.raises(DuplexProtocolError) as caught:
            async with DuplexClient.resume(scripted.urls[0], ticket):
                pass
    assert caught.value.code == "invalid_resume_token"


async def test_an_event_handled_before_the_ticket_is_not_delivered_to_the_next_holder(
    scripted: Deployment,
) -> None:  # E4
    async with DuplexClient(scripted.urls[0], model="scripted", config=CONFIG, auto_acknowledge=False) as client:
        events = client.events()
        await client.send({"type": "response.create"})
        heard = await within(events, "response.output_audio.delta")
        ticket = client.export_resume_ticket(after_seq=heard[-1].server_event_seq)
        async with DuplexClient.resume(scripted.urls[1], ticket) as other:
            assert other.session_id == client.session_id
            heard += await within(other.events(), "response.done")

    numbers = [event.server_event_seq for event in heard if event.server_event_seq]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert sound(heard) == await uninterrupted(scripted.urls[0])


async def test_collected_events_give_the_figures_of_an_answer(scripted: Deployment) -> None:
    collector = EventCollector()
    async with DuplexClient(scripted.urls[0], model="scripted", config=CONFIG) as client:
        consuming = asyncio.create_task(collector.consume(client))
        await asyncio.sleep(0)
        started_s = asyncio.get_running_loop().time()
        await client.send({"type": "response.create"})
        await client.wait_for("response.done", timeout_s=30)
    await consuming

    [response_id] = collector.response_ids
    summary = collector.timing_summary(after_s=started_s, input_committed_at_s=started_s, response_id=response_id)
    assert summary["request_metrics"]["audio_duration_ms"] == 2_400
    assert 0 < summary["request_metrics"]["ttfp_ms"] < summary["request_metrics"]["audio_generation_ms"]
    assert summary["audio_output"]["chunk_count"] == 30
    assert len(collector.audio_bytes(response_id)) == 2_400 * 24 * 2
