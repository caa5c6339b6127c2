"""What operators see holds nothing that a caller said, heard or keeps secret: logs, figures, and spans of a whole call.

Words are planted everywhere a client can put them, everything is logged at its lowest level, workers and gateways are
lost and replaced meanwhile, and then every byte that left a process is searched.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import incidents
from tests.support.collector import Collector
from tests.support.talking import calling, conversing
from tests.support.watched import WatchedStack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

WORDS = ("zanzibarquokka", "heliotropezebu", "vermilionokapi", "saffronaxolotl", "indigopangolin", "umbernarwhal")
PROMPT, TYPED, SPOKEN, ARGUMENT, OUTPUT, META = WORDS
SAMPLES = bytes(range(64)) * 40


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def stack(collector: Collector) -> Iterator[WatchedStack]:
    """Two gateways and two workers that log everything and export every span."""
    with WatchedStack(gateway_options=("--otlp-endpoint", collector.url)) as stack:
        stack.add_gateway()
        stack.add_gateway()
        for _ in range(2):
            stack.add_worker("scripted", "--otlp-endpoint", collector.url)
        yield stack


def script() -> list[dict[str, Any]]:
    """An answer, a function call and what comes of it."""
    call = {"function_call": {"name": "look_up", "call_id": "call_1", "arguments": {"of": ARGUMENT}}}
    said = {"audio_ms": 300, "text": f"They say {SPOKEN}.", "chunk_ms": 100}
    return [
        {"on": "end_turn", "transcript": f"do you know {SPOKEN}", "do": [call, {"finish": True}]},
        {"on": "tool_output", "do": [said, {"finish": True}]},
        {"on": "generate", "every": True, "do": [{**said, "endless": True}]},
    ]


async def whole_call(stack: WatchedStack) -> list[str]:
    """A call with all of it, cut off and resumed, its worker lost; the tokens that were given out."""
    tools = [{"type": "function", "name": "look_up", "description": PROMPT, "parameters": {"type": "object"}}]
    extra_body = {"auto_response": True, "script": script()}
    settings = {"model": "scripted", "instructions": f"Never say {PROMPT}.", "tools": tools, "extra_body": extra_body}
    async with conversing(stack.urls[0], **settings) as call:
        created = call.heard[0]
        await call.say(type="input_audio_buffer.append", audio=base64.b64encode(SAMPLES).decode())
        await call.say(type="input_audio_buffer.commit")
        await call.hear_until("response.function_call_arguments.done")
        output = {"type": "function_call_output", "call_id": "call_1", "output": OUTPUT}
        await call.say(type="conversation.item.create", item=output)
        text = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": TYPED}]}
        await call.say(type="conversation.item.create", item=text)
        await call.say(type=f"no.{TYPED}.event", event_id=META)
        await call.hear_until("error")
        await call.socket.send(f'{{"type": "session.update", "{TYPED}')
        await call.hear_until("error")
        await call.say(type="response.create", response={"metadata": {"note": META}, "instructions": PROMPT})
        await call.hear_until("response.output_audio.delta")
        call.socket.transport.abort()
    async with calling(stack.urls[1], query="?autostart=0") as again:
        await again.say(
            type="session.resume",
            session_id=created["session"]["id"],
            resume_token=created["resume_token"],
            last_received_server_event_seq=3,
        )
        resumed = await again.hear_until("session.resumed")
        claimed = next(worker for worker in stack.workers if created["session"]["id"] in worker.all_words)
        claimed.process.kill()
        count = len(again.heard)
        while len(again.heard) < count + 200 or again.heard[-1]["type"] != "response.output_audio.delta":
            await again.hear_until("response.output_audio.delta")
            if "claimed" in next(one for one in stack.workers if one is not claimed).all_words:
                break
        await again.say(type="session.close")
        await again.hear_until("session.closed")
    async with calling(stack.urls[1], query="?autostart=0") as late:
        await late.say(type="session.resume", session_id=created["session"]["id"], resume_token=f"rt_{META}")
        await late.hear_until("error")
    return [created["resume_token"], resumed["resume_token"]]


async def test_planted_words_tokens_and_sound_are_in_no_log_figure_or_span(
    stack: WatchedStack, collector: Collector
) -> None:
    tokens = await whole_call(stack)
    programs = [*stack.gateways, *stack.workers]
    running = [program for program in programs if program.process.poll() is None]
    figures = "".join([await asyncio.to_thread(program.figures) for program in running])
    for program in running:
        program.process.terminate()
    for program in running:
        await asyncio.to_thread(program.process.wait, 30)
    logs = "".join(program.all_words for program in programs)
    spans = b"".join(collector.bodies)
    assert collector.spans and "session=" in logs and "duplex_" in figures
    sound = base64.b64encode(SAMPLES).decode()[:64]
    for secret in (*WORDS, *tokens, sound, SAMPLES[:64].hex(), repr(SAMPLES[:16])[2:-1]):
        assert secret not in logs, secret
        assert secret not in figures, secret
        assert secret.encode() not in spans, secret
    assert SAMPLES[:64] not in spans


async def test_every_line_is_an_object_and_those_of_a_session_name_it(stack: WatchedStack) -> None:
    texts = [line for program in (*stack.gateways, *stack.workers) for line in program.all_words.splitlines()]
    lines = [json.loads(line) for line in texts]
    assert lines
    assert all({"time", "level", "logger", "event", "message"} <= line.keys() for line in lines)
    assert all(("gateway" in line) != ("worker" in line) for line in lines)
    ends = [line for line in lines if line["event"].startswith("socket ends")]
    assert ends and all(line["session"] and line["trace_id"] and line["seq"] >= 0 for line in ends)
    assert len({line["trace_id"] for line in ends}) == 1, "a resumed call is in the trace of its session"
    assert incidents.lines_of(stack.gateways[0])
