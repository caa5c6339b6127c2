"""Makes the recordings beside it: ``python examples/audio/speak.py``. Needs the extra ``cascade``.

The speaker is the voice of the model ``cascade``, resampled to the 16 kHz mono PCM16 a caller sends. The same
installation makes the same bytes.
"""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import soxr

from workers.models.cascade.dialogue.sentences import split_sentences
from workers.models.speech.tts import RATE_HZ, Voice

CALLER_HZ = 16_000
EDGE_S = 0.25
PAUSE_S = 0.2  # between sentences: longer, and a listener takes the first for the whole turn
SENTENCES = {
    "question": "Hello, my name is Martin. What is seven times six?",
    "name": "What is my name?",
    "story": "Tell me a story.",
    "interrupt": "Wait, what time is it?",
    "okay": "Okay.",
}


def without_edges(samples: np.ndarray) -> np.ndarray:
    """The samples from the first to the last that can be heard."""
    loud = np.flatnonzero(np.abs(samples) > 0.005)
    return samples[loud[0] : loud[-1] + 1]


def record(voice: Voice, text: str, path: Path) -> None:
    """Write one WAV: the sentences of the text, with silence before, between and after them."""
    pause = np.zeros(int(RATE_HZ * PAUSE_S), np.float32)
    pieces = [np.concatenate([without_edges(voice.say(part)), pause]) for part in split_sentences(text)]
    edge = np.zeros(int(RATE_HZ * EDGE_S), np.float32)
    samples = soxr.resample(np.concatenate([edge, *pieces, edge]), RATE_HZ, CALLER_HZ)
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
