"""Speech verdicts from loudness alone: for clients that send no verdict and for models without a detector."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

DEFAULT_SILENCE_RMS = 0.003
"""Root mean square below which a piece of sound counts as silence (full scale is 1.0)."""


def rms(samples: npt.NDArray[np.float32]) -> float:
    """Root mean square of mono samples in [-1, 1]; 0.0 for no samples at all."""
    if samples.size == 0:
        return 0.0
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def is_speech(samples: npt.NDArray[np.float32], silence_rms: float = DEFAULT_SILENCE_RMS) -> bool:
    """True when the piece is at least as loud as ``silence_rms``; an empty piece is never speech."""
    return samples.size > 0 and rms(samples) >= silence_rms
