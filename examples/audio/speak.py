"""Makes the recordings beside it: ``python examples/audio/speak.py``. Needs the extra ``cascade``.

The speaker is the voice of the model ``cascade``, resampled to the 16 kHz mono PCM16 a caller sends. The same
installation makes the same bytes.
"""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import soxr

from workers.models.cascade.tts import RATE_HZ, Voice

CALLER_HZ = 16_000
EDGE_S = 0.15
SENTENCES = {
    "question": "Hello, my name is Martin. What is seven times six?",
    "name": "What is my name?",
    "story": "Tell me a story.",
    "interrupt": "Wait, what time is it?",
    "okay": "Okay.",
}


def record(voice: Voice, text: str, path: Path) -> None:
    """Write one WAV: the text with a short silence before and after."""
    edge = np.zeros(int(RATE_HZ * EDGE_S), np.float32)
    samples = soxr.resample(np.concatenate([edge, voice.say(text), edge]), RATE_HZ, CALLER_HZ)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(CALLER_HZ)
        file.writeframes(np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes())


def main() -> None:
    """Record every sentence."""
    voice = Voice()
    for name, text in SENTENCES.items():
        path = Path(__file__).with_name(f"{name}.wav")
        record(voice, text, path)
        print(f"{path.name}: {text}")


if __name__ == "__main__":
    main()
