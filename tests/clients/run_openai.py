"""The ``openai`` package's Realtime connection, its own objects, every event also held against its own types."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import pydantic
from openai import AsyncOpenAI
from openai.types.realtime import RealtimeServerEvent
from report import STEPS, Report, expect, run
from sound import paced, question_pcm

STRICT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(RealtimeServerEvent)
ALREADY_ANSWERING = "conversation_already_has_active_response"
"""A model may tell a tool's output by itself; asking for it then is no mistake."""
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


class Ear:
    """Reads a connection to its end; ``heard`` is what came, in order."""

    def __init__(self, connection: Any, report: Report) -> None:
        self._connection = connection
        self._report = report
        self._news = asyncio.Event()
        self.heard: list[Any] = []

    async def listen(self) -> None:
        """Read and check every event."""
        while True:
            data = await self._connection.recv_bytes()
            try:
                STRICT.validate_python(json.loads(data))
            except pydantic.ValidationError as error:
                self._report.validation_errors.append(f"{json.loads(data).get('type')}: {error.errors()[:2]}")
            self.heard.append(self._connection.parse_event(data))
            self._news.set()

    async def until(self, kind: str, fits: Callable[[Any], bool] = lambda event: True, *, since: int = 0) -> Any:
        """The first event of this type, among those after ``since``, that fits."""
        while True:
            for event in self.heard[since:]:
                if event.type == "error" and event.error.code != ALREADY_ANSWERING:
                    raise RuntimeError(event.error.message)
                if event.type == kind and fits(event):
                    return event
            self._news.clear()
            await self._news.wait()


async def converse(url: str, report: Report) -> None:
    """Two turns, an interruption, a tool and a truncation, all with a detector on the server's side."""
    http, ws = url.replace("ws", "http", 1).removesuffix("/realtime"), url.removesuffix("/realtime")
    client = AsyncOpenAI(api_key="none", base_url=http, websocket_base_url=ws)
    async with client.realtime.connect(model="cascade") as connection:
        ear = Ear(connection, report)
        listening = asyncio.create_task(ear.listen())
        try:
            await ear.until("session.created")
            await connection.session.update(
                session={
                    "type": "realtime",
                    "audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500}}},
                    "tools": [WEATHER],
                }
            )
            await ear.until("session.updated")
            await report.step(STEPS[0], _turn(connection, ear))
            await report.step(STEPS[1], _turn(connection, ear))
            await report.step(STEPS[2], _interruption(connection, ear))
            await report.step(STEPS[3], _tool_call(connection, ear))
            await report.step(STEPS[4], _truncation(connection, ear))
        finally:
            listening.cancel()


async def _say(connection: Any) -> None:
    async for piece in paced(question_pcm()):
        await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())


async def _turn(connection: Any, ear: Ear) -> str:
    since = len(ear.heard)
    await _say(connection)
    transcribed = await ear.until("conversation.item.input_audio_transcription.completed", since=since)
    expect("7" in transcribed.transcript, f"understood {transcribed.transcript!r}")
    done = await ear.until("response.done", since=since)
    expect(done.response.status == "completed", done.response.status)
    expect(done.response.usage.total_tokens is not None, "no usage")
    sound = b"".join(base64.b64decode(e.delta) for e in ear.heard[since:] if e.type == "response.output_audio.delta")
    expect(len(sound) > 24_000, f"{len(sound)} bytes of answer")
    spoken = await ear.until("response.output_audio_transcript.done", since=since)
    expect("42" in spoken.transcript, spoken.transcript)
    return f"{len(sound) / 48_000:.1f} s: {spoken.transcript}"


async def _interruption(connection: Any, ear: Ear) -> str:
    since = len(ear.heard)
    await _say(connection)
    await ear.until("response.output_audio.delta", since=since)
    await _say(connection)
    cut = await ear.until("response.done", since=since)
    expect(cut.response.status == "cancelled", f"the first answer {cut.response.status}")
    expect(cut.response.status_details.reason == "turn_detected", cut.response.status_details.reason)
    after = ear.heard.index(cut) + 1
    done = await ear.until("response.done", since=after)
    expect(done.response.status == "completed", f"the second answer {done.response.status}")
    return "turn_detected, then answered anew"


async def _tool_call(connection: Any, ear: Ear) -> str:
    since = len(ear.heard)
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather in Paris?"}]}
    await connection.conversation.item.create(item=asked)
    await connection.response.create(response={"metadata": {"purpose": "tool"}})
    begun = await ear.until("response.created", since=since)
    expect(begun.response.metadata == {"purpose": "tool"}, f"metadata {begun.response.metadata}")
    call = await ear.until("response.function_call_arguments.done", since=since)
    expect(json.loads(call.arguments).get("city") == "Paris", call.arguments)
    done = await ear.until("response.output_item.done", lambda event: event.item.type == "function_call", since=since)
    expect((done.item.name, done.item.status) == ("get_weather", "completed"), str(done.item))
    await _all_done(ear, since)
    output = json.dumps({"temperature_c": 24, "sky": "clear"})
    since = len(ear.heard)
    await connection.conversation.item.create(
        item={"type": "function_call_output", "call_id": call.call_id, "output": output}
    )
    await connection.response.create()
    answer = await ear.until("response.done", lambda event: event.response.output[0].type == "message", since=since)
    said = answer.response.output[0].content[0].transcript
    expect("24" in said, said)
    return said


async def _all_done(ear: Ear, since: int) -> None:
    """Wait until every response that was announced has ended."""
    for event in list(ear.heard[since:]):
        if event.type == "response.created":
            response_id = event.response.id
            await ear.until("response.done", lambda done, i=response_id: done.response.id == i, since=since)


async def _truncation(connection: Any, ear: Ear) -> str:
    answer = [e for e in ear.heard if e.type == "response.done" and e.response.output[0].type == "message"][-1]
    item, since = answer.response.output[0], len(ear.heard)
    await connection.conversation.item.truncate(item_id=item.id, content_index=0, audio_end_ms=300)
    truncated = await ear.until("conversation.item.truncated", since=since)
    expect((truncated.item_id, truncated.audio_end_ms) == (item.id, 300), str(truncated))
    await connection.conversation.item.retrieve(item_id=item.id)
    kept = (await ear.until("conversation.item.retrieved", since=since)).item.content[0].transcript
    expect(len(kept) < len(item.content[0].transcript), kept)
    return f"kept {kept!r}"


if __name__ == "__main__":
    run("openai (Python)", "openai", converse)
