"""Has one session's clauses spoken by the speech process, one after another, ahead of when they are heard.

The process holds a ``workers.engine.turns.TurnEngine``: each clause is a turn of its own, asked as ``text``, ``before``
(what the answer said ahead of it), ``voice`` and ``session_id``. Its pieces are int16 at 22,050 Hz with the words that
begin in them. A turn that is dropped is not wanted any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from workers.engine.process import EngineProcess

from ..turn_line import TurnLine, TurnRefused
from .mouth import Clause, Mouth

PATIENCE_S = 10.0
"""How long a clause waits for its next sound, also from a speech process that is started anew; after that its words

are told without.
"""

_log = logging.getLogger(__name__)


class Speaker:
    """Makes sound for ``mouth`` whenever it was woken; ``name`` is unique among the sessions of this worker.

    ``voice`` is that of the clauses that are still to be begun.
    """

    def __init__(self, engine: EngineProcess, mouth: Mouth, name: str, voice: str | None) -> None:
        self._engine = engine
        self._mouth = mouth
        self._name = name
        self.voice = voice
        self._count = 0
        self._line: TurnLine | None = None
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._speak(), name=f"{name}, speaking")

    async def open(self) -> None:
        """See ``KeptSession``: nothing of the process is taken before the first clause."""

    @property
    def is_open(self) -> bool:
        """Whether its caller is still there."""
        return not self._task.done()

    def begin_again(self) -> None:
        """Go on in a process that was started anew."""
        if self._line is not None:
            self._line.begin_again()

    def wake(self) -> None:
        """There may be a clause whose sound nobody makes yet."""
        self._news.set()

    def hush(self) -> None:
        """The clause that is being made is not wanted any more."""
        if self._line is not None:
            self._line.close()
        if not self._task.done():
            self._task.cancel()
            self._task = asyncio.create_task(self._speak(), name=f"{self._name}, speaking")

    def close(self) -> None:
        """Make nothing any more. Idempotent."""
        if self._line is not None:
            self._line.close()
        self._task.cancel()

    async def _speak(self) -> None:
        while True:
            clause = self._mouth.next_clause()
            if clause is None:
                self._news.clear()
                await self._news.wait()
                continue
            clause.is_begun = True
            await self._say(clause)

    async def _say(self, clause: Clause) -> None:
        self._count += 1
        asked = {"session_id": self._name, "text": clause.text, "before": clause.before, "voice": self.voice}
        line = self._line = TurnLine(self._engine, f"{self._name}:{self._count}", asked, patience_s=PATIENCE_S)
        try:
            async with contextlib.aclosing(line.pieces()) as pieces, asyncio.timeout(PATIENCE_S) as patience:
                async for piece in pieces:
                    clause.put(piece.pcm, piece.text)
                    patience.reschedule(asyncio.get_running_loop().time() + PATIENCE_S)
        except (TurnRefused, TimeoutError) as error:
            why = error if isinstance(error, TurnRefused) else f"no sound for {PATIENCE_S:g} s"
            _log.error("%s: words of %d characters are told without sound: %s", self._name, len(clause.text), why)
        finally:
            clause.end()
            line.close()
