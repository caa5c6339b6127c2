"""What the three networks of a model did for a turn that it was asked: words, frames of sound, and the sound of those.

A piece counts when it comes from the engine, however late it is said. Which of the networks took how much of a step
nobody can tell from outside, so the time of each is from when the turn was asked to the last that it gave.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from duplex_es.model import StageMetrics
from workers.engine.turns import TurnPiece

from .stages import Pieces

THINKER, TALKER, WAVE = "0", "1", "2"


class TurnMeter:
    """One turn, from when this is made."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._words, self._frames, self._sounds = Pieces(now_s), Pieces(now_s), Pieces(now_s)
        self._made = self._samples = self._rate_hz = 0

    def heard(self, piece: TurnPiece) -> None:
        """The next piece of the turn has come."""
        words, frames = piece.drew
        if words:
            self._words.came()
        if frames:
            self._frames.came()
            self._made += frames
        if piece.pcm:
            self._sounds.came()
            self._samples += len(piece.pcm) // 2
            self._rate_hz = int((piece.audio_metadata or {}).get("sample_rate_hz") or 0)

    def told(self, last: TurnPiece) -> dict[str, StageMetrics]:
        """All of the turn, which ended with ``last``."""
        stages = {THINKER: self._words.words(last.input_tokens, last.output_tokens, at_once=True)}
        if self._made:
            stages[TALKER] = StageMetrics(
                num_tokens_out=self._made,
                stage_gen_time_ms=self._frames.last_ms,
                serving_time_to_first_output_ms=self._frames.first_ms,
                output_unit_count=self._made,
                output_unit_type="stream",
            )
        if self._samples and self._rate_hz:
            stages[WAVE] = StageMetrics(
                stage_gen_time_ms=self._sounds.last_ms,
                audio_generated_frames=self._samples,
                audio_duration_s=self._samples / self._rate_hz,
                serving_time_to_first_output_ms=self._sounds.first_ms,
                output_unit_count=self._sounds.count,
                final_output_type="audio",
            )
        return stages
