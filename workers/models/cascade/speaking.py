"""The mouth and the memory of one session: decides on answers through the mind, says them, remembers what was said."""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import AsyncGenerator

import numpy as np

from duplex_es.model import ContinueAnswer, Generate, HistoryItem, ModelFailed, OpenModel, ReconfigureModel, ToolOutput

from ..agenda import Agenda, Work
from ..floor import Answer, Floor
from ..pcm import int16_bytes, samples_in
from ..speech.tts import RATE_HZ
from ..speech.words import spread
from ..stages import SOUND, WORDS, sounding
from .dialogue.scene import Line, Manner, Part, Say, Scene, read_tools
from .dialogue.smalltalk import manner_of
from .measuring import Thinking
from .parts import Parts
from .plans import Called, Plan, Step, step_of

Reply = AsyncGenerator[Part, None]

CHUNK = samples_in(160, RATE_HZ)
NOTHING_TO_HEAR = np.zeros(samples_in(20, RATE_HZ), np.float32)
MOST_LINES = 400
_SAY = re.compile(
    r"^\s*(?:please\s+)?(?:say|read aloud|tell the (?:user|caller)):?\s+[\"']?(.+?)[\"']?\s*$", re.I | re.S
)


class Speaking:
    """Answers one after another. All of its memory is rebuilt from ``OpenModel.history``."""

    def __init__(self, floor: Floor, parts: Parts, name: str, request: OpenModel) -> None:
        self._floor = floor
        self._parts = parts
        self._answers = Agenda(floor, f"{name}, speaking")
        self._lines = [_line(item) for item in request.history]
        self._transcripts: dict[str, str] = {}
        self._told: set[str] = set()
        self.configure(request)

    def configure(self, request: OpenModel | ReconfigureModel) -> None:
        """Take over settings; they hold from the next answer on."""
        self._instructions = request.instructions
        self._temperature = request.temperature
        self._tools = read_tools(request.tools)
        self._aloud = "audio" in request.modalities

    def remember_heard(self, text: str, item_id: str | None) -> None:
        """The caller said this."""
        self._lines.append(Line("user", text))
        if item_id is not None:
            self._transcripts[item_id] = text

    def answer(self, epoch: int, *, heard_s: float = 0.0) -> None:
        """Answer what was remembered last; it took ``heard_s`` to understand, counted as part of the answer's words."""
        work = functools.partial(self._answer_to, self._lines[-1], None, self._aloud, heard_s)
        self._answers.add(epoch, work)

    def generate(self, request: Generate) -> None:
        """Answer the history of the request; it replaces the memory. An interrupted request is forgotten."""
        if request.epoch < self._floor.epoch:
            return
        self._lines = [_line(item, self._transcripts.get(item.item_id, "")) for item in request.history]
        aloud = "audio" in request.modalities
        last = self._lines[-1] if self._lines else None
        work: Work
        if last is not None and last.role == "tool":
            work = functools.partial(self._tell, last, request.response_id, aloud)
        else:
            line = next((line for line in reversed(self._lines) if line.role == "user"), Line("user", ""))
            work = functools.partial(self._answer_to, line, request, aloud)
        self._answers.add(request.epoch, work)

    def again(self, request: ContinueAnswer) -> None:
        """Give the answer that another worker had begun, before any other."""
        plan = Plan.of(request.recipe)
        if plan is None:
            self._floor.report(ModelFailed(epoch=request.epoch, code="worker_lost", message="no such answer"))
            return
        if plan.told is not None:
            self._told.add(plan.told)
        self._answers.add(request.epoch, functools.partial(self._carry_out, plan, request.response_id, request))

    def tool_output(self, request: ToolOutput, *, aloud: bool) -> None:
        """Remember a tool's output; with ``aloud`` also say it, as an answer of its own."""
        line = Line("tool", request.output, request.call_id)
        self._lines.append(line)
        if aloud and request.epoch >= self._floor.epoch:
            self._answers.add(request.epoch, functools.partial(self._tell, line, None, self._aloud))

    def interrupted(self, epoch: int, heard_text: str | None) -> None:
        """Stop all answers older than ``epoch``; of the last one only ``heard_text`` was heard, if that is known."""
        self._answers.drop(epoch)
        if heard_text is not None:
            spoken = (line for line in reversed(self._lines) if line.role == "assistant" and line.call_id is None)
            if line := next(spoken, None):
                line.text = heard_text

    async def close(self) -> None:
        """Say nothing more."""
        await self._answers.close()

    async def _answer_to(self, line: Line, request: Generate | None, aloud: bool, heard_s: float = 0.0) -> None:
        scene = self._scene(line.text, [other for other in self._lines if other is not line], request)
        wish = _SAY.match(request.instructions or "") if request is not None else None
        parts = _just(wish.group(1)) if wish else self._parts.mind.reply(scene)
        response_id = request.response_id if request is not None else None
        await self._give(scene, parts, response_id, aloud, thinking=Thinking(heard_s=heard_s))

    async def _tell(self, line: Line, response_id: str | None, aloud: bool) -> None:
        # The client may ask for the answer that is already on its way: then it gets one, not two.
        if response_id is None and line.call_id in self._told:
            return
        self._told.add(line.call_id or "")
        scene = self._scene("", self._lines, None)
        parts = self._parts.mind.tell_output(scene, line.text)
        await self._give(scene, parts, response_id, aloud, told=line.call_id)

    def _scene(self, utterance: str, past: list[Line], request: Generate | None) -> Scene:
        del self._lines[:-MOST_LINES]
        return Scene(
            utterance=utterance,
            past=list(past),
            now=self._parts.clock(),
            instructions=(request.instructions if request is not None else None) or self._instructions,
            tools=self._tools if request is None or request.tools is None else read_tools(request.tools),
            temperature=request.temperature if request is not None else self._temperature,
            max_tokens=request.max_output_tokens if request is not None else None,
        )

    async def _give(
        self,
        scene: Scene,
        parts: AsyncGenerator[Part, None],
        response_id: str | None,
        aloud: bool,
        told: str | None = None,
        thinking: Thinking | None = None,
    ) -> None:
        manner = manner_of(scene.user_lines())
        thinking = thinking or Thinking()
        async with contextlib.aclosing(parts) as stream:
            if not self._parts.mind.plans_ahead:
                await self._improvise(stream, thinking, manner, response_id, aloud)
                return
            steps = [step_of(part) async for part in thinking.watch(stream)]
        if steps:
            await self._carry_out(Plan(tuple(steps), manner, aloud, told), response_id, thinking=thinking)

    async def _carry_out(
        self,
        plan: Plan,
        response_id: str | None,
        again: ContinueAnswer | None = None,
        *,
        thinking: Thinking | None = None,
    ) -> None:
        """Give an answer that is known as a whole; another worker could do it, too."""
        answer = self._floor.begin(response_id, recipe=plan.recipe(), again=again)
        if thinking is not None:
            answer.measure({WORDS: thinking.told()})
        line = Line("assistant", "")
        self._lines.append(line)
        for step in plan.steps:
            await self._take(step, answer, line, plan.manner, plan.aloud)
        answer.finish()

    async def _improvise(
        self,
        stream: AsyncGenerator[Part, None],
        thinking: Thinking,
        manner: Manner,
        response_id: str | None,
        aloud: bool,
    ) -> None:
        """Give an answer that becomes known bit by bit."""
        answer: Answer | None = None
        line = Line("assistant", "")
        async for part in thinking.watch(stream):
            if answer is None:
                answer = self._floor.begin(response_id)
                self._lines.append(line)
            answer.measure({WORDS: thinking.told()})
            await self._take(step_of(part), answer, line, manner, aloud)
        if answer is not None:
            answer.measure({WORDS: thinking.told()})
            answer.finish()

    async def _take(self, step: Step, answer: Answer, line: Line, manner: Manner, aloud: bool) -> None:
        match step:
            case Called(call_id=call_id, name=name, arguments=arguments):
                if all(known.call_id != call_id for known in self._lines):
                    self._lines.append(Line("assistant", arguments, call_id, name))
                answer.call(call_id, name, arguments)
            case Say(text=text) if aloud:
                await self._say(answer, line, text, manner)
            case Say(text=text):
                answer.write(text)
                line.text = answer.text

    async def _say(self, answer: Answer, line: Line, text: str, manner: Manner) -> None:
        began_s = time.monotonic()
        samples = await self._parts.pronounce(text.strip(), speed=manner.speed, gain=manner.gain)
        answer.measure({SOUND: sounding(len(samples), RATE_HZ, work_s=time.monotonic() - began_s)})
        for piece, words in spread(text, samples if len(samples) else NOTHING_TO_HEAR, CHUNK):
            await answer.say(int16_bytes(piece), words)
            line.text = answer.text


async def _just(text: str) -> Reply:
    yield Say(text)


def _line(item: HistoryItem, transcript: str = "") -> Line:
    return Line(item.role, item.text or transcript, item.call_id, item.name)
