"""``pipecat-ai``: ``OpenAIRealtimeLLMService`` between its context aggregators in a running pipeline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pipecat.adapters.schemas.function_schema import FunctionSchema
from pipecat.adapters.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMRunFrame,
    LLMSetToolsFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner
from report import STEPS, Report, expect, run
from sound import paced, question_pcm

RATE_HZ = 24_000


class Ear(FrameProcessor):
    """Stands where the speakers would be; ``raw`` are the server's events as the service's parser was given them."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report
        self._news = asyncio.Event()
        self.raw: list[dict[str, Any]] = []
        self.heard: list[Frame] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Note the frame and pass it on."""
        await super().process_frame(frame, direction)
        self.heard.append(frame)
        self._news.set()
        await self.push_frame(frame, direction)

    def overhear(self) -> None:
        """Keep what the service reads beside what it makes of it."""
        parse = events.parse_server_event

        def parsed(text: str) -> Any:
            event = json.loads(text)
            self.raw.append(event)
            self._news.set()
            try:
                return parse(text)
            except Exception as error:
                self._report.validation_errors.append(f"{event.get('type')}: {error}"[:600])
                raise

        events.parse_server_event = parsed

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

    def audio_s(self, since: int) -> float:
        """Seconds of sound among the frames after ``since``."""
        frames = (frame for frame in self.heard[since:] if isinstance(frame, TTSAudioRawFrame))
        return sum(len(frame.audio) for frame in frames) / 2 / RATE_HZ


async def converse(url: str, report: Report) -> None:
    """A greeting (the service needs a context to begin), two turns, an interruption with its truncation, and a tool."""
    settings = OpenAIRealtimeLLMService.Settings(model="cascade", system_instruction="Be brief.")
    service = OpenAIRealtimeLLMService(api_key="none", base_url=url, settings=settings)
    context = LLMContext(messages=[{"role": "user", "content": "Hello!"}])
    pair = LLMContextAggregatorPair(context)
    ear = Ear(report)
    ear.overhear()
    pipeline = Pipeline([pair.user(), service, ear, pair.assistant()])
    worker = PipelineWorker(pipeline, params=PipelineParams(audio_in_sample_rate=RATE_HZ), enable_rtvi=False)

    @worker.event_handler("on_pipeline_error")
    async def on_error(worker: Any, frame: Any) -> None:
        report.validation_errors.append(f"error: {frame.error}"[:600])

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    try:
        await worker.queue_frame(LLMRunFrame())
        await ear.raw_event("response.done")
        await report.step(STEPS[0], _turn(worker, ear))
        await report.step(STEPS[1], _turn(worker, ear))
        await report.step(STEPS[2], _interruption(worker, ear))
        await report.step(STEPS[3], _tool_call(worker, service, ear))
        await report.step(STEPS[4], _truncation(ear))
    finally:
        await worker.queue_frame(EndFrame())
        await asyncio.wait([running], timeout=10)
        running.cancel()


async def _say(worker: Any) -> None:
    async for piece in paced(question_pcm(RATE_HZ)):
        await worker.queue_frame(InputAudioRawFrame(audio=piece, sample_rate=RATE_HZ, num_channels=1))


async def _turn(worker: Any, ear: Ear) -> str:
    since, begun = len(ear.raw), len(ear.heard)
    await _say(worker)
    spoken = await ear.raw_event("response.output_audio_transcript.done", since=since)
    done = await ear.raw_event("response.done", since=ear.raw.index(spoken))
    expect(done["response"]["status"] == "completed", done["response"]["status"])
    expect("42" in spoken["transcript"], spoken["transcript"])
    text = "".join(frame.text for frame in ear.heard[begun:] if isinstance(frame, TTSTextFrame))
    expect(text == spoken["transcript"], f"the pipeline heard {text!r}")
    expect(ear.audio_s(begun) > 1, f"{ear.audio_s(begun)} s of answer")
    return f"{ear.audio_s(begun):.1f} s: {text}"


async def _interruption(worker: Any, ear: Ear) -> str:
    since, begun = len(ear.raw), len(ear.heard)
    await _say(worker)
    await ear.until(lambda: ear.audio_s(begun))
    await _say(worker)
    cut = await ear.raw_event("response.done", since=since)
    expect(cut["response"]["status"] == "cancelled", cut["response"]["status"])
    await ear.until(lambda: any(isinstance(frame, InterruptionFrame) for frame in ear.heard[begun:]))
    done = await ear.raw_event("response.done", since=ear.raw.index(cut) + 1)
    expect(done["response"]["status"] == "completed", done["response"]["status"])
    return "InterruptionFrame, then answered anew"


async def _tool_call(worker: Any, service: Any, ear: Ear) -> str:
    called = []

    async def times_table(params: Any) -> None:
        called.append(params.arguments)
        await params.result_callback({"product": "exactly 42"})

    service.register_function("times_table", times_table)
    tool = FunctionSchema(name="times_table", description="Multiplies two numbers", properties={}, required=[])
    await worker.queue_frame(LLMSetToolsFrame(tools=ToolsSchema(standard_tools=[tool])))
    since = len(ear.raw)
    await ear.raw_event("session.updated", lambda event: bool(event["session"]["tools"]), since=since)
    await _say(worker)
    await ear.until(lambda: called)
    told = await ear.raw_event(
        "response.output_audio_transcript.done", lambda event: "42" in event["transcript"], since=since
    )
    await ear.raw_event("response.done", since=ear.raw.index(told))
    return str(told["transcript"])


async def _truncation(ear: Ear) -> str:
    truncated = await ear.raw_event("conversation.item.truncated")
    return f"cut at {truncated['audio_end_ms']} ms by the service itself"


if __name__ == "__main__":
    run("pipecat-ai", "pipecat-ai", converse)
