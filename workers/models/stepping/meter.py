"""What a model that steps did for each of its answers: how many frames, how long, and how much sound they gave."""

from __future__ import annotations

from duplex_es.model import Emit, ModelFinished, ModelMeasured, ModelProducedAudio, ModelSpoke, Signal, StageMetrics

TOLD_EVERY_FRAMES = 25
"""An answer that is cut is told without its last frames, no more than so many."""
STAGE = "0"
"""It is one network: it makes words and sound in one step."""

Turn = tuple[int, int]
"""An answer, by the epoch and the turn of its signals."""


class StepMeter:
    """Stands before the emit of one session: passes everything on, and tells of the steps before an answer ends.

    A step counts with all of its time, also for the sessions that step beside this one in it.
    """

    def __init__(self, emit: Emit, rate_hz: int) -> None:
        self._emit = emit
        self._rate_hz = rate_hz
        self._turn: Turn | None = None
        self._clear()

    def _clear(self) -> None:
        self._frames, self._samples, self._work_ms = 0, 0, 0.0

    def stepped(self, work_ms: float, turn: Turn | None) -> None:
        """The next frame was stepped, in this time; ``turn`` is the answer that is open before its signals."""
        if turn is None or turn != self._turn:
            self._clear()
            self._turn = turn
        elif self._frames >= TOLD_EVERY_FRAMES:
            self._tell(turn)
        self._frames += 1
        self._work_ms += work_ms

    def __call__(self, signal: Signal) -> None:
        """Pass a signal on."""
        match signal:
            case ModelSpoke():
                self._turn = (signal.epoch, signal.turn)
            case ModelProducedAudio():
                self._samples += len(signal.pcm) // 2
            case ModelFinished() if self._frames:
                self._tell((signal.epoch, signal.turn))
        self._emit(signal)

    def _tell(self, turn: Turn) -> None:
        told = StageMetrics(
            stage_gen_time_ms=self._work_ms,
            audio_generated_frames=self._samples,
            audio_duration_s=self._samples / self._rate_hz,
            output_unit_count=self._frames,
            final_output_type="audio",
        )
        self._clear()
        self._emit(ModelMeasured(epoch=turn[0], turn=turn[1], stages={STAGE: told}))
