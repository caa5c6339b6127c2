"""The loaded parts of one worker's cascade, shared by its sessions, and the threads they run on."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from workers.vad.batcher import VadBatcher
from workers.vad.silero import SileroMissing, SileroVad, VadState

from ..pcm import Floats
from ..speech.asr import Heard, Whisper
from ..speech.missing import CascadePartMissing
from ..speech.tts import Voice
from .dialogue.chat import ChatServer
from .dialogue.mind import Mind
from .dialogue.smollm import SmolLm, find_weights
from .options import CascadeOptions


def local_time() -> datetime:
    """The wall clock of this machine, in its own time zone."""
    return datetime.now().astimezone()


class Parts:
    """Detector, recogniser, mind and voice. Everything heavy runs on threads of its own, never on the event loop."""

    def __init__(
        self, vad: SileroVad, asr: Whisper, voice: Voice, mind: Mind, pools: Pools, clock: Callable[[], datetime]
    ) -> None:
        self._detector = VadBatcher(vad, pools.vad)
        self._asr = asr
        self._voice = voice
        self._pools = pools
        self.mind = mind
        self.clock = clock

    async def speech_in(self, state: VadState, frames: Sequence[Floats]) -> list[float]:
        """One speech probability per frame."""
        return await self._detector.probabilities(state, frames)

    async def understand(self, samples: Floats) -> Heard:
        """The words in (samples,) float32 at 16 kHz."""
        return await asyncio.get_running_loop().run_in_executor(self._pools.asr, self._asr.transcribe, samples)

    async def pronounce(self, text: str, *, speed: float, gain: float) -> Floats:
        """(samples,) float32 at 24 kHz of one sentence."""
        say = functools.partial(self._voice.say, text, speed=speed, gain=gain)
        return await asyncio.get_running_loop().run_in_executor(self._pools.tts, say)

    async def close(self) -> None:
        """Free the threads and connections; work that has begun is finished first."""
        await self.mind.close()
        await asyncio.to_thread(self._pools.close)


class Pools:
    """The threads: one for the detector (its network is not thread-safe), ``threads`` each for hearing and speaking."""

    def __init__(self, threads: int, warm_up: Callable[[], None]) -> None:
        self.vad = ThreadPoolExecutor(1, "cascade-vad")
        self.asr = ThreadPoolExecutor(threads, "cascade-asr")
        self.tts = ThreadPoolExecutor(threads, "cascade-tts")
        self.mind = ThreadPoolExecutor(1, "cascade-mind")
        # A pool starts a thread per task while none is idle: held at a barrier, each warms up exactly once.
        barrier = threading.Barrier(threads)
        self._warming = [self.tts.submit(_warm, barrier, warm_up) for _ in range(threads)]

    def wait(self) -> None:
        """Return when every thread is warm. Raises: whatever warming up raised."""
        for warming in self._warming:
            warming.result()

    def close(self) -> None:
        """Stop all threads; what waits is forgotten, what runs is finished."""
        for pool in (self.vad, self.asr, self.tts, self.mind):
            pool.shutdown(cancel_futures=True)


def _warm(barrier: threading.Barrier, warm_up: Callable[[], None]) -> None:
    barrier.wait(30)
    warm_up()


def load_parts(options: CascadeOptions, clock: Callable[[], datetime] = local_time) -> Parts:
    """Load everything and warm it up. Blocking, about a second. Raises: CascadePartMissing saying what to install."""
    try:
        vad = SileroVad()
    except SileroMissing as error:
        raise CascadePartMissing(str(error)) from error
    asr, voice = Whisper(options.threads), Voice()
    pools = Pools(options.threads, voice.warm_up)
    chat = ChatServer(options.chat_url, options.chat_model, options.chat_key) if options.chat_url else None
    weights = find_weights() if options.language_model and chat is None else None
    small = SmolLm(weights) if weights is not None else None
    for part in (asr, small):
        if part is not None:
            part.warm_up()
    pools.wait()
    mind = Mind(chat=chat, small=small, executor=pools.mind, with_rules=options.rules)
    return Parts(vad, asr, voice, mind, pools, clock)
