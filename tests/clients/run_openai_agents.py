"""``openai-agents``: a realtime session with a tool, as its documentation shows it; the strictest client there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner
from report import STEPS, Report, expect, run
from sound import paced, question_pcm


class Ear:
    """Everything a session reports: ``raw`` are the server's events, ``said`` the session's own."""

    def __init__(self, session: Any, report: Report) -> None:
        self._session = session
        self._report = report
        self._news = asyncio.Event()
        self.raw: list[dict[str, Any]] = []
        self.said: list[Any] = []

    async def listen(self) -> None:
        """Read the session; its errors are what it would not accept."""
        async for event in self._session:
            if event.type == "raw_model_event" and event.data.type == "raw_server_event":
                self.raw.append(event.data.data)
            elif event.type == "raw_model_event" and event.data.type == "exception":
                self._report.validation_errors.append(f"{event.data.context}: {event.data.exception}"[:600])
            elif event.type == "error":
                self._report.validation_errors.append(f"error: {event.error}"[:600])
            else:
                self.said.append(event)
            self._news.set()

    async def until(self, find: Callable[[], Any]) -> Any:
        """What ``find`` returns, as soon as it is true."""
        while not (found := find()):
            self._news.clear()
            await self._news.wait()
        return found

    async def raw_event(
        self, kind: str, fits: Callable[[dict[str, Any]], bool] = lambda event: True, *, since: int = 0
    ) -> dict[str, Any]:
        """The first server event of this type, among those after ``since``, that fits."""
        found: dict[str, Any] = await self.until(
            lambda: next((event for event in self.raw[since:] if event["type"] == kind and fits(event)), None)
        )
        return found


@function_tool
def get_weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: The name of the city.
    """
    return f"24 degrees and clear in {city}"


async def converse(url: str, report: Report) -> None:
    """Two turns, an interruption (which truncates by itself), and a tool the session calls."""
    agent = RealtimeAgent(name="host", instructions="Be brief.", tools=[get_weather])
    settings = {"model_name": "cascade", "voice": "ash"}
    runner = RealtimeRunner(starting_agent=agent)
    config: Any = {"url": f"{url}?model=cascade", "api_key": "none", "initial_model_settings": settings}
    async with await runner.run(model_config=config) as session:
        ear = Ear(session, report)
        listening = asyncio.create_task(ear.listen())
        try:
            await ear.raw_event("session.updated")
            await report.step(STEPS[0], _turn(session, ear))
            await report.step(STEPS[1], _turn(session, ear))
            await report.step(STEPS[2], _interruption(session, ear))
            await report.step(STEPS[3], _tool_call(session, ear))
            await report.step(STEPS[4], _truncation(ear))
        finally:
            listening.cancel()


async def _say(session: Any) -> None:
    async for piece in paced(question_pcm()):
        await session.send_audio(piece)


async def _turn(session: Any, ear: Ear) -> str:
    since, begun = len(ear.raw), len(ear.said)
    await _say(session)
    done = await ear.raw_event("response.done", since=since)
    expect(done["response"]["status"] == "completed", str(done))
    await ear.until(lambda: any(event.type == "agent_end" for event in ear.said[begun:]))
    audio = b"".join(event.audio.data for event in ear.said[begun:] if event.type == "audio")
    kinds = {event.type for event in ear.said[begun:]}
    expect({"agent_start", "audio", "audio_end", "history_updated"} <= kinds, f"only {sorted(kinds)}")
    spoken = (await ear.raw_event("response.output_audio_transcript.done", since=since))["transcript"]
    expect("42" in spoken, spoken)
    return f"{len(audio) / 48_000:.1f} s: {spoken}"


async def _interruption(session: Any, ear: Ear) -> str:
    since, begun = len(ear.raw), len(ear.said)
    await _say(session)
    await ear.until(lambda: any(event.type == "audio" for event in ear.said[begun:]))
    await _say(session)
    cut = await ear.raw_event("response.done", since=since)
    expect(cut["response"]["status"] == "cancelled", cut["response"]["status"])
    await ear.until(lambda: any(event.type == "audio_interrupted" for event in ear.said[begun:]))
    done = await ear.raw_event("response.done", since=ear.raw.index(cut) + 1)
    expect(done["response"]["status"] == "completed", done["response"]["status"])
    return "audio_interrupted, then answered anew"


async def _tool_call(session: Any, ear: Ear) -> str:
    since, begun = len(ear.raw), len(ear.said)
    await session.send_message("Weather in Paris?")
    ended = await ear.until(lambda: next((event for event in ear.said[begun:] if event.type == "tool_end"), None))
    expect("Paris" in ended.output, str(ended.output))
    told = "response.output_audio_transcript.done"
    spoken = await ear.raw_event(told, lambda event: "24" in event["transcript"], since=since)
    await ear.raw_event("response.done", since=ear.raw.index(spoken))
    return str(spoken["transcript"])


async def _truncation(ear: Ear) -> str:
    truncated = await ear.raw_event("conversation.item.truncated")
    return f"cut at {truncated['audio_end_ms']} ms by the session itself"


if __name__ == "__main__":
    run("openai-agents", "openai-agents", converse)
