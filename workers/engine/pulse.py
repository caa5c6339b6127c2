"""Notices an engine that neither works nor ends: a device or a library that never returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

EVERY_S = 5.0
MOST_UNANSWERED = 6
"""Half a minute. What an engine does between two looks at its socket takes less, the first kernel it compiles too."""


class Pulse:
    """Asks every ``every_s``; ``beat`` is an answer, whatever it says.

    Questions are counted, not seconds: a worker that was itself held up for a while, together with its engine, must not
    take that for the engine's silence.
    """

    def __init__(self, ask: Callable[[], None], *, every_s: float = EVERY_S, most: int = MOST_UNANSWERED) -> None:
        self._ask = ask
        self._every_s, self._most = every_s, most
        self._unanswered = 0

    def beat(self) -> None:
        """Something was heard."""
        self._unanswered = 0

    async def stopped(self) -> None:
        """Return once ``most`` questions in a row were not answered."""
        while self._unanswered < self._most:
            self._unanswered += 1
            self._ask()
            await asyncio.sleep(self._every_s)
