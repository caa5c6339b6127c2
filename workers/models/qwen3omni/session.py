"""One caller of a model that is asked turn by turn: turns in, one answer of the engine for each."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from contextlib import aclosing

from duplex_es.model import (
    CloseModel,
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    OpenModel,
    ReconfigureModel,
    Request,
    ResetInput,
    ToolOutput,
)
from workers.engine.contract import EngineFacts
from workers.engine.process import EngineProcess

from ..agenda import Agenda
from ..floor import Floor
from ..memory import Memory
from ..turn_line import TurnLine, TurnRefused
from .asking import Wish, rewished, turn_of
from .options import QwenOptions
from .telling import SoundUnusable, Telling

_NUMBERS = itertools.count()


class QwenSession:
    """Keeps the caller's turns and asks the engine for each answer, one after another.

    An interruption cancels the turn: its slot in the engine is free before the next step. When the engine dies the
    answer waits for the next one and goes on there, behind what it had given.
    """

    def __init__(
        self,
        engine: EngineProcess,
        facts: EngineFacts,
        request: OpenModel,
        emit: Emit,
        options: QwenOptions,
        wish: Wish,
    ) -> None:
        self._engine = engine
        self._options = options
        self._wish = wish
        self._name = f"{request.session_id}:{request.incarnation}"
        self._session_id = request.session_id
        self._floor = Floor(emit, output_rate_hz=facts.output_rate_hz, lead_ms=options.lead_ms)
        self._floor.adopt(request.epoch)
        self._answers = Agenda(self._floor, f"qwen3omni {request.session_id}")
        self._memory = Memory(request.history)
        self._telling: Telling | None = None
        self._line: TurnLine | None = None
        self.is_open = True

    async def open(self) -> None:
        """See ``KeptSession``: nothing of the engine is taken before the first turn."""

    def begin_again(self) -> None:
        """Go on in an engine that was started anew."""
        if self._line is not None:
            self._line.begin_again()

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._floor.adopt(request.epoch)
                self._memory.hear(request.pcm, request.end_ms)
            case EndTurn():
                self._floor.adopt(request.epoch)
                self._memory.end_turn(request.item_id, request.audio_start_ms)
                if request.respond:
                    self._answers.add(request.epoch, functools.partial(self._answer, self._wish))
            case Generate():
                self._floor.adopt(request.epoch)
                wish = rewished(self._wish, request)
                self._answers.add(
                    request.epoch, functools.partial(self._answer, wish, request.history, request.response_id)
                )
            case Interrupt():
                self._interrupted(request)
            case ResetInput():
                self._floor.adopt(request.epoch)
                self._memory.clear()
            case ToolOutput():
                self._floor.adopt(request.epoch)
                self._memory.add(
                    HistoryItem(item_id=request.call_id, role="tool", text=request.output, call_id=request.call_id)
                )
            case ReconfigureModel():
                self._wish = rewished(self._wish, request)
            case CloseModel():
                self.is_open = False
                self._floor.close()
                await self._answers.close()

    # -- one answer ------------------------------------------------------------------------------------------------

    async def _answer(
        self, wish: Wish, history: Sequence[HistoryItem] | None = None, response_id: str | None = None
    ) -> None:
        answer = self._floor.begin(response_id)
        asked, sounds = turn_of(
            self._memory.told(history),
            self._memory.speech,
            wish,
            session_id=self._session_id,
            seed=f"{self._name}:{answer.turn}",
            voice=self._options.voice,
        )
        telling = self._telling = Telling(answer, f"answer_{answer.turn}")
        line = self._line = TurnLine(self._engine, f"{self._name}:{next(_NUMBERS)}", asked, sounds)
        try:
            async with aclosing(line.pieces()) as pieces:
                async for piece in pieces:
                    await telling.tell(piece, aloud=wish.aloud)
        except TurnRefused as refused:
            answer.fail(refused.code, str(refused))
        except SoundUnusable as error:
            answer.fail("response_error", str(error))
        finally:
            if self._line is line:
                self._line = None
            if self._telling is telling:
                self._remember()

    def _interrupted(self, request: Interrupt) -> None:
        cut = self._floor.stop(request.epoch)
        if cut is not None:
            # At once: what comes next may be asked before the cut answer has ended.
            self._remember()
        self._answers.drop(request.epoch)
        if request.heard_text is not None:
            self._memory.heard_only(request.heard_text)

    def _remember(self) -> None:
        """The answer is over, however it ended."""
        telling, self._telling = self._telling, None
        for item in telling.said() if telling is not None else ():
            self._memory.add(item)
