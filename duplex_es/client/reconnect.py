"""How often and how fast a lost connection is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """``max_attempts`` tries; before each, a wait drawn between the first of ``backoff_s`` and a doubling ceiling.

    The draw keeps the clients of a lost gateway from coming back in one wave.
    """

    max_attempts: int = 5
    backoff_s: tuple[float, float] = (0.25, 4.0)

    def delay_s(self, attempt: int, draw: Callable[[float, float], float] = random.uniform) -> float:
        """Seconds to wait before ``attempt``, which counts from 0."""
        low, high = self.backoff_s
        return draw(low, max(low, min(high, low * 2**attempt)))
