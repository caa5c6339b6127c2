"""What the mind of a cascade did for an answer: the stage that finds the words."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable

from duplex_es.model import StageMetrics

from .dialogue.scene import Call, Counted, Part, Say


class Thinking:
    """The mind at work on one answer. Only the time counts in which it is waited for, not that of speaking.

    ``heard_s``: so long it took to understand what was said, which comes before its first word as well.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic, *, heard_s: float = 0.0) -> None:
        self._now_s = now_s
        self._first_s = 0.0
        self._begin()
        self._work_s = heard_s

    def _begin(self) -> None:
        self._work_s, self._sentences, self._counted = 0.0, 0, Counted()

    async def watch(self, parts: AsyncGenerator[Part, None]) -> AsyncGenerator[Say | Call, None]:
        """What is said and called, in order, as it comes."""
        began_s = self._now_s()
        async for part in parts:
            self._work_s += self._now_s() - began_s
            self._first_s = self._first_s or self._work_s
            if isinstance(part, Counted):
                self._counted = part
            else:
                self._sentences += isinstance(part, Say)
                yield part
            began_s = self._now_s()

    def told(self) -> StageMetrics:
        """What it did since this was asked last. Words that come from rules are no tokens: then only times are told."""
        told = StageMetrics(
            num_tokens_in=self._counted.read,
            num_tokens_out=self._counted.made,
            stage_gen_time_ms=self._work_s * 1000,
            vllm_ttft_ms=self._first_s * 1000,
            output_unit_count=self._sentences,
            final_output_type="text",
        )
        self._begin()
        return told
