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
    ContinueAnswer,
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
    Recipe,
    Request,
    ResetInput,
    ToolOutput,
)

from ..agenda import Agenda
from ..floor import Answer, AnswerCut, Floor
from ..pcm import ms_in, samples_in, tone
from ..units import Units, UnitShape
from .script import Step

MOST_SILENT_UNITS = 8
"""How long an answer goes on, where the client asks for each, when the caller sends nothing any more."""
LOUD_VERBS = frozenset({"speak", "audio_ms", "text", "finish", "function_call", "measure"})


@dataclass(frozen=True, slots=True)
class Stage:
    """What a session plays on. With ``units`` it is paced by them instead of by the clock.

    ``answers_by_itself``: the model decides when to speak, and says of every unit in which it does not that it listens.
    """

    lead_ms: int | None
    chunk_ms: int = 160
    input_rate_hz: int = 16_000
    output_rate_hz: int = 24_000
    transcribes: bool = True
    units: UnitShape | None = None
    answers_by_itself: bool = True
    can_rebuild: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """One step being played, from its action number ``since`` on.

    ``response_id`` when it answers a request, ``quiet`` when it must not speak, ``aloud`` unless only text is wanted.
    ``again``: its answer was begun by another worker.
    """

    step: Step
    response_id: str | None = None
    quiet: bool = False
    aloud: bool = True
    since: int = 0
    again: ContinueAnswer | None = None


