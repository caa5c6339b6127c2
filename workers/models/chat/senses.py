"""The ears and the voice that a chat server lacks: a recogniser and a synthesiser, on threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..pcm import Floats
from ..speech.asr import Whisper
from ..speech.tts import RATE_HZ, Voice
from .options import ChatOptions

THREADS = 2


class Senses:
    """What of the two the options ask for; calls run beside each other, up to ``THREADS`` of each kind."""

    def __init__(self, hear: Callable[[Floats], str] | None, say: Callable[[str], Floats] | None) -> None:
        """``hear`` gives the words in float32 at 16 kHz, ``say`` float32 at ``RATE_HZ`` for one sentence."""
        self._hear = hear
        self._say = say
        self._pool = ThreadPoolExecutor(2 * THREADS, "chat-senses")

    @property
    def hears(self) -> bool:
        """Whether speech is understood here."""
        return self._hear is not None

    @property
    def speaks(self) -> bool:
        """Whether text is spoken here."""
        return self._say is not None

    async def understand(self, pcm: bytes) -> str:
        """The words of mono int16 at 16 kHz; empty for silence."""
        if self._hear is None or not pcm:
            return ""
        samples = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768.0
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._hear, samples)

    async def pronounce(self, sentence: str) -> Floats:
        """(samples,) float32 at ``RATE_HZ``; empty for what cannot be pronounced."""
        if self._say is None or not sentence.strip():
            return np.zeros(0, np.float32)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._say, sentence.strip())

    def close(self) -> None:
        """Free the threads; what runs is finished."""
        self._pool.shutdown(cancel_futures=True)


def load_senses(options: ChatOptions) -> Senses:
    """Load what the options ask for, and warm it up. Blocking. Raises: CascadePartMissing saying what to install."""
    hear: Callable[[Floats], str] | None = None
    say: Callable[[str], Floats] | None = None
    if options.audio_in == "asr":
        asr = Whisper(THREADS)
        asr.warm_up()

        def words(samples: Floats) -> str:
            return asr.transcribe(samples).text

        hear = words
    if options.audio_out == "tts":
        voice = Voice()
        voice.warm_up()
        say = voice.say
    return Senses(hear, say)


__all__ = ["RATE_HZ", "Senses", "load_senses"]
