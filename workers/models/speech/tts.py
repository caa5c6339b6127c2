"""Text to speech: hibari, 24 kHz, on onnxruntime. Blocking; every thread that calls it has a voice object of its own.

The same text and speed give the same samples, whichever thread says it and whatever it said before.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..pcm import Floats
from .missing import EXTRA, CascadePartMissing

RATE_HZ = 24_000
SEED = 20_260


class Voice:
    """The one voice that is inside the wheel: others would be downloaded, so they are not offered."""

    name = "heart"

    def __init__(self) -> None:
        """Raises: CascadePartMissing when the package is absent."""
        try:
            import hibari
        except ImportError as error:
            raise CascadePartMissing(f"package hibari-tts is missing; install it with: {EXTRA}") from error
        self._make = hibari.Hibari
        self._local = threading.local()

    def say(self, text: str, *, speed: float = 1.0, gain: float = 1.0) -> Floats:
        """(samples,) float32 at 24 kHz of one sentence; empty for text without anything to pronounce.

        ``speed`` is 1.0 for the usual pace, 0.5 to 2.0; ``gain`` multiplies, the result stays within [-1, 1].
        """
        samples = np.asarray(self._speaker()(text, speed=speed, seed=SEED), np.float32)
        return np.clip(samples * gain, -1.0, 1.0).astype(np.float32)

    def warm_up(self) -> None:
        """Load everything this thread needs, so that its first sentence is as quick as its second."""
        self.say("Ready at 9:30, Dr. Zorbo.")

    def _speaker(self) -> Any:
        if not hasattr(self._local, "speaker"):
            self._local.speaker = self._make(threads=1)
        return self._local.speaker
