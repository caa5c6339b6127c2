"""The spectrogram: scale, shape and range."""

from __future__ import annotations

import numpy as np
import pytest

from workers.models.speech.mel import BANDS, RATE_HZ, filters, log_mel

pytestmark = pytest.mark.unit


def sine(hz: float, seconds: float = 1.0) -> np.ndarray:
    return np.sin(2 * np.pi * hz * np.arange(int(RATE_HZ * seconds)) / RATE_HZ).astype(np.float32)


def test_filters_are_triangles_of_unit_area() -> None:
    assert filters().shape == (BANDS, 201)
    assert (filters() >= 0).all()
    wide = filters()[40:]  # the low ones are narrower than a bin
    assert wide.sum(axis=1) * (RATE_HZ / 400) == pytest.approx(np.ones(40), rel=0.08)


def test_a_frame_comes_every_ten_milliseconds() -> None:
    assert log_mel(sine(440, 1.0)).shape == (BANDS, 100)
    assert log_mel(sine(440, 0.255)).shape == (BANDS, 25)


def test_a_tone_lights_up_the_band_it_lies_in() -> None:
    centres = (filters() * np.linspace(0, 8000, 201)).sum(axis=1) / filters().sum(axis=1)
    for hz in (500, 1000, 3000, 6000):
        loudest = int(np.argmax(log_mel(sine(hz))[:, 50]))
        assert centres[loudest] == pytest.approx(hz, rel=0.06)


def test_values_span_at_most_two() -> None:
    spectrum = log_mel(np.concatenate([sine(440), np.zeros(RATE_HZ, np.float32)]))
    assert spectrum.max() - spectrum.min() == pytest.approx(2.0, abs=1e-5)
    assert spectrum.dtype == np.float32
