"""Calls that go well and things that go wrong, each with what it leaves in the figures of a watched service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.talking import Caller, calling, conversing, question_pcm
from tests.support.watched import Program

SPOKEN = {"audio_ms": 400, "text": "It is sunny.", "pace": "real", "chunk_ms": 80}
ENDLESS = {"on": "generate", "every": True, "do": [{"audio_ms": 80, "text": "And on. ", "endless": True}]}
WEATHER = {"name": "get_weather", "call_id": "call_1", "arguments": {"city": "Paris"}}
CALLING = {"on": "generate", "do": [{"function_call": WEATHER}, {"finish": True}]}
ANSWERING = {"on": "tool_output", "do": [SPOKEN, {"finish": True}]}
LOUD_S = 120


@asynccontextmanager
async def scripted(url: str, *steps: dict[str, Any], **session: Any) -> AsyncIterator[Caller]:
    """An open call to a model that plays ``steps``."""
    extra_body = {"auto_response": False, "script": list(steps)}
    async with conversing(url, model="scripted", extra_body=extra_body, **session) as caller:
        yield caller


async def ask(caller: Caller) -> dict[str, Any]:
    """Ask for an answer and hear it to its end."""
    await caller.say(type="response.create")
    return await caller.hear_until("response.done")


async def chat(url: str) -> None:
    """A call with an answer, a function and its result."""
    async with scripted(
        url, CALLING, ANSWERING, {"on": "generate", "every": True, "do": [SPOKEN, {"finish": True}]}
    ) as call:
        await ask(call)
        output = {"type": "function_call_output", "call_id": "call_1", "output": "24 degrees"}
        await call.say(type="conversation.item.create", item=output)
        await call.hear_until("response.done")
        await ask(call)


async def interrupt(url: str) -> None:
    """A caller who speaks over an endless answer until it is cut."""
    async with scripted(url, ENDLESS, turn_detection={"type": "server_vad"}) as call:
        await call.say(type="response.create")
        await call.hear_until("response.output_audio.delta")
        speaking = asyncio.create_task(call.play(question_pcm(), silence_ms=600))
        done = await call.hear_until("response.done")
        speaking.cancel()
        assert done["response"]["status"] == "cancelled"


async def misspeak(url: str, times: int = 1) -> None:
    """Events that are refused."""
    async with scripted(url) as call:
        for _ in range(times):
            await call.say(type="no.such.event")
            await call.hear_until("error")


async def resume(first_url: str, second_url: str) -> None:
    """A call that breaks off, goes on at another gateway, and is taken from there by a third socket."""
    async with scripted(first_url, {"on": "generate", "every": True, "do": [SPOKEN, {"finish": True}]}) as call:
        created = call.heard[0]
        await ask(call)
        call.socket.transport.abort()
    async with calling(second_url, query="?autostart=0") as again:
        await _resume(again, created, created["resume_token"], 0)
        resumed = await again.hear_until("session.resumed")
        await again.hear_until("response.done")
        async with calling(first_url, query="?autostart=0") as third:
            await _resume(third, created, resumed["resume_token"], 0)
            await third.hear_until("session.resumed")
            await again.hear_until("session.replaced")
            await third.say(type="session.close")
            await third.hear_until("session.closed")
    async with calling(first_url, query="?autostart=0") as late:
        await _resume(late, created, "rt_wrong", 0)
        await late.hear_until("error")


async def fail_resumes(url: str, times: int) -> None:
    """Clients that come back for what is not there."""
    for _ in range(times):
        async with calling(url, query="?autostart=0") as late:
            await late.say(type="session.resume", session_id="duplex-nobody", resume_token="rt_x")
            await late.hear_until("error")


async def _resume(call: Caller, created: dict[str, Any], token: str, after_seq: int) -> None:
    await call.say(
        type="session.resume",
        session_id=created["session"]["id"],
        incarnation=created["incarnation"],
        resume_token=token,
        last_received_server_event_seq=after_seq,
    )


@asynccontextmanager
async def full(url: str, sessions: int) -> AsyncIterator[None]:
    """All slots taken."""
    async with AsyncExitStack() as calls:
        for _ in range(sessions):
            await calls.enter_async_context(scripted(url))
        yield


async def be_refused(url: str, times: int = 1) -> None:
    """Ask for sessions that nobody has room for."""
    for _ in range(times):
        async with calling(url, query="?autostart=0") as call:
            await call.say(type="session.update", session={"model": "scripted"})
            error = await call.hear_until("error")
            assert error["error"]["code"] == "duplex_session_busy"


@asynccontextmanager
async def deaf(url: str, clients: int) -> AsyncIterator[None]:
    """Clients that ask for two minutes of speech at once and read none of it."""
    loud = {"on": "generate", "do": [{"audio_ms": LOUD_S * 1000, "text": "Long.", "pace": "fast"}, {"finish": True}]}
    opened: list[Caller] = []
    async with AsyncExitStack() as calls:
        for _ in range(clients):
            call = await calls.enter_async_context(scripted(url, loud))
            call.socket.transport.pause_reading()
            await call.say(type="response.create")
            opened.append(call)
        yield
        for call in opened:
            call.socket.transport.abort()


@asynccontextmanager
async def endless(url: str, calls: int = 1) -> AsyncIterator[list[Caller]]:
    """Calls with an answer that goes on until somebody does something."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(scripted(url, ENDLESS)) for _ in range(calls)]
        for call in opened:
            await call.say(type="response.create")
            await call.hear_until("response.output_audio.delta")
        yield opened


async def speak_to_toy(url: str, seconds: float) -> None:
    """A call to the model that steps an engine."""
    async with conversing(url, model="toy") as call:
        await call.play(question_pcm()[: int(seconds * 32_000)], realtime=True)


async def be_durable(url: str) -> None:
    """A client that asks to be told what would survive."""
    async with calling(url, query="?autostart=0&durable=1") as call:
        await call.say(type="session.update", session={"model": "scripted"})
        await call.hear_until("session.durable")
        await call.say(type="session.close")
        await call.hear_until("session.closed")


def kill_engine(worker: Program) -> None:
    """End the engine of a worker, as a device fault would."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == worker.process.pid:
            os.kill(int(status.parent.name), signal.SIGKILL)


def lines_of(program: Program) -> list[dict[str, Any]]:
    """A program's log lines; those that are no JSON are left out."""
    found = []
    for line in program.all_words.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


async def answer_late(url: str) -> None:
    """An answer whose first sound takes three seconds."""
    late = {"on": "generate", "every": True, "do": [{"wait_ms": 3_000}, SPOKEN, {"finish": True}]}
    async with scripted(url, late) as call:
        await ask(call)


async def fail_answers(url: str, times: int) -> None:
    """Answers that the model gives up."""
    fault = {"fail": {"code": "response_error", "message": "as the script says"}}
    async with scripted(url, {"on": "generate", "every": True, "do": [SPOKEN, fault]}) as call:
        for _ in range(times):
            await ask(call)


@asynccontextmanager
async def callers_at_the_door(url: str, callers: int) -> AsyncIterator[None]:
    """Callers who go on trying to open a session."""

    async def knock() -> None:
        while True:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(30):
                    await misspeak(url)
            await asyncio.sleep(0.2)

    tasks = [asyncio.create_task(knock()) for _ in range(callers)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
