"""Who calls, how often, for how long, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..waves import Wave


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """``sessions`` callers at ``urls`` for ``duration_s``, the first at once, the last after ``ramp_s``.

    Each asks ``question`` at the pace of speech, waits for the answer at most ``answer_timeout_s``, pauses, and asks
    again. ``commits``: the caller ends its turns itself; else the server hears their end. Every ``cut_every``-th answer
    its connection is cut and resumed (0: never). ``extra_body`` goes into the session as it is.

    ``continuous`` is for models that answer all the time: callers ask, pause and ask again, waiting for nothing.
    """

    urls: tuple[str, ...]
    model: str
    question: Wave
    sessions: int = 10
    duration_s: float = 30.0
    ramp_s: float = 2.0
    chunk_ms: int = 80
    pause_ms: int = 500
    commits: bool = True
    cut_every: int = 0
    continuous: bool = False
    pulse_s: float = 1.0
    answer_timeout_s: float = 30.0
    extra_body: Mapping[str, Any] = field(default_factory=dict)
