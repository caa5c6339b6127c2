"""What the runs say to the service: one recorded question, at the rate the client sends, as a microphone would.

Standard library only: this is imported by programs that run in the clients' own environments.
"""

from __future__ import annotations

import array
import asyncio
import wave
from collections.abc import AsyncIterator
from pathlib import Path

QUESTION = Path(__file__).parents[2] / "examples" / "audio" / "question.wav"
"""Asks for seven times six."""
CHUNK_MS = 40
SILENCE_MS = 900
"""What is played after a question: longer than any detector waits."""


def question_pcm(rate_hz: int = 24_000) -> bytes:
    """The question as mono PCM16, a little silence before and enough after it."""
    with wave.open(str(QUESTION)) as recording:
        source_hz = recording.getframerate()
        samples = array.array("h", recording.readframes(recording.getnframes()))
    count = len(samples) * rate_hz // source_hz
    resampled = array.array("h", bytes(2 * count))
    for number in range(count):
        at, beyond = divmod(number * source_hz, rate_hz)
        following = samples[min(at + 1, len(samples) - 1)]
        resampled[number] = samples[at] + (following - samples[at]) * beyond // rate_hz
    quiet = rate_hz // 1000 * 2
    return bytes(100 * quiet) + resampled.tobytes() + bytes(SILENCE_MS * quiet)


async def paced(pcm: bytes, rate_hz: int = 24_000, chunk_ms: int = CHUNK_MS) -> AsyncIterator[bytes]:
    """``pcm`` in pieces of ``chunk_ms``, each when a microphone would have it."""
    size = rate_hz * chunk_ms // 1000 * 2
    clock = asyncio.get_running_loop()
    began = clock.time()
    for number, at in enumerate(range(0, len(pcm), size), 1):
        yield pcm[at : at + size]
        await asyncio.sleep(max(0.0, began + number * chunk_ms / 1000 - clock.time()))
