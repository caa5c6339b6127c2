"""``livekit-plugins-openai``: a ``RealtimeModel`` session with its own defaults, driven as an agent would, no room."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from livekit import rtc
from livekit.agents import function_tool, llm
from livekit.agents.llm import ChatContext
from livekit.plugins.openai import realtime
from report import STEPS, Report, expect, run
from sound import paced, question_pcm

RATE_HZ = 24_000
ALREADY_ANSWERING = "conversation_already_has_active_response"
"""A model may tell a tool's output by itself; asking for it then is no mistake."""


class Ear:
    """What a session emits: its generations in full, and the server's events beside them."""

    def __init__(self, session: Any, report: Report) -> None:
        self._report = report
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.generations: list[dict[str, Any]] = []
        self.raw: list[dict[str, Any]] = []
        self.transcripts: list[str] = []
        session.on("generation_created", self._begun)
        session.on("openai_server_event_received", self._note(self._heard))
        session.on("input_audio_transcription_completed", self._note(lambda e: self.transcripts.append(e.transcript)))
        session.on("error", self._note(self._failed))

    def _note(self, take: Callable[[Any], None]) -> Callable[[Any], None]:
        def noted(event: Any) -> None:
            take(event)
            self._news.set()

        return noted

    def _heard(self, event: dict[str, Any]) -> None:
        self.raw.append(event)
        if event["type"] == "error" and event["error"]["code"] != ALREADY_ANSWERING:
            self._report.validation_errors.append(f"error: {event['error']}")

    def _failed(self, event: Any) -> None:
        if getattr(event.error, "body", None) is None or event.error.body.code != ALREADY_ANSWERING:
            self._report.validation_errors.append(str(event.error)[:600])

    def _begun(self, event: Any) -> None:
        generation = {"id": event.response_id, "text": "", "audio_s": 0.0, "calls": [], "done": False, "items": []}
        self.generations.append(generation)
        task = asyncio.create_task(self._collect(event, generation))
        self._tasks.add(task)
        self._news.set()

    async def _collect(self, event: Any, generation: dict[str, Any]) -> None:
        async def messages() -> None:
            async for message in event.message_stream:
                generation["items"].append(message.message_id)
                await asyncio.gather(texts(message), sounds(message))

        async def texts(message: Any) -> None:
            async for text in message.text_stream:
                generation["text"] += str(text)

        async def sounds(message: Any) -> None:
            async for frame in message.audio_stream:
                generation["audio_s"] += frame.duration
                self._news.set()

        async def calls() -> None:
            async for call in event.function_stream:
                generation["calls"].append(call)

        await asyncio.gather(messages(), calls())
        generation["done"] = True
        self._news.set()

    async def until(self, find: Callable[[], Any]) -> Any:
        """What ``find`` returns, as soon as it is true."""
        while not (found := find()):
            self._news.clear()
            await self._news.wait()
        return found

    async def spoken(self, words: str, *, since: int) -> dict[str, Any]:
        """The first finished generation after ``since`` that said ``words``."""
        found: dict[str, Any] = await self.until(
            lambda: next((one for one in self.generations[since:] if one["done"] and words in one["text"]), None)
        )
        return found


class Complaints(logging.Handler):
    """What the plug-in logs as a warning or worse: events it could not place, errors it was sent."""

    def __init__(self, report: Report) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        """Take in one record."""
        if ALREADY_ANSWERING in record.getMessage():
            return
        cause = record.exc_info[1] if record.exc_info else None
        event = getattr(record, "event", None) or getattr(record, "lk.pii.event", None)
        self._report.validation_errors.append(f"logged: {record.getMessage()[:200]} {cause!r} {event!r:.300}")


