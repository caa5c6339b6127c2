"""``pydantic-ai``: an agent's realtime session with a tool; its own messages say what it understood."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import FunctionToolResultEvent, SpeechPart
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.realtime import (
    RealtimeInputSpeechEndEvent,
    RealtimeInputSpeechStartEvent,
    RealtimeSessionErrorEvent,
    RealtimeTurnCompleteEvent,
)
from pydantic_ai.realtime.openai import OpenAIRealtimeModel
from report import STEPS, Report, expect, run
from sound import paced, question_pcm

agent = Agent(instructions="Be brief.")


@agent.tool_plain
def get_weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: The name of the city.
    """
    return f"24 degrees and clear in {city}"


class Ear:
    """A session's events, and its sound beside them."""

    def __init__(self, session: Any, report: Report) -> None:
        self._session = session
        self._report = report
        self._news = asyncio.Event()
        self.heard: list[Any] = []
        self.audio_bytes = 0

    async def listen(self) -> None:
        """Read events until the session ends; an error among them is one the client was sent or made."""
        async for event in self._session:
            if isinstance(event, RealtimeSessionErrorEvent):
                self._report.validation_errors.append(f"error: {event!r}"[:600])
            self.heard.append(event)
            self._news.set()

    async def play(self) -> None:
        """Take the sound as speakers would."""
        async for piece in self._session.stream_audio():
            self.audio_bytes += len(piece)
            self._news.set()

    async def until(self, find: Callable[[], Any]) -> Any:
        """What ``find`` returns, as soon as it is true."""
        while not (found := find()):
            self._news.clear()
            await self._news.wait()
        return found

    async def event(self, kind: type, *, since: int) -> Any:
        """The first event of this kind after ``since``."""
        return await self.until(lambda: next((one for one in self.heard[since:] if isinstance(one, kind)), None))

    def answers(self) -> list[SpeechPart]:
        """What the model has said, as the session's messages have it."""
        parts = (part for message in self._session.all_messages() for part in message.parts)
        return [part for part in parts if isinstance(part, SpeechPart) and part.speaker == "assistant"]


async def converse(url: str, report: Report) -> None:
    """Two turns, speech over an answer, a tool, and an interruption by the client, which truncates."""
    base_url = url.replace("ws", "http", 1).removesuffix("/realtime")
    model = OpenAIRealtimeModel("cascade", provider=OpenAIProvider(base_url=base_url, api_key="none"))
    async with agent.realtime(model).session() as session:
        ear = Ear(session, report)
        tasks = [asyncio.create_task(ear.listen()), asyncio.create_task(ear.play())]
        try:
            await report.step(STEPS[0], _turn(session, ear))
            await report.step(STEPS[1], _turn(session, ear))
            await report.step(STEPS[2], _interruption(session, ear))
            await report.step(STEPS[3], _tool_call(session, ear))
            await report.step(STEPS[4], _truncation(session, ear))
        finally:
            for task in tasks:
                task.cancel()


async def _say(session: Any) -> None:
    rate_hz = session.audio_input_sample_rate
    async for piece in paced(question_pcm(rate_hz), rate_hz):
        await session.send_audio(piece)


async def _turn(session: Any, ear: Ear) -> str:
    since, before = len(ear.heard), ear.audio_bytes
    await _say(session)
    await ear.event(RealtimeTurnCompleteEvent, since=since)
    said = ear.answers()[-1].transcript or ""
    expect("42" in said, said)
    seconds = (ear.audio_bytes - before) / 2 / session.audio_output_sample_rate
    expect(seconds > 1, f"{seconds} s of answer")
    return f"{seconds:.1f} s: {said}"


async def _interruption(session: Any, ear: Ear) -> str:
    since, before, answers = len(ear.heard), ear.audio_bytes, len(ear.answers())
    await _say(session)
    await ear.until(lambda: ear.audio_bytes > before)
    again = len(ear.heard)
    await _say(session)
    await ear.event(RealtimeInputSpeechStartEvent, since=again)
    await ear.until(lambda: len(ear.answers()) >= answers + 2)
    await ear.event(RealtimeTurnCompleteEvent, since=again)
    expect(any(isinstance(one, RealtimeTurnCompleteEvent) for one in ear.heard[since:]), "no turn was completed")
    said = ear.answers()[-1].transcript or ""
    expect("42" in said, said)
    return "speech started over the answer, then answered anew"


async def _tool_call(session: Any, ear: Ear) -> str:
    since = len(ear.heard)
    await session.send("Weather in Paris?")
    result = await ear.event(FunctionToolResultEvent, since=since)
    expect("Paris" in str(result), str(result))
    await ear.event(RealtimeTurnCompleteEvent, since=ear.heard.index(result))
    said = ear.answers()[-1].transcript or ""
    expect("24" in said, said)
    return said


async def _truncation(session: Any, ear: Ear) -> str:
    since = len(ear.heard)
    await _say(session)
    ended = await ear.event(RealtimeInputSpeechEndEvent, since=since)
    before, answers = ear.audio_bytes, len(ear.answers())
    await ear.until(lambda: ear.audio_bytes > before + session.audio_output_sample_rate)
    await session.interrupt(played_ms=300)
    await ear.event(RealtimeTurnCompleteEvent, since=ear.heard.index(ended))
    await ear.until(lambda: len(ear.answers()) > answers)
    cut = ear.answers()[-1].transcript or ""
    expect("Hello".startswith(cut[:5]) and "42" not in cut, cut)
    return f"kept {cut!r}"


if __name__ == "__main__":
    run("pydantic-ai", "pydantic-ai-slim", converse)
