"""Where a turn begins and ends, decided from one speech probability per frame.

Pure: ``advance`` takes a state and returns the next one, so that a detector can be snapshot, replayed and compared.
Time is counted in frames since the stream began or was last reset.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace


class Mark(enum.Enum):
    """What one frame changed: at most one mark a frame."""

    STARTED = "started"
    """The caller speaks; ``EndpointState.start_frame`` is the first frame of it."""
    PAUSED = "paused"
    """Silence long enough to guess that the turn is over; work begun now may be wasted."""
    RESUMED = "resumed"
    """The guess was wrong: the caller went on."""
    ENDED = "ended"
    """The turn is over; the last ``silence_frames`` frames were silence."""


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """When speech counts as begun and as ended. Durations are rounded up to whole frames.

    ``pause_ms`` is the silence after which ``Mark.PAUSED`` is given, once per pause; it is not given when the turn
    ends at that point anyway. ``longest_turn_ms`` ends a turn that never falls silent.
    """

    threshold: float = 0.5
    frame_ms: int = 32
    min_speech_ms: int = 96
    silence_ms: int = 512
    pause_ms: int = 200
    longest_turn_ms: int = 60_000

    @property
    def release(self) -> float:
        """The probability below which a frame is silence; frames between it and ``threshold`` decide nothing."""
        return max(self.threshold - 0.15, 0.01)

    def frames(self, duration_ms: int) -> int:
        """Whole frames that cover ``duration_ms``, at least one."""
        return max(1, -(-duration_ms // self.frame_ms))


@dataclass(frozen=True, slots=True)
class EndpointState:
    """One stream's place in its turn: plain numbers, equal when the same frames were heard.

    ``frames`` counts all frames so far; ``start_frame`` is meaningful while ``in_speech`` or while ``run_frames`` > 0.
    ``silence_frames`` counts frames since the caller was last heard, including undecided ones.
    """

    frames: int = 0
    in_speech: bool = False
    start_frame: int = 0
    run_frames: int = 0
    silence_frames: int = 0
    paused: bool = False

    @property
    def speech_frames(self) -> int:
        """Frames from the start of the turn to the last one that was not silence; 0 outside a turn."""
        return self.frames - self.start_frame - self.silence_frames if self.in_speech else 0


def advance(state: EndpointState, probability: float, settings: EndpointSettings) -> tuple[EndpointState, Mark | None]:
    """Count one frame with its speech probability in [0, 1]; returns the next state and what the frame changed."""
    counted = replace(state, frames=state.frames + 1)
    if state.in_speech:
        return _inside(counted, probability, settings)
    return _outside(counted, probability, settings)


def _outside(state: EndpointState, probability: float, settings: EndpointSettings) -> tuple[EndpointState, Mark | None]:
    if probability < settings.release:
        return replace(state, run_frames=0), None
    if probability < settings.threshold:
        return state, None
    start = state.start_frame if state.run_frames else state.frames - 1
    run = state.run_frames + 1
    if run < settings.frames(settings.min_speech_ms):
        return replace(state, start_frame=start, run_frames=run), None
    return replace(state, in_speech=True, start_frame=start, run_frames=0, silence_frames=0, paused=False), Mark.STARTED


def _inside(state: EndpointState, probability: float, settings: EndpointSettings) -> tuple[EndpointState, Mark | None]:
    if state.frames - state.start_frame >= settings.frames(settings.longest_turn_ms):
        return _ended(state), Mark.ENDED
    if probability >= settings.threshold:
        resumed = Mark.RESUMED if state.paused else None
        return replace(state, silence_frames=0, paused=False), resumed
    if probability >= settings.release:
        # Undecided: it stretches a silence that has begun, but can neither begin nor end one.
        return replace(state, silence_frames=state.silence_frames + bool(state.silence_frames)), None
    silence = state.silence_frames + 1
    state = replace(state, silence_frames=silence)
    if silence >= settings.frames(settings.silence_ms):
        return _ended(state), Mark.ENDED
    if silence >= settings.frames(settings.pause_ms) and not state.paused:
        return replace(state, paused=True), Mark.PAUSED
    return state, None


def _ended(state: EndpointState) -> EndpointState:
    return replace(state, in_speech=False, run_frames=0, paused=False)
