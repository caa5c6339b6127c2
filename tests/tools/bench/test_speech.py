"""The generated voice: the same everywhere, and speech to a detector."""

from __future__ import annotations

import numpy as np
import pytest

from duplex_es.tools.bench.speech import babble
from workers.vad.silero import SileroVad, VadState

pytestmark = pytest.mark.unit

FRAME = 512


def test_it_is_as_long_as_asked_and_the_same_every_time() -> None:
    assert babble(1_000).duration_ms == 1_000
    assert babble(1_000, 24_000).duration_ms == 1_000
    assert babble.__wrapped__(1_000).pcm == babble(1_000).pcm


def test_it_is_loud_and_does_not_clip() -> None:
    samples = np.frombuffer(babble(2_000).pcm, np.int16)
    assert 8_000 < np.abs(samples).max() < 32_000


def test_a_voice_detector_takes_it_for_speech_from_one_end_to_the_other() -> None:
    samples = np.frombuffer(babble(2_000).pcm, np.int16).astype(np.float32) / 32_768
    detector, state = SileroVad(), VadState()
    frames = [samples[at : at + FRAME] for at in range(0, len(samples) - FRAME + 1, FRAME)]
    likely = [float(detector.step([state], [frame])[0]) for frame in frames]
    # The network needs some frames to hear that anything began.
    assert min(likely[2:]) > 0.5
