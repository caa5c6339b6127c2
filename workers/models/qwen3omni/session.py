"""One caller of a model that is asked turn by turn: turns in, one answer of the engine for each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import aclosing

from duplex_es.model import Emit, Generate, HistoryItem, OpenModel, ReconfigureModel
from workers.engine.contract import EngineFacts
from workers.engine.process import EngineProcess

from ..asked import AskedSession
from ..floor import Floor
from ..turn_line import TurnLine, TurnRefused
from .asking import Wish, rewished, turn_of
from .options import QwenOptions
from .telling import SoundUnusable, Telling

_NUMBERS = itertools.count()


class QwenSession(AskedSession[Wish, Telling]):
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
        floor = Floor(emit, output_rate_hz=facts.output_rate_hz, lead_ms=options.lead_ms)
        super().__init__(request, floor, f"qwen3omni {request.session_id}")
        self._engine = engine
        self._options = options
        self._wish = wish
        self._name = f"{request.session_id}:{request.incarnation}"
        self._session_id = request.session_id
        self._line: TurnLine | None = None
        self.is_open = True

    async def open(self) -> None:
        """See ``KeptSession``: nothing of the engine is taken before the first turn."""

    def begin_again(self) -> None:
        """Go on in an engine that was started anew."""
        if self._line is not None:
            self._line.begin_again()

    def _wished(self, request: ReconfigureModel | Generate) -> Wish:
        return rewished(self._wish, request)

    async def _close(self) -> None:
        self.is_open = False
        await super()._close()

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
                    if piece.ends:
                        answer.measure(line.meter.told(piece))
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