@function_tool
async def get_weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: The name of the city.
    """
    return f"24 degrees and clear in {city}"


async def converse(url: str, report: Report) -> None:
    """Two turns, an interruption, a tool round by ``update_chat_ctx``, and a truncation."""
    logging.getLogger("livekit.agents").addHandler(Complaints(report))
    logging.getLogger("livekit.plugins.openai").addHandler(Complaints(report))
    http = url.replace("ws", "http", 1).removesuffix("/realtime")
    model = realtime.RealtimeModel(base_url=http, api_key="none", model="cascade")
    session = model.session()
    ear = Ear(session, report)
    try:
        await session.update_instructions("Be brief.")
        await session.update_tools([get_weather])
        await ear.until(lambda: any(event["type"] == "session.updated" for event in ear.raw))
        await report.step(STEPS[0], _turn(session, ear))
        await report.step(STEPS[1], _turn(session, ear))
        await report.step(STEPS[2], _interruption(session, ear))
        await report.step(STEPS[3], _tool_call(session, ear))
        await report.step(STEPS[4], _truncation(session, ear))
    finally:
        await session.aclose()
        await model.aclose()


async def _say(session: Any) -> None:
    async for piece in paced(question_pcm(RATE_HZ)):
        session.push_audio(rtc.AudioFrame(piece, RATE_HZ, 1, len(piece) // 2))


async def _turn(session: Any, ear: Ear) -> str:
    since = len(ear.generations)
    await _say(session)
    generation = await ear.spoken("42", since=since)
    expect(generation["audio_s"] > 1, f"{generation['audio_s']} s of answer")
    await ear.until(lambda: ear.transcripts)
    return f"{generation['audio_s']:.1f} s: {generation['text']}"


async def _interruption(session: Any, ear: Ear) -> str:
    since = len(ear.generations)
    await _say(session)
    first = await ear.until(lambda: next((one for one in ear.generations[since:] if one["audio_s"] > 0), None))
    await _say(session)
    await ear.until(lambda: first["done"])
    second = await ear.spoken("42", since=ear.generations.index(first) + 1)
    expect(first["audio_s"] < second["audio_s"], f"{first['audio_s']} s, then {second['audio_s']} s")
    ended = [event for event in ear.raw if event["type"] == "response.done" and event["response"]["id"] == first["id"]]
    expect(ended[0]["response"]["status_details"]["reason"] == "turn_detected", str(ended[0]["response"]["status"]))
    return f"cut after {first['audio_s']:.1f} s, then answered anew"


async def _tool_call(session: Any, ear: Ear) -> str:
    await ear.until(lambda: all(one["done"] for one in ear.generations))
    since = len(ear.generations)
    context: ChatContext = session.chat_ctx.copy()
    context.add_message(role="user", content="Weather in Paris?")
    await session.update_chat_ctx(context)
    reply = await session.generate_reply()
    expect(reply.user_initiated, "the reply was not taken for the one that was asked for")
    calling = await ear.until(lambda: next((one for one in ear.generations[since:] if one["calls"]), None))
    (call,) = calling["calls"]
    expect(call.name == "get_weather" and "Paris" in call.arguments, f"{call.name} {call.arguments}")
    await ear.until(lambda: all(one["done"] for one in ear.generations[since:]))
    since = len(ear.generations)
    context = session.chat_ctx.copy()
    output = llm.FunctionCallOutput(call_id=call.call_id, name=call.name, output="24 degrees, clear", is_error=False)
    context.items.append(output)
    await session.update_chat_ctx(context)
    asked = session.generate_reply()
    told = await ear.spoken("24", since=since)
    await asyncio.wait([asked])
    if error := asked.exception():
        expect(getattr(error, "code", "") == ALREADY_ANSWERING, repr(error))
    return str(told["text"])


async def _truncation(session: Any, ear: Ear) -> str:
    await ear.until(lambda: all(one["done"] for one in ear.generations))
    told = ear.generations[-1]
    message_id, since = told["items"][0], len(ear.raw)
    session.truncate(message_id=message_id, modalities=["audio"], audio_end_ms=300)
    cut = await ear.until(
        lambda: next((event for event in ear.raw[since:] if event["type"] == "conversation.item.truncated"), None)
    )
    expect((cut["item_id"], cut["audio_end_ms"]) == (message_id, 300), str(cut))
    return "cut at 300 ms"


if __name__ == "__main__":
    run("livekit-plugins-openai", "livekit-plugins-openai", converse)
