"""Samples, bytes and milliseconds, and the test tone. Mono throughout."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def floats_of(pcm: bytes) -> Floats:
    """Little-endian float32 bytes as (samples,) float32; a torn last sample is dropped, NaN and infinity become 0."""
    samples = np.frombuffer(pcm[: len(pcm) - len(pcm) % 4], "<f4").astype(np.float32)
    return np.nan_to_num(samples, copy=False, nan=0.0, posinf=0.0, neginf=0.0)


def int16_bytes(samples: Floats) -> bytes:
    """(samples,) float32 as little-endian int16 bytes; what lies outside [-1, 1] is clipped, not wrapped."""
    return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()


def samples_in(duration_ms: int, rate_hz: int) -> int:
    """Whole samples in ``duration_ms``, rounded down."""
    return duration_ms * rate_hz // 1000


def ms_in(samples: int, rate_hz: int) -> int:
    """Whole milliseconds in ``samples``, rounded down."""
    return samples * 1000 // rate_hz


def tone(first_sample: int, samples: int, tone_hz: float, rate_hz: int, level: float = 0.2) -> bytes:
    """A piece of an endless sine as int16 bytes: pieces that follow each other by ``first_sample`` join without click.

    The same arguments give the same bytes on every machine.
    """
    at = np.arange(first_sample, first_sample + samples, dtype=np.float64)
    wave = np.sin(2.0 * np.pi * np.mod(at * tone_hz / rate_hz, 1.0)) * level
    return np.rint(wave * 32767.0).astype("<i2").tobytes()
