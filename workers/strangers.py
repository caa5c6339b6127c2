"""Sessions that this worker met and could not read: another build wrote them, and a worker of that build may take them.

While a fleet is being replaced, old and new workers share one queue, and nobody can choose what to claim. What was
given back comes round again; this says how to meet it then, so that neither the session nor the worker spins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from duplex_es.log.api import SessionRef

PAUSE_S = 0.5
"""After giving a session back, the others of the fleet are first at the queue for so long."""
LONGEST_WAIT_S = 8.0
PATIENCE_S = 300.0
"""A session that was met again after so long has no worker that can read it: its client is told."""


@dataclass
class _Stranger:
    first_s: float
    last_s: float
    times: int = 1


class Strangers:
    """What one worker knows of them. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[SessionRef, _Stranger] = {}
        self._given_back_s = float("-inf")

    def met(self, ref: SessionRef) -> None:
        """The session could not be read and was given back."""
        now_s = self._given_back_s = self._clock()
        self._known = {known: one for known, one in self._known.items() if now_s - one.last_s < PATIENCE_S}
        stranger = self._known.setdefault(ref, _Stranger(now_s, now_s, 0))
        stranger.times, stranger.last_s = stranger.times + 1, now_s

    def wait_s(self, ref: SessionRef) -> float | None:
        """How long to hold it before it is given back, should it be no more readable now; ``None``: not any more.

        Nothing the first time, then twice as long each time: somebody who can read it is at the queue long before.
        """
        stranger = self._known.get(ref)
        if stranger is None:
            return 0.0
        if self._clock() - stranger.first_s >= PATIENCE_S:
            return None
        return min(LONGEST_WAIT_S, 2.0 ** (stranger.times - 1) / 2)

    def pause_s(self) -> float:
        """How long to claim nothing now."""
        return max(0.0, self._given_back_s + PAUSE_S - self._clock())
