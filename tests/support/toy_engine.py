"""A frame engine that needs nothing: it counts, remembers what it heard, and can be told to misbehave."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workers.engine.contract import EngineDead, EngineFacts, EngineRefused, Floats, Stepped

FRAME_SAMPLES = 320
SICK = 0.5
DEADLY = 0.75
CRASHING = 1.0


class ToyEngine:
    """20 ms frames at 16 kHz. The sound of a frame is the running sum of the frames heard, as one sample repeated.

    A frame whose first sample is ``SICK``, ``DEADLY`` or ``CRASHING`` fails its session, the engine, or the process.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.facts = EngineFacts(
            name="toy",
            frame_ms=20,
            input_rate_hz=16_000,
            output_rate_hz=16_000,
            slots=int(options.get("slots", "2")),
            window_frames=100,
            memory_bytes=2,
        )
        self._fails_to_load = "broken" in options
        self._heard: dict[int, int] = {}

    def load(self) -> None:
        if self._fails_to_load:
            raise FileNotFoundError("the toy's weights are missing")

    def open(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        if opening.get("voice") == "unknown":
            raise EngineRefused("invalid_duplex_runtime_config", "no such voice", "session.voice")
        return self._prepare(slot, opening, memory)

    def _prepare(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        self._heard[slot] = 0
        if slow_s := float(opening.get("slow_s", 0)):
            time.sleep(slow_s)  # blocks, as a kernel that is compiled does
            yield
        for value in np.frombuffer(memory, np.int16):
            yield
            self._heard[slot] += int(value)

    def step(self, slots: Sequence[int], frames: Floats) -> list[Stepped]:
        first = frames[:, 0]
        if (first == CRASHING).any():
            # As with a process that has a device to let go: its socket ends long before it does.
            os.closerange(3, 256)
            time.sleep(0.2)
            os._exit(3)
        if (first == DEADLY).any():
            raise EngineDead("told to die")
        if (first == SICK).any():
            raise ValueError("told to fail")
        return [self._one(slot, round(float(frame[0]) * 1000)) for slot, frame in zip(slots, frames, strict=True)]

    def _one(self, slot: int, value: int) -> Stepped:
        self._heard[slot] += value
        total = np.full(FRAME_SAMPLES, self._heard[slot], np.int16)
        return Stepped(pcm=total.tobytes(), text=f"{value} ", speaks=value > 0, memory=np.int16(value).tobytes())

    def close(self, slot: int) -> None:
        self._heard.pop(slot, None)


def frame(value: int) -> bytes:
    """The float32 frame that says ``value``."""
    return np.full(FRAME_SAMPLES, value / 1000, np.float32).tobytes()
