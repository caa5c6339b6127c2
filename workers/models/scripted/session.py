"""One session of the scripted model: matches events with steps and carries out their actions."""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duplex_es.model import (
    CloseModel,
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    Interrupt,
    ModelFailed,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    OpenModel,
    Request,
    ResetInput,
    ToolOutput,
)

from ..agenda import Agenda
from ..floor import DEFAULT_LEAD_MS, Answer, Floor
from ..pcm import samples_in, tone
from .script import Step

RATE_HZ = 24_000
LOUD_VERBS = frozenset({"speak", "audio_ms", "text", "finish", "function_call"})


@dataclass(frozen=True, slots=True)
class ScriptedOptions:
    """``script`` is a path or inline JSON. The others set the model's card and its pace.

    ``lead_ms`` is how far audio runs ahead of real time (``none``: as fast as possible).
    """

    script: str | None = None
    lead_ms: int | None = DEFAULT_LEAD_MS
    chunk_ms: int = 160
    auto_response: bool = True
    overlap_policy: str = "listen_only"
    can_rebuild: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """One step being played.

    ``response_id`` when it answers a request, ``quiet`` when it must not speak, ``aloud`` unless only text is wanted.
    """

    step: Step
    response_id: str | None = None
    quiet: bool = False
    aloud: bool = True


