"""Loudness as a speech verdict."""

from __future__ import annotations

import numpy as np
import pytest

from workers.vad.energy import is_speech, rms

pytestmark = pytest.mark.unit


def test_the_loudness_of_a_full_scale_square_is_one() -> None:
    assert rms(np.array([1, -1, 1, -1], np.float32)) == pytest.approx(1.0)


def test_nothing_is_silent() -> None:
    assert rms(np.zeros(0, np.float32)) == 0.0
    assert not is_speech(np.zeros(0, np.float32), silence_rms=0.0)


def test_a_piece_as_loud_as_the_threshold_is_speech() -> None:
    samples = np.full(160, 0.25, np.float32)
    assert is_speech(samples, silence_rms=0.25)
    assert not is_speech(samples, silence_rms=0.26)
