"""What a stage of a model did for an answer, seen from outside: when its pieces came, and how long they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from duplex_es.model import StageMetrics

WORDS, SOUND = "0", "1"
"""The stage that makes the words, and the one that says them."""
MEANS = ("vllm_itl_ms", "inter_output_latency_ms", "time_per_output_unit_ms")
"""What follows from other figures, and is not told beside them."""


class Pieces:
    """When the pieces of one answer came, seen from when it was asked for."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._asked_s = now_s()
        self._came_s: list[float] = []

    def came(self) -> None:
        """The next one is here."""
        self._came_s.append(self._now_s())

    @property
    def count(self) -> int:
        """How many have come."""
        return len(self._came_s)

    @property
    def first_ms(self) -> float:
        """How long the first one took; 0 while there is none."""
        return (self._came_s[0] - self._asked_s) * 1000 if self._came_s else 0.0

    @property
    def last_ms(self) -> float:
        """How long all of them took; 0 while there is none."""
        return (self._came_s[-1] - self._asked_s) * 1000 if self._came_s else 0.0

    def words(self, read: int | None, made: int | None, *, at_once: bool) -> StageMetrics:
        """Of pieces of text, which stand for ``made`` tokens after ``read`` others, where somebody counted them.

        ``at_once``: each was taken when it came. Otherwise only the first one's time says something of whoever made
        them. Where there are as many pieces as tokens, but perhaps for the one that ends it, each piece is one.
        """
        pairs = pairwise(self._came_s) if at_once else ()
        intervals_ms = tuple((later_s - before_s) * 1000 for before_s, later_s in pairs)
        tokens = made or 0
        return StageMetrics(
            num_tokens_in=read or 0,
            num_tokens_out=tokens,
            stage_gen_time_ms=self.last_ms if at_once else 0,
            vllm_ttft_ms=self.first_ms,
            vllm_tpot_ms=sum(intervals_ms) / (tokens - 1) if tokens > 1 else 0,
            vllm_itls_ms=intervals_ms if 0 <= tokens - self.count <= 1 else (),
            inter_output_latencies_ms=intervals_ms,
            output_unit_count=self.count,
            final_output_type="text",
        )


def sounding(samples: int, rate_hz: int, *, pieces: int = 1, work_s: float = 0.0) -> StageMetrics:
    """Of so many samples of speech in so many pieces, and how long they took to make, where that is known."""
    return StageMetrics(
        stage_gen_time_ms=work_s * 1000,
        audio_generated_frames=samples,
        audio_duration_s=samples / rate_hz,
        output_unit_count=pieces,
        final_output_type="audio",
    )


def read_stages(told: object) -> dict[str, StageMetrics]:
    """What an engine or another server tells, plain values by stage and name; what is no figure is left out."""
    stages = told.items() if isinstance(told, Mapping) else ()
    read = {str(stage): _read(figures) for stage, figures in stages if isinstance(figures, Mapping)}
    return {stage: figures for stage, figures in read.items() if figures != StageMetrics()}


def _read(told: Mapping[str, Any]) -> StageMetrics:
    nothing, known = StageMetrics(), {}
    other = {name: value for name, value in told.items() if name not in (*nothing.__struct_fields__, *MEANS)}
    for name in (name for name in nothing.__struct_fields__ if name != "other" and name in told):
        value, usual = told[name], getattr(nothing, name)
        if isinstance(usual, tuple):
            known[name] = tuple(filter(_is_number, value)) if isinstance(value, list | tuple) else ()
        elif isinstance(value, str) if isinstance(usual, str) else _is_number(value):
            known[name] = value
    return replace(nothing, **known, other=other)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
