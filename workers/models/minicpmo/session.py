"""One caller of a model that works in units: sound leaves in units, decisions come back as signals."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from duplex_es.model import (
    CloseModel,
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    ModelDroppedInput,
    ModelFailed,
    OpenModel,
    ReconfigureModel,
    Request,
    ResetInput,
    StageMetrics,
)
from workers.engine.contract import EngineFacts, Stepped
from workers.engine.process import EngineProcess
from workers.engine.units import UnitDone

from ..floor import Floor
from ..seat import Seat
from ..stages import read_stages, sounding
from ..units import UnitShape
from .cutting import Cutter, Whole

OPENING_S = 60.0
MOST_SILENT_UNITS = 8
"""For how many silent units a model may go on listening that was asked to answer."""
STREAMS_S = 0.3
"""Whoever sent sound so lately is taken to be sending on: the next unit is waited for, a little."""

_NUMBERS = itertools.count()


@dataclass(slots=True)
class _Asked:
    """An answer is wanted, of ``response_id`` if it has one; ``left`` more silent units are tried for it."""

    response_id: str | None = None
    left: int = MOST_SILENT_UNITS


class UnitSession:
    """Owns one object of the engine, or waits for one after the engine was lost.

    The model decides with every unit. While it speaks, or was asked to, and the caller sends nothing, silent units take
    the place of the caller's, no more than one ahead of what is being played. What was asked for before an interruption
    comes to nothing: units are numbered, and those up to there are not listened to any more.

    After the engine died the session goes on in the next one with its settings, its voice and the words of the
    conversation; how they sounded is lost, and an answer that was open ends as ``worker_lost``.
    """

    def __init__(
        self,
        engine: EngineProcess,
        facts: EngineFacts,
        request: OpenModel,
        emit: Emit,
        voice: bytes,
        *,
        answers_by_itself: bool,
        real_time: bool = True,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._engine = engine
        self._facts = facts
        self._request = request
        self._voice = voice
        self._auto = answers_by_itself
        self._real_time = real_time
        self._now_s = now_s or loop.time
        self._floor = Floor(emit, output_rate_hz=facts.output_rate_hz, lead_ms=None, now_s=self._now_s)
        self._floor.adopt(request.epoch)
        self._history = list(request.history)
        self._shape = UnitShape(facts.frame_ms, facts.first_ms or None)
        self._cutter = Cutter(self._shape, facts.input_rate_hz)
        name = f"{request.session_id}:{request.incarnation}:{next(_NUMBERS)}"
        self._seat = Seat(engine, facts, name, self)
        self._serial = 0
        self._settled = 0
        self._stale_until = 0
        self._ends_turn = False
        self._asked: _Asked | None = None
        self._aloud = "audio" in request.modalities
        self._words = ""
        self._heard_s = 0.0
        self._plays_until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Take an object and wait until it is prepared. Raises: ModelRefused, EngineLost."""
        self._begin()
        await self._seat.prepared(OPENING_S)

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._hear(request)
            case EndTurn():
                self._floor.adopt(request.epoch)
                self._end_turn(respond=request.respond)
            case Generate():
                self._floor.adopt(request.epoch)
                self._aloud = "audio" in request.modalities
                self._ask(_Asked(request.response_id))
            case Interrupt():
                self._interrupt(request)
            case ResetInput():
                self._floor.adopt(request.epoch)
                self._cutter.drop()
            case ReconfigureModel():
                self._aloud = "audio" in request.modalities
            case CloseModel():
                self.close()

    @property
    def is_open(self) -> bool:
        """Whether its caller is still there."""
        return self._seat.is_open

    def close(self) -> None:
        """Give the object back; nothing is signalled any more. Idempotent."""
        self._floor.close()
        self._stop_timer()
        self._seat.leave()

    def begin_again(self) -> None:
        """Go on in an engine that was started anew."""
        if self.is_open:
            self._begin()

    # -- what is asked ---------------------------------------------------------------------------------------------

    def _hear(self, request: FeedAudio) -> None:
        self._floor.adopt(request.epoch)
        self._heard_s = self._now_s()
        closed = self._cutter.hear(
            request.pcm, request.frames, is_speech=request.is_speech, forced=request.force_listen and not self._asked
        )
        for whole in closed:
            self._send(whole)

    def _end_turn(self, *, respond: bool) -> None:
        whole = self._cutter.end(forced=not respond)
        if whole is not None:
            self._send(whole)
        if not respond:
            self._floor.listen("model_listen")
        elif not self._auto:
            self._ask(_Asked())
        elif whole is None and self._floor.answer is None:
            self._floor.listen("model_listen")

    def _ask(self, asked: _Asked) -> None:
        self._asked = asked
        self._go_on()

    def _interrupt(self, request: Interrupt) -> None:
        cut = self._floor.stop(request.epoch)
        if cut is not None:
            self._remember("assistant", request.heard_text or "")
            self._ends_turn = True
        self._asked, self._words = None, ""
        self._stale_until, self._plays_until_s = self._serial, 0.0
        self._stop_timer()
        if self._seat.is_live:
            self._engine.interrupt(self._seat.name)

    # -- the engine's session --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._seat.life:
            self._cutter = Cutter(self._shape, self._facts.input_rate_hz)
        self._seat.begin(opening_of(self._request, self._history), self._voice)

    def _send(self, whole: Whole) -> None:
        if not self._seat.is_live:
            self._seat.missed(whole.pcm)
            return
        self._stop_timer()
        self._serial += 1
        forced, self._ends_turn = whole.forced or self._ends_turn, False
        self._engine.unit(self._seat.name, self._serial, whole.pcm, frames=whole.frames, forced=forced)

    def done(self, result: Stepped | UnitDone) -> None:
        """See ``Sitter``."""
        if isinstance(result, UnitDone):
            self._settled = result.serial
            if result.serial > self._stale_until:
                self._decide(result)
            self._go_on()

    def dropped(self, duration_ms: int) -> None:
        """See ``Sitter``."""
        self._floor.report(ModelDroppedInput(epoch=self._floor.epoch, duration_ms=duration_ms))

    def failed(self, code: str, message: str) -> None:
        """See ``Sitter``."""
        self._settled = self._serial
        self._fail(code, message, fatal=True)

    def lost(self) -> None:
        """See ``Sitter``. What it was saying ends here, and nothing of it comes back."""
        self._settled = self._serial
        self._lose_answer()

    # -- what comes back -------------------------------------------------------------------------------------------

    def _decide(self, done: UnitDone) -> None:
        if done.listens:
            self._listened()
        else:
            self._spoke(done)
        if done.ends and self._floor.answer is not None:
            self._finish()

    def _listened(self) -> None:
        if self._floor.answer is not None:
            self._finish()
        elif self._asked is not None:
            self._asked.left -= 1
            if self._asked.left <= 0:
                response_id, self._asked = self._asked.response_id, None
                self._floor.listen("model_listen", response_id)
        elif self._auto:
            self._floor.listen("model_listen")

    def _spoke(self, done: UnitDone) -> None:
        answer = self._floor.answer
        if answer is None:
            if not (self._auto or self._asked):
                return  # Nobody asked, and the model was told to listen: what it says all the same is not wanted.
            response_id = self._asked.response_id if self._asked else None
            self._asked, self._words = None, ""
            answer = self._floor.begin(response_id)
        answer.measure(stages_of(done, self._facts.output_rate_hz))
        self._words += done.text
        if not self._aloud:
            if done.text:
                answer.write(done.text)
        elif done.pcm:
            answer.produce(done.pcm, done.text)
            length_s = len(done.pcm) / 2 / self._facts.output_rate_hz
            self._plays_until_s = max(self._plays_until_s, self._now_s()) + length_s
        elif done.text and not self._auto:
            self._remember("assistant", self._words)
            answer.fail("runtime_data_plane_text_without_audio", "The model gave words without sound.")
        elif done.text:
            # Words belong to sound: the shortest that makes none of its own.
            answer.produce(bytes(2), done.text)

    def _finish(self) -> None:
        answer = self._floor.answer
        assert answer is not None
        self._remember("assistant", self._words)
        self._words = ""
        answer.finish()

    def _fail(self, code: str, message: str, *, fatal: bool = False) -> None:
        if self._floor.answer is not None:
            self._floor.answer.fail(code, message, fatal=fatal)
        else:
            self._floor.report(ModelFailed(epoch=self._floor.epoch, code=code, message=message, fatal=fatal))

    def _lose_answer(self) -> None:
        """The engine died: what it was saying ends here, and nothing of it comes back."""
        asked, self._asked = self._asked, None
        self._stop_timer()
        if self._floor.answer is not None:
            self._remember("assistant", self._words)
            self._floor.answer.fail("worker_lost", "The model was lost in the middle of this answer.")
        elif asked is not None:
            self._floor.listen("model_listen", asked.response_id)

    def _remember(self, role: str, text: str) -> None:
        if text.strip():
            self._history.append(HistoryItem(item_id="", role=role, text=text.strip()))

    # -- silent units ----------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Make sure that an answer that is given or wanted gets its next unit, once that is due."""
        if not (self._asked or self._floor.answer) or self._timer is not None or self._serial > self._settled:
            return
        if not self._seat.is_live:
            return
        now_s = self._now_s()
        due_s = self._plays_until_s - self._facts.frame_ms / 1000
        if self._real_time and now_s - self._heard_s < STREAMS_S:
            due_s = max(due_s, now_s) + self._facts.frame_ms / 4000
        if not self._real_time or due_s <= now_s:
            self._send(self._cutter.silence())
            return
        self._timer = asyncio.get_running_loop().call_later(due_s - now_s, self._due)

    def _due(self) -> None:
        self._timer = None
        self._go_on()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def stages_of(done: UnitDone, rate_hz: int) -> dict[str, StageMetrics]:
    """What was done for one unit of an answer: by network where the engine tells, else as one."""
    told = read_stages(done.stages)
    return told or {"0": sounding(len(done.pcm) // 2, rate_hz, work_s=done.work_ms / 1000)}


def opening_of(request: OpenModel, history: list[HistoryItem]) -> Mapping[str, Any]:
    """What the engine is told of a session, in plain values."""
    return {
        "session_id": request.session_id,
        "instructions": request.instructions,
        "temperature": request.temperature,
        "aloud": "audio" in request.modalities,
        "extra_body": {key: value for key, value in request.extra_body.items() if not key.endswith("ref_audio")},
        "history": [[item.role, item.text] for item in history if item.text and item.role in {"user", "assistant"}],
    }
