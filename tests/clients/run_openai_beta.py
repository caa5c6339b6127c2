"""The ``openai`` package's connection of the Realtime beta: the old names, each event also against the old types."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import pydantic
from openai import AsyncOpenAI
from openai.types.beta.realtime import RealtimeServerEvent
from report import STEPS, Report, expect, run
from sound import paced, question_pcm

STRICT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(RealtimeServerEvent)
KNOWN_MODEL = "gpt-4o-realtime-preview"
"""The old types know OpenAI's own models only."""


class Ear:
    """Reads a connection to its end; ``heard`` is what came, in order."""

    def __init__(self, connection: Any, report: Report) -> None:
        self._connection = connection
        self._report = report
        self._news = asyncio.Event()
        self.heard: list[dict[str, Any]] = []

    async def listen(self) -> None:
        """Read and check every event."""
        while True:
            event = json.loads(await self._connection.recv_bytes())
            checked = (
                event if "session" not in event else {**event, "session": {**event["session"], "model": KNOWN_MODEL}}
            )
            try:
                STRICT.validate_python(checked)
            except pydantic.ValidationError as error:
                self._report.validation_errors.append(f"{event.get('type')}: {error.errors()[:2]}")
            if event["type"] == "error":
                self._report.validation_errors.append(f"error: {event['error']}")
            self.heard.append(event)
            self._news.set()

    async def until(
        self, kind: str, fits: Callable[[dict[str, Any]], bool] = lambda event: True, *, since: int = 0
    ) -> dict[str, Any]:
        """The first event of this type, among those after ``since``, that fits."""
        while True:
            for event in self.heard[since:]:
                if event["type"] == kind and fits(event):
                    return event
            self._news.clear()
            await self._news.wait()


async def converse(url: str, report: Report) -> None:
    """Two turns and an interruption."""
    report.expected = STEPS[:3]
    http, ws = url.replace("ws", "http", 1).removesuffix("/realtime"), url.removesuffix("/realtime")
    client = AsyncOpenAI(api_key="none", base_url=http, websocket_base_url=ws)
    async with client.beta.realtime.connect(model="cascade") as connection:
        ear = Ear(connection, report)
        listening = asyncio.create_task(ear.listen())
        try:
            await ear.until("session.created")
            await connection.session.update(
                session={"modalities": ["text", "audio"], "voice": "alloy", "turn_detection": {"type": "server_vad"}}
            )
            updated = await ear.until("session.updated")
            expect(updated["session"]["input_audio_format"] == "pcm16", str(updated))
            await report.step(STEPS[0], _turn(connection, ear))
            await report.step(STEPS[1], _turn(connection, ear))
            await report.step(STEPS[2], _interruption(connection, ear))
        finally:
            listening.cancel()


async def _say(connection: Any) -> None:
    async for piece in paced(question_pcm()):
        await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())


async def _turn(connection: Any, ear: Ear) -> str:
    since = len(ear.heard)
    await _say(connection)
    done = await ear.until("response.done", since=since)
    expect(done["response"]["status"] == "completed", done["response"]["status"])
    deltas = [event["delta"] for event in ear.heard[since:] if event["type"] == "response.audio.delta"]
    seconds = sum(len(base64.b64decode(delta)) for delta in deltas) / 48_000
    spoken = await ear.until("response.audio_transcript.done", since=since)
    expect("42" in spoken["transcript"], spoken["transcript"])
    items = [event for event in ear.heard[since:] if event["type"] == "conversation.item.created"]
    expect([event["item"]["role"] for event in items] == ["user", "assistant"], f"{len(items)} items")
    return f"{seconds:.1f} s: {spoken['transcript']}"


async def _interruption(connection: Any, ear: Ear) -> str:
    since = len(ear.heard)
    await _say(connection)
    await ear.until("response.audio.delta", since=since)
    await _say(connection)
    cut = await ear.until("response.done", since=since)
    expect(cut["response"]["status_details"]["reason"] == "turn_detected", str(cut["response"]["status"]))
    done = await ear.until("response.done", since=ear.heard.index(cut) + 1)
    expect(done["response"]["status"] == "completed", done["response"]["status"])
    return "turn_detected, then answered anew"


if __name__ == "__main__":
    run("openai (Python, beta)", "openai", converse)
