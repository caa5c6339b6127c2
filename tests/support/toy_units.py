"""A unit engine that needs nothing: it repeats what it hears, waits when told to, and can be told to misbehave."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workers.engine.contract import EngineDead, EngineFacts, EngineRefused, Floats
from workers.engine.units import UnitDone

UNIT_SAMPLES = 320
SLOW, SICK, DEADLY, CRASHING = 0.25, 0.5, 0.75, 1.0


class ToyUnits:
    """20 ms units at 16 kHz, the first of 40. It says the first sample of what it heard, in thousandths, as its words.

    A unit whose first sample is ``SLOW`` lasts until it is broken off; the others fail the session, the engine or the
    process.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        slots = int(options.get("slots", "2"))
        self.facts = EngineFacts(
            name="toy units",
            frame_ms=20,
            first_ms=40,
            input_rate_hz=16_000,
            output_rate_hz=16_000,
            slots=slots,
            window_frames=0,
            memory_bytes=0,
        )
        self.broken = {slot: threading.Event() for slot in range(slots)}
        self.open_slots: set[int] = set()
        self.busy = threading.Event()

    def load(self) -> None:
        pass

    def open(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        if opening.get("voice") == "unknown":
            raise EngineRefused("invalid_duplex_runtime_config", "no such voice", "session.voice")
        self.open_slots.add(slot)
        yield

    def unit(self, slot: int, pcm: Floats, frames: Sequence[bytes], *, forced: bool) -> UnitDone:
        assert slot in self.open_slots
        first = float(pcm[0])
        if first == CRASHING:
            os._exit(3)
        if first == DEADLY:
            raise EngineDead("told to die")
        if first == SICK:
            raise ValueError("told to fail")
        if first == SLOW and not forced:
            self.busy.set()
            was_broken = self.broken[slot].wait(30)
            return UnitDone(b"", f"broken {was_broken}", listens=True, ends=True)
        words = f"{round(first * 1000)} {len(pcm)} {b'+'.join(frames).decode()}"
        return UnitDone(np.full(4, 9, np.int16).tobytes(), words, listens=forced, ends=False)

    def begin(self, slot: int) -> None:
        self.broken[slot].clear()

    def interrupt(self, slot: int) -> None:
        self.broken[slot].set()

    def close(self, slot: int) -> None:
        self.open_slots.discard(slot)


def unit(value: float) -> bytes:
    """The float32 unit that says ``value`` thousandths."""
    return np.full(UNIT_SAMPLES, value / 1000, np.float32).tobytes()
