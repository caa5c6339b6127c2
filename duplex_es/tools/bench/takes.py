"""What one answer, one session and one interruption looked like to its caller, in seconds of the monotonic clock.

Names follow ``EventCollector.timing_summary`` where it has one for the same thing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

PAUSE_MS = 1.0
"""A break in the sound shorter than this is none: clocks and timers are not finer."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of sound: when it came, and how long it sounds."""

    at_s: float
    duration_ms: float


@dataclass(slots=True)
class AnswerTake:
    """One answer. ``asked_at_s`` is when the turn was committed, or its last word spoken if nobody committed.

    ``stages`` is what the server told of the stages of its model, the newest by the stage's number.
    """

    response_id: str
    asked_at_s: float
    created_at_s: float
    first_text_at_s: float | None = None
    done_at_s: float | None = None
    status: str = "in_progress"
    was_cut: bool = False
    chunks: list[Chunk] = field(default_factory=list)
    stages: dict[str, Any] = field(default_factory=dict)

    @property
    def ttfp_ms(self) -> float | None:
        """From the question's end to the first piece of sound."""
        return (self.chunks[0].at_s - self.asked_at_s) * 1000 if self.chunks else None

    @property
    def ttft_ms(self) -> float | None:
        """From the question's end to the first words, of text or of the transcript."""
        return None if self.first_text_at_s is None else (self.first_text_at_s - self.asked_at_s) * 1000

    @property
    def created_to_first_audio_ms(self) -> float | None:
        """From ``response.created`` to the first piece of sound."""
        return (self.chunks[0].at_s - self.created_at_s) * 1000 if self.chunks else None

    @property
    def audio_duration_ms(self) -> float:
        """How long the answer sounds."""
        return sum(chunk.duration_ms for chunk in self.chunks)

    @property
    def audio_generation_ms(self) -> float | None:
        """From the first piece of sound to the last one."""
        return (self.chunks[-1].at_s - self.chunks[0].at_s) * 1000 if self.chunks else None

    def intervals_ms(self) -> list[float]:
        """Between one piece of sound and the next."""
        times = [chunk.at_s * 1000 for chunk in self.chunks]
        return [later - earlier for earlier, later in pairwise(times)]

    def jitter_ms(self) -> float | None:
        """How far, on average, the intervals are from their own mean; ``None`` below three pieces."""
        intervals = self.intervals_ms()
        if len(intervals) < 2:
            return None
        mean = sum(intervals) / len(intervals)
        return sum(abs(interval - mean) for interval in intervals) / len(intervals)

    def gaps_ms(self) -> list[float]:
        """The silences that a player without any reserve would have made: each piece that came after its turn."""
        gaps: list[float] = []
        if not self.chunks:
            return gaps
        played_until_s = self.chunks[0].at_s
        for chunk in self.chunks:
            late_ms = (chunk.at_s - played_until_s) * 1000
            if late_ms >= PAUSE_MS:
                gaps.append(late_ms)
            played_until_s = max(played_until_s, chunk.at_s) + chunk.duration_ms / 1000
        return gaps


@dataclass(slots=True)
class SessionTake:
    """One caller's session. ``error`` is why it could not be opened or ended before its time, by its code.

    ``committed_unix_ms`` has the wall clock of each commit by its ``event_id``, ``heard_unix_ms`` that of each piece of
    sound by its seq.
    """

    number: int
    session_id: str = ""
    opening_ms: float | None = None
    error: str | None = None
    answers: list[AnswerTake] = field(default_factory=list)
    unanswered: int = 0
    round_trips_ms: list[float] = field(default_factory=list)
    resumes_ms: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    committed_unix_ms: dict[str, float] = field(default_factory=dict)
    heard_unix_ms: dict[int, float] = field(default_factory=dict)
    sent_bytes: int = 0
    received_bytes: int = 0
    received_events: int = 0
