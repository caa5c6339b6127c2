"""Tells the session's own voice in what a microphone sends back, so that an answer does not interrupt itself.

Compares what is heard with what was spoken lately, at every delay. Good for the plain echo of a loudspeaker; where a
room changes the sound much, the client's own echo cancellation is the better place. Switched on by the client with
``extra_body.echo_guard: true``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import soxr

from .listener import Heard, Samples

GUARD_HZ = 8_000
KEPT_MS = 6_000
"""How long after it was made a sound may come back: it waits in buffers, is played, and travels."""
WINDOW_MS = 240
"""What is compared at a time. Shorter pieces of any two voices are too much alike."""
LEAST_MS = 60
ALIKE = 0.6
"""The correlation from which what is heard is an echo; a caller who speaks over an echo brings it below."""
QUIET_RMS = 1e-4

_NOTHING: Samples = np.zeros(0, dtype=np.float32)


class EchoGuard:
    """One session's memory of its own voice. Takes pieces of speech and of caller audio in the order they come."""

    def __init__(self) -> None:
        self._spoken = _NOTHING
        self._window = _NOTHING
        self._heard_since_ms = 0.0

    def spoke(self, pcm: bytes, rate_hz: int) -> None:
        """Remember a piece of speech, int16 little-endian mono."""
        samples = np.frombuffer(pcm[: len(pcm) // 2 * 2], dtype="<i2").astype(np.float32) / np.float32(32768.0)
        self._spoken = np.concatenate([self._spoken, _at_guard_rate(samples, rate_hz)])[-_samples(KEPT_MS) :]
        self._heard_since_ms = 0.0

    def without_echo(self, heard: Heard) -> Heard:
        """``heard``, or silence of the same length where it is the session's own voice."""
        self._heard_since_ms += heard.samples.size * 1000 / heard.rate_hz
        if self._heard_since_ms > KEPT_MS:
            self._spoken = _NOTHING
        piece = _at_guard_rate(heard.samples, heard.rate_hz)
        self._window = np.concatenate([self._window, piece])[-max(_samples(WINDOW_MS), piece.size) :]
        if not self._is_echo():
            return heard
        rms = None if heard.rms is None else 0.0
        return replace(heard, samples=np.zeros_like(heard.samples), rms=rms)

    def _is_echo(self) -> bool:
        window, spoken = self._window, self._spoken
        energy = float(np.dot(window, window))
        if not _samples(LEAST_MS) <= window.size <= spoken.size or energy <= window.size * QUIET_RMS**2:
            return False
        size = 1 << (spoken.size + window.size).bit_length()
        spectrum = np.fft.rfft(spoken, size) * np.conj(np.fft.rfft(window, size))
        products = np.fft.irfft(spectrum, size)[: spoken.size - window.size + 1]
        sums = np.concatenate([[0.0], np.cumsum(spoken.astype(np.float64) ** 2)])
        energies = sums[window.size :] - sums[: spoken.size - window.size + 1]
        loud = energies > window.size * QUIET_RMS**2
        if not loud.any():
            return False
        return float(np.max(np.abs(products[loud]) / np.sqrt(energies[loud] * energy))) >= ALIKE


def _samples(ms: int) -> int:
    return ms * GUARD_HZ // 1000


def _at_guard_rate(samples: Samples, rate_hz: int) -> Samples:
    if rate_hz == GUARD_HZ or samples.size == 0:
        return samples
    return np.asarray(soxr.resample(samples, rate_hz, GUARD_HZ, quality="LQ"), dtype=np.float32)
