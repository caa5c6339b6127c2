"""Synthetic callers: the cascade's own voice, resampled to what a caller sends."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import soxr

from workers.models.speech.tts import RATE_HZ, Voice

CALLER_HZ = 16_000


@functools.cache
def _voice() -> Voice:
    return Voice()


@functools.cache
def spoken(text: str, rate_hz: int = CALLER_HZ) -> npt.NDArray[np.float32]:
    """(samples,) float32 of one sentence, without the silence around it; the same text gives the same samples."""
    samples = _voice().say(text)
    loud = np.flatnonzero(np.abs(samples) > 0.02)
    return np.asarray(soxr.resample(samples[loud[0] : loud[-1] + 1], RATE_HZ, rate_hz), np.float32)


def silence(duration_ms: int, rate_hz: int = CALLER_HZ) -> npt.NDArray[np.float32]:
    """(samples,) float32 of a quiet room: noise 66 dB below full scale, always the same."""
    noise = np.random.default_rng(7).standard_normal(duration_ms * rate_hz // 1000)
    return np.asarray(noise * 0.0005, np.float32)
