"""The ears of one session: caller audio in, turns out. Frames of 32 ms, one decision a frame, no waiting.

Pure but for the recogniser it is given: it neither knows the clock nor speaks. The session feeds it frames with their
speech probability and acts on what it returns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from workers.vad.endpoint import EndpointSettings, EndpointState, Mark, advance
from workers.vad.silero import FRAME_MS, FRAME_SAMPLES, RATE_HZ

from ..pcm import Floats, ms_in

LONGEST_MS = 60_000
OVERLAP_IGNORED_MS = 200
NO_SAMPLES: Floats = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class HearingSettings:
    """When a turn begins and ends, and how long speech over the assistant is tolerated.

    ``prefix_ms`` of audio before the detected start belong to the turn. ``ends_turns`` off: only a commit ends one.
    """

    endpoint: EndpointSettings = field(default_factory=lambda: EndpointSettings(silence_ms=480))
    prefix_ms: int = 320
    barge_in_ms: int = 600
    ends_turns: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    """Caller audio that belongs together: ``samples`` (n,) float32 at 16 kHz; times on the session's input clock.

    ``announced``: its beginning was reported. ``overlap_ms`` of its ``speech_ms`` fell on the assistant's.
    """

    samples: Floats = field(default_factory=lambda: NO_SAMPLES)
    start_ms: int = 0
    end_ms: int = 0
    announced: bool = False
    overlap_ms: int = 0
    speech_ms: int = 0

    @property
    def is_overlap(self) -> bool:
        """True when most of it was said over the assistant."""
        return self.overlap_ms * 2 > self.speech_ms > 0

    @property
    def audio_ms(self) -> int:
        """Its length."""
        return ms_in(len(self.samples), RATE_HZ)


class Hearing:
    """Cuts caller audio into frames and turns."""

    def __init__(self, settings: HearingSettings) -> None:
        self.settings = settings
        self._waiting = NO_SAMPLES
        self._clock_ms = 0
        self._endpoint = EndpointState()
        self._kept: list[Floats] = []
        self._begun_ms: int | None = None
        self._overlap_frames = 0

    @property
    def in_speech(self) -> bool:
        """True while the caller speaks or has just paused."""
        return self._endpoint.in_speech

    @property
    def begun_ms(self) -> int:
        """When the current turn's speech began, on the input clock."""
        return self._begun_ms or 0

    @property
    def overlap_ms(self) -> int:
        """How much of the current speech fell on the assistant's, pauses left out."""
        return self._overlap_frames * FRAME_MS

    @property
    def now_ms(self) -> int:
        """The input clock at the end of the last frame."""
        return max(0, self._clock_ms - ms_in(len(self._waiting), RATE_HZ))

    def take(self, samples: Floats, end_ms: int) -> list[Floats]:
        """Add audio that ends at ``end_ms``; returns the whole frames, (512,) each, to be judged and passed back."""
        self._clock_ms = end_ms
        audio = np.concatenate([self._waiting, samples])
        count = len(audio) // FRAME_SAMPLES
        self._waiting = audio[count * FRAME_SAMPLES :]
        return [audio[n * FRAME_SAMPLES : (n + 1) * FRAME_SAMPLES] for n in range(count)]

    def judge(self, frame: Floats, probability: float, end_ms: int, *, assistant_speaks: bool) -> Mark | None:
        """Count one frame that ends at ``end_ms``; returns what it changed. After ``ENDED`` call ``finish``.

        Where only a commit ends turns there is no ``ENDED``, and what follows the first ``STARTED`` is ``RESUMED``.
        """
        was_speaking = self._endpoint.in_speech
        self._endpoint, mark = advance(self._endpoint, probability, self.settings.endpoint)
        self._kept.append(frame)
        if mark is Mark.STARTED:
            run = self._endpoint.frames - self._endpoint.start_frame
            self._overlap_frames = run if assistant_speaks else 0
            if self._begun_ms is None:
                self._begun_ms = max(0, end_ms - run * FRAME_MS)
            else:
                mark = Mark.RESUMED
        elif was_speaking and assistant_speaks and probability >= self.settings.endpoint.threshold:
            self._overlap_frames += 1
        self._forget_surplus()
        if mark is Mark.ENDED and not self.settings.ends_turns:
            return None
        return mark

    def so_far(self) -> Floats:
        """The current turn's audio up to now."""
        return np.concatenate([*self._kept, NO_SAMPLES])

    def finish(self, *, committed: bool = False, end_ms: int | None = None) -> Turn:
        """End the turn and return it; ``committed`` takes what is not a whole frame yet as well.

        A turn nobody spoke in has no samples.
        """
        end = self._clock_ms if committed else end_ms if end_ms is not None else self.now_ms
        begun = self._begun_ms
        pieces = [*self._kept, self._waiting] if committed else self._kept
        samples = np.concatenate([*pieces, NO_SAMPLES]) if begun is not None else NO_SAMPLES
        state = self._endpoint
        speech_ms = (state.frames - state.start_frame - state.silence_frames) * FRAME_MS
        turn = Turn(samples, begun or 0, end, begun is not None, self.overlap_ms, speech_ms)
        self._kept, self._begun_ms, self._overlap_frames = [], None, 0
        if committed:
            self._waiting = NO_SAMPLES
            self._endpoint = EndpointState()
        return turn

    def forgive_overlap(self) -> None:
        """The assistant fell silent: what the caller says now is a turn like any other."""
        self._overlap_frames = 0

    def reset(self) -> None:
        """Forget all audio that no turn holds; the clock goes on."""
        self.finish(committed=True)

    def _forget_surplus(self) -> None:
        endpoint = self.settings.endpoint
        if self._begun_ms is not None:
            most = LONGEST_MS // FRAME_MS
        else:
            # What may turn out to be the beginning of speech does not count as the audio before it.
            most = self.settings.prefix_ms // FRAME_MS + endpoint.frames(endpoint.min_speech_ms) - 1
        if len(self._kept) > most:
            del self._kept[: len(self._kept) - most]