class ScriptedSession:
    """Plays one script. Steps that listen, cut or report run at once; steps that speak wait for each other."""

    def __init__(self, request: OpenModel, emit: Emit, script: tuple[Step, ...], options: ScriptedOptions) -> None:
        self._options = options
        self._floor = Floor(emit, output_rate_hz=RATE_HZ, lead_ms=options.lead_ms)
        self._floor.adopt(request.epoch)
        self._speaking = Agenda(self._floor, f"scripted {request.session_id}")
        self._beside: list[Agenda] = []
        self._name = f"scripted {request.session_id}"
        self._steps = list(script)
        self._heard_ms = 0
        self._clock_ms = 0
        self._arrived = asyncio.Event()
        self._play("open")

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._hear(request)
            case EndTurn():
                self._end_turn(request)
            case Generate():
                self._floor.adopt(request.epoch)
                if not self._play("generate", request.response_id, "audio" in request.modalities):
                    self._floor.listen("model_listen", request.response_id)
            case ToolOutput():
                self._floor.adopt(request.epoch)
                self._play("tool_output")
            case Interrupt():
                self._floor.stop(request.epoch)
                self._speaking.drop(request.epoch)
                self._play("interrupt")
            case ResetInput():
                self._floor.adopt(request.epoch)
                self._play("reset_input")
            case CloseModel():
                self._floor.close()
                await self._speaking.close()
                for agenda in self._beside:
                    await agenda.close()

    def _hear(self, request: FeedAudio) -> None:
        self._floor.adopt(request.epoch)
        self._clock_ms = request.end_ms
        self._heard_ms += len(request.pcm) // 64  # 16 float32 samples a millisecond
        self._arrived.set()
        self._arrived = asyncio.Event()
        for step in [s for s in self._steps if s.on == "audio_ms" and s.at_ms <= self._heard_ms]:
            self._steps.remove(step)
            self._start(Run(step))

    def _end_turn(self, request: EndTurn) -> None:
        self._floor.adopt(request.epoch)
        step = self._next("end_turn")
        transcript = step.transcript if step else ""
        self._floor.report(ModelHeardTurn(epoch=self._floor.epoch, transcript=transcript, item_id=request.item_id))
        if step is not None:
            self._start(Run(step, quiet=not request.respond))
        if step is None or not request.respond:
            self._floor.listen("model_listen")

    def _next(self, event: str) -> Step | None:
        step = next((s for s in self._steps if s.on == event), None)
        if step is not None and not step.every:
            self._steps.remove(step)
        return step

    def _play(self, event: str, response_id: str | None = None, aloud: bool = True) -> bool:
        step = self._next(event)
        if step is not None:
            self._start(Run(step, response_id, aloud=aloud))
        return step is not None

    def _start(self, run: Run) -> None:
        loud = not run.quiet and any(not LOUD_VERBS.isdisjoint(action) for action in run.step.do)
        agenda = self._speaking if loud else self._side()
        agenda.add(self._floor.epoch, functools.partial(self._perform_step, run))

    def _side(self) -> Agenda:
        self._beside = [agenda for agenda in self._beside if not agenda.is_idle]
        self._beside.append(Agenda(self._floor, f"{self._name}, beside"))
        return self._beside[-1]

    async def _perform_step(self, run: Run) -> None:
        for action in run.step.do:
            if run.quiet and not LOUD_VERBS.isdisjoint(action):
                continue
            await self._act(action, run)

    async def _act(self, action: Mapping[str, Any], run: Run) -> None:
        match action:
            case {"audio_ms": int()} if not run.aloud:
                self._answer(run).write(action.get("text", ""))
            case {"audio_ms": int()}:
                await self._sound(action, self._answer(run))
            case {"text": str(text)}:
                self._answer(run).write(text)
            case {"speak": True}:
                self._answer(run)
            case {"finish": True}:
                self._answer(run).finish()
            case {"listen": str(reason)}:
                self._floor.listen(reason, run.response_id)
            case {"interrupt": str(reason)}:
                self._floor.interrupt(reason)
                self._speaking.drop(self._floor.epoch)
            case {"function_call": dict(call)}:
                arguments = call.get("arguments", {})
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                self._floor.call(call.get("call_id"), call.get("name"), text)
            case {"fail": dict(failure)}:
                self._fail(failure)
            case {"wait_ms": wait_ms}:
                await asyncio.sleep(wait_ms / 1000)
            case {"wait_audio_ms": int(until_ms)}:
                while self._heard_ms < until_ms:
                    await self._arrived.wait()
            case _:
                self._report_hearing(action)

    def _answer(self, run: Run) -> Answer:
        return self._floor.answer or self._floor.begin(run.response_id)

    async def _sound(self, action: Mapping[str, Any], answer: Answer) -> None:
        total = samples_in(action["audio_ms"], RATE_HZ)
        chunk = max(1, samples_in(action.get("chunk_ms", self._options.chunk_ms), RATE_HZ))
        words = re.findall(r"\s*\S+\s*", action.get("text", ""))
        told = 0
        for at in range(0, total, chunk):
            size = min(chunk, total - at)
            # A word belongs to the chunk it begins in; words are spread evenly.
            until = len(words) if at + size >= total else -(-(at + size) * len(words) // total)
            pcm = tone(answer.samples, size, action.get("tone_hz", 440), RATE_HZ)
            await answer.say(pcm, "".join(words[told:until]), paced=action.get("pace", "real") == "real")
            told = max(told, until)

    def _fail(self, failure: Mapping[str, Any]) -> None:
        code, message = str(failure.get("code", "response_error")), str(failure.get("message", "the script says so"))
        fatal = failure.get("fatal") is True
        if self._floor.answer is not None:
            self._floor.answer.fail(code, message, fatal=fatal)
        else:
            self._floor.report(ModelFailed(epoch=self._floor.epoch, code=code, message=message, fatal=fatal))

    def _report_hearing(self, action: Mapping[str, Any]) -> None:
        epoch = self._floor.epoch
        match action:
            case {"heard": str(transcript)}:
                self._floor.report(ModelHeardTurn(epoch=epoch, transcript=transcript))
            case {"heard": dict(heard)}:
                transcript, audio_ms = str(heard.get("transcript", "")), int(heard.get("audio_ms", 0))
                self._floor.report(ModelHeardTurn(epoch=epoch, transcript=transcript, audio_ms=audio_ms))
            case {"heard_speech": at}:
                self._floor.report(ModelHeardSpeech(epoch=epoch, start_ms=self._clock_ms if at is True else int(at)))
            case {"heard_speech_end": at}:
                end_ms = self._clock_ms if isinstance(at, bool | str) else int(at)
                self._floor.report(ModelHeardSpeechEnd(epoch=epoch, end_ms=end_ms, is_turn=at != "noise"))
