"""The spectrogram Whisper listens to: 80 log-mel bands every 10 ms, in numpy.

Source: Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2.2, and the published front end:
Hann window of 400 samples, hop 160, Slaney mel filters, log10 within 8 of the maximum, scaled by (x + 4) / 4.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

RATE_HZ = 16_000
WINDOW = 400
HOP = 160
BANDS = 80

Floats = npt.NDArray[np.float32]


def _mel(hz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Slaney's scale: linear below 1 kHz, logarithmic above."""
    linear = hz * 3.0 / 200.0
    return np.where(hz < 1000.0, linear, 15.0 + 27.0 * np.log(np.maximum(hz, 1e-9) / 1000.0) / np.log(6.4))


def _hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(mel < 15.0, mel * 200.0 / 3.0, 1000.0 * np.exp((mel - 15.0) * np.log(6.4) / 27.0))


@functools.cache
def filters() -> Floats:
    """The triangular filters, (80, 201) float32, each of unit area."""
    bins = np.linspace(0.0, RATE_HZ / 2, WINDOW // 2 + 1)
    top = _mel(np.array(RATE_HZ / 2))
    edges = _hz(np.linspace(0.0, float(top), BANDS + 2))
    widths = np.diff(edges)
    slopes = edges[:, None] - bins[None, :]
    rising, falling = -slopes[:-2] / widths[:-1, None], slopes[2:] / widths[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return (triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None]).astype(np.float32)


@functools.cache
def _window() -> Floats:
    return (0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)


def log_mel(samples: Floats) -> Floats:
    """(samples,) float32 at 16 kHz → (80, samples // 160) float32. Needs at least 201 samples."""
    padded = np.pad(samples.astype(np.float32, copy=False), WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][: len(samples) // HOP]
    power = np.abs(np.fft.rfft(frames * _window(), axis=1)).astype(np.float32) ** 2
    logs = np.log10(np.maximum(filters() @ power.T, 1e-10))
    return ((np.maximum(logs, logs.max() - 8.0) + 4.0) / 4.0).astype(np.float32)
