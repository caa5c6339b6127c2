"""The recorded call of the operator's guide, and what tests of the commands over it look at."""

from __future__ import annotations

import argparse
import wave
from pathlib import Path

import numpy as np

RECORDING = Path(__file__).resolve().parents[2] / "docs" / "guides" / "call.dxlog"


def arguments(path: Path = RECORDING, **more: object) -> argparse.Namespace:
    """The command line of a command that reads ``path``."""
    return argparse.Namespace(session=None, file=path, redis_url="", json=False, **more)


def sounds(path: Path) -> np.ndarray:
    """The samples of a WAV at 24 kHz, a column for each channel."""
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
        assert file.getframerate() == 24_000
    return samples


def level(samples: np.ndarray, begin_ms: int, end_ms: int) -> float:
    """How loud a stretch of one channel is, on average."""
    return float(np.abs(samples[begin_ms * 24 : end_ms * 24].astype(int)).mean())