class ScriptedSession:
    """Plays one script. Steps that listen, cut or report run at once; steps that speak wait for each other."""

    def __init__(self, request: OpenModel, emit: Emit, script: tuple[Step, ...], stage: Stage) -> None:
        self._stage = stage
        self._units = _units(stage)
        self._floor = Floor(emit, output_rate_hz=stage.output_rate_hz, lead_ms=stage.lead_ms)
        self._floor.adopt(request.epoch)
        self._speaking = Agenda(self._floor, f"scripted {request.session_id}")
        self._beside: list[Agenda] = []
        self._name = f"scripted {request.session_id}"
        self._script = script
        self._steps = list(script)
        self._samples = 0
        self._clock_ms = 0
        self._arrived = asyncio.Event()
        if not request.resumed:
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
            case ContinueAnswer():
                self._floor.adopt(request.epoch)
                self._continue(request)
            case ToolOutput():
                self._floor.adopt(request.epoch)
                if request.respond:
                    self._play("tool_output")
            case Interrupt():
                self._floor.stop(request.epoch)
                self._speaking.drop(request.epoch)
                self._play("interrupt")
            case ResetInput():
                self._floor.adopt(request.epoch)
                if self._units is not None:
                    self._units.drop()
                self._play("reset_input")
            case CloseModel():
                self._floor.close()
                await self._speaking.close()
                for agenda in self._beside:
                    await agenda.close()

    def _hear(self, request: FeedAudio) -> None:
        self._floor.adopt(request.epoch)
        self._clock_ms = request.end_ms
        samples = len(request.pcm) // 4
        self._samples += samples
        self._arrived.set()
        self._arrived = asyncio.Event()
        for step in [s for s in self._steps if s.on == "audio_ms" and s.at_ms <= self._heard_ms]:
            self._steps.remove(step)
            self._start(Run(step))
        if self._units is not None:
            self._listen_to(self._units.hear(samples))

    @property
    def _heard_ms(self) -> int:
        return ms_in(self._samples, self._stage.input_rate_hz)

    def _listen_to(self, units: int) -> None:
        """Decide once for every unit: it is part of an answer, or it was listened to."""
        if self._stage.answers_by_itself and self._floor.answer is None and self._speaking.is_idle:
            for _ in range(units):
                self._floor.listen("model_listen")

    def _end_turn(self, request: EndTurn) -> None:
        self._floor.adopt(request.epoch)
        step = self._next("end_turn")
        transcript = step.transcript if step else ""
        if self._stage.transcribes:
            self._floor.report(ModelHeardTurn(epoch=self._floor.epoch, transcript=transcript, item_id=request.item_id))
        if self._units is not None:
            self._units.pad()
        if step is not None:
            self._start(Run(step, quiet=not request.respond))
        if step is not None and request.respond:
            return
        if self._units is not None and request.respond and not self._stage.answers_by_itself:
            self._speaking.add(self._floor.epoch, self._listen_on)
        else:
            self._floor.listen("model_listen")

    async def _listen_on(self) -> None:
        """Listen for as long as a model may that was asked to answer, then say so."""
        assert self._units is not None
        self._units.begin()
        while await self._units.next():
            pass
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
        for number, action in enumerate(run.step.do[run.since :], run.since):
            if run.quiet and not LOUD_VERBS.isdisjoint(action):
                continue
            if not self._is_catching_up(run) or not LOUD_VERBS.isdisjoint(action):
                await self._act(action, run, number)
        answer = self._floor.answer
        if run.again is not None and answer is not None and answer.falls_short:
            answer.fail("worker_lost", "the answer went on in a step that is over")

    def _is_catching_up(self, run: Run) -> bool:
        """Whether the caller has had what is played now: what was done beside it is not done again."""
        answer = self._floor.answer
        return run.again is not None and answer is not None and answer.is_catching_up

    def _continue(self, request: ContinueAnswer) -> None:
        """Play the step of the recipe once more; the steps that were played before it are used up."""
        match request.recipe.notes:
            case {"played": list(played), "step": int(number), "since": int(since), "aloud": bool(aloud)} if (
                number < len(self._script)
            ):
                self._steps = [step for place, step in enumerate(self._script) if place not in played]
                run = Run(self._script[number], request.response_id, aloud=aloud, since=since, again=request)
                self._speaking.add(self._floor.epoch, functools.partial(self._perform_step, run))
            case _:
                self._floor.report(ModelFailed(epoch=request.epoch, code="worker_lost", message="no such step"))

    def _recipe(self, run: Run, number: int) -> Recipe | None:
        """How to play this answer again: it begins with action ``number`` of its step."""
        if not self._stage.can_rebuild:
            return None
        left = {id(step) for step in self._steps}
        played = [place for place, step in enumerate(self._script) if id(step) not in left]
        place = next(place for place, step in enumerate(self._script) if step is run.step)
        return Recipe(notes={"played": played, "step": place, "since": number, "aloud": run.aloud})

    async def _act(self, action: Mapping[str, Any], run: Run, number: int) -> None:
        match action:
            case {"audio_ms": int()} if not run.aloud:
                self._answer(run, number).write(action.get("text", ""))
            case {"audio_ms": int()}:
                await self._sound(action, self._answer(run, number))
            case {"text": str(text)}:
                self._answer(run, number).write(text)
            case {"speak": True}:
                self._answer(run, number)
            case {"measure": dict(stages)}:
                self._answer(run, number).measure(stages)
            case {"finish": True}:
                self._answer(run, number).finish()
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
                while max(self._heard_ms, self._clock_ms) < until_ms:
                    await self._arrived.wait()
            case _:
                self._report_hearing(action)

    def _answer(self, run: Run, number: int) -> Answer:
        if self._floor.answer is not None:
            return self._floor.answer
        if self._units is not None:
            self._units.begin()
        again = run.again if number == run.since else None
        return self._floor.begin(run.response_id, recipe=self._recipe(run, number), again=again)

    async def _sound(self, action: Mapping[str, Any], answer: Answer) -> None:
        await self._say(action, answer)
        while action.get("endless") is True:
            await self._say(action, answer)

    async def _say(self, action: Mapping[str, Any], answer: Answer) -> None:
        rate_hz, endless = self._stage.output_rate_hz, action.get("endless") is True
        total = samples_in(action["audio_ms"], rate_hz)
        chunk_ms = self._units.period_ms if self._units else action.get("chunk_ms", self._stage.chunk_ms)
        chunk = max(1, samples_in(chunk_ms, rate_hz))
        words = re.findall(r"\s*\S+\s*", action.get("text", ""))
        told = 0
        for at in range(0, total, chunk):
            size = min(chunk, total - at)
            # A word belongs to the chunk it begins in; words are spread evenly.
            until = len(words) if at + size >= total else -(-(at + size) * len(words) // total)
            pcm = tone(answer.samples, size, action.get("tone_hz", 440), rate_hz)
            paced = self._units is None and action.get("pace", "real") == "real"
            if answer.is_catching_up:
                await answer.say(pcm, "".join(words[told:until]), paced=paced)
                told = max(told, until)
                continue
            if self._units is not None and not await self._units.next(endless=endless):
                answer.finish()
                raise AnswerCut
            if endless and self._units is None and self._stage.lead_ms is None:
                await asyncio.sleep(size / rate_hz)
            await answer.say(pcm, "".join(words[told:until]), paced=paced)
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


def _units(stage: Stage) -> Units | None:
    if stage.units is None:
        return None
    most = None if stage.answers_by_itself else MOST_SILENT_UNITS
    return Units(stage.units, stage.input_rate_hz, real_time=stage.lead_ms is not None, most_silence=most)
