"""Where the caller begins and stops to speak, for models that do not say so themselves: Silero over whole sessions.

All sessions of a worker share one network, whose calls they fill together. What a session remembers of it is a few
hundred numbers; it forgets them when the client clears its input.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from duplex_es.session.inputs import VadVerdict
from duplex_es.session.state import Clock
from workers.vad.batcher import VadBatcher
from workers.vad.endpoint import EndpointSettings, EndpointState, Mark, advance
from workers.vad.silero import FRAME_MS, FRAME_SAMPLES, RATE_HZ, SileroVad, VadState

from .listener import Heard, Listener, Samples

NEVER_MS = 2**40
"""A turn ends by silence alone, and nothing is guessed before."""


class Detectors:
    """One worker's network, loaded when the first session needs it."""

    def __init__(self, load: Callable[[], SileroVad] = SileroVad) -> None:
        self._load = load
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="voice detector")
        self._loading = asyncio.Lock()
        self._batcher: VadBatcher | None = None

    async def ready(self) -> VadBatcher:
        """The loaded network. Raises: whatever keeps it from loading; the next call tries again."""
        async with self._loading:
            if self._batcher is None:
                vad = await asyncio.get_running_loop().run_in_executor(self._thread, self._load)
                self._batcher = VadBatcher(vad, self._thread)
            return self._batcher

    def close(self) -> None:
        """Let the thread go. No session may be judged any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class Found(NamedTuple):
    """A verdict about the ``samples`` of an append that come after those of the verdict before it."""

    samples: int
    verdict: VadVerdict


def endpoint_settings(turn_detection: Mapping[str, object]) -> EndpointSettings:
    """How a ``server_vad`` object, defaults filled in, is counted in frames."""

    def number(name: str, default: float) -> float:
        value = turn_detection.get(name)
        return value if isinstance(value, int | float) else default

    return EndpointSettings(
        threshold=number("threshold", 0.5),
        frame_ms=FRAME_MS,
        min_speech_ms=int(number("min_speech_duration_ms", 0)),
        silence_ms=int(number("silence_duration_ms", 500)),
        pause_ms=NEVER_MS,
        longest_turn_ms=NEVER_MS,
    )


class Detector:
    """One session's detector. Takes its appends in order and says where an utterance begins and where it ends.

    ``clock`` is the session's input clock when the stream begins; ``is_speaking`` whether the session was told of an
    utterance that still runs: a successor picks up where its predecessor was.
    """

    def __init__(
        self, detectors: Detectors, turn_detection: Mapping[str, object], clock: Clock, *, is_speaking: bool = False
    ) -> None:
        self.turn_detection = turn_detection
        self._detectors = detectors
        self._settings = endpoint_settings(turn_detection)
        prefix_ms = turn_detection.get("prefix_padding_ms", 300)
        self._prefix_ms = prefix_ms if isinstance(prefix_ms, int) else 300
        self._told = is_speaking
        self._clock = clock
        self._begun_ms = clock.ms
        self._begun_us = _micros(clock)
        self._ear = Listener(RATE_HZ)
        self._waiting: Samples = np.zeros(0, np.float32)
        self._network = VadState()
        self._endpoint = EndpointState()
        self._probability = 0.0

    def follow(self, clock: Clock) -> None:
        """The session's input clock before the next append: it counts sound that was not heard here, or refused."""
        if clock != self._clock:
            moved_us = _micros(clock) - _micros(self._clock)
            self._begun_us, self._begun_ms = self._begun_us + moved_us, self._begun_ms + moved_us // 1000
            self._clock = clock

    async def warm(self, heard: Heard) -> None:
        """Hear again what the session has decided on already. Raises as ``judge``."""
        self._clock = self._clock.after(heard.samples.size, heard.rate_hz)
        for probability in await self._probabilities(heard):
            self._endpoint, _ = advance(self._endpoint, probability, self._settings)

    async def judge(self, heard: Heard) -> list[Found]:
        """The verdicts on one append, which together cover its samples; each but the last ends where one changed.

        Raises: whatever the network raised; the stream is then of no use any more.
        """
        before = self._clock
        self._clock = before.after(heard.samples.size, heard.rate_hz)
        found: list[Found] = []
        told_of, best, judged = 0, 0.0, False
        if self._told != self._endpoint.in_speech:  # A predecessor stopped between the two.
            told_of = self._cut(found, told_of, 1, heard, self._verdict(self._probability))
        for probability in await self._probabilities(heard):
            self._endpoint, mark = advance(self._endpoint, probability, self._settings)
            best, judged = max(best, probability), True
            if mark in (Mark.STARTED, Mark.ENDED):
                end_us = self._begun_us + self._endpoint.frames * FRAME_MS * 1000
                place = -((end_us - _micros(before)) * heard.rate_hz // -1_000_000)
                told_of = self._cut(found, told_of, place, heard, self._verdict(best))
                best, judged = 0.0, False
        if judged:
            self._probability = best
        if told_of < heard.samples.size:
            found.append(Found(heard.samples.size - told_of, self._verdict(self._probability)))
        return found

    @staticmethod
    def _cut(found: list[Found], told_of: int, place: int, heard: Heard, verdict: VadVerdict) -> int:
        """Note ``verdict`` for the samples up to ``place``, at least one; returns how many there are verdicts for."""
        until = min(max(place, told_of + 1), heard.samples.size)
        found.append(Found(until - told_of, verdict))
        return until

    def _verdict(self, probability: float) -> VadVerdict:
        """What changed since the session was told last."""
        self._probability = probability
        state, was = self._endpoint, self._told
        self._told = state.in_speech
        started, stopped = self._told and not was, was and not self._told
        start_ms = self._begun_ms + state.start_frame * FRAME_MS - self._prefix_ms
        return VadVerdict(
            is_speech=self._told or stopped or probability >= self._settings.threshold,
            speech_active=self._told,
            speech_started=started,
            speech_stopped=stopped,
            probability=probability,
            start_ms=max(self._begun_ms, start_ms) if started else None,
            end_ms=self._begun_ms + state.frames * FRAME_MS if stopped else None,
        )

    async def _probabilities(self, heard: Heard) -> list[float]:
        samples = np.frombuffer(self._ear.at_model_rate(heard), "<f4")
        held = np.concatenate([self._waiting, samples])
        whole = len(held) - len(held) % FRAME_SAMPLES
        self._waiting = held[whole:]
        frames = [held[at : at + FRAME_SAMPLES] for at in range(0, whole, FRAME_SAMPLES)]
        if not frames:
            return []
        batcher = await self._detectors.ready()
        return await batcher.probabilities(self._network, frames)


def _micros(clock: Clock) -> int:
    return clock.base_us + clock.samples * 1_000_000 // clock.rate_hz
