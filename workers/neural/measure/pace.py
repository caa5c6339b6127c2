"""Many callers at the pace of speech, every window full, while sessions leave, join and are rebuilt between beats.

Every slot counts as one whose window is full and has wrapped, also right after it joined: the load is the worst case
throughout.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..mimi.codec import FRAME_SAMPLES
from ..personaplex.aging import age
from ..personaplex.engine import BUSY_S, PersonaPlexEngine
from ..personaplex.memory import pack_frames
from .timing import memory_gb, spread

PERIOD_S = 0.08
PERSONA = "You are a patient assistant of a bank who answers briefly and asks back when something is unclear. " * 4


@dataclass(slots=True)
class Plan:
    """``join_every`` beats one session leaves and another takes its slot; with ``rebuilt_frames`` the other is not new

    but goes on from a memory of that many frames.
    """

    slots: int
    seconds: float
    join_every: int = 12
    rebuilt_frames: int = 0


@dataclass(slots=True)
class Tally:
    """What was seen."""

    after_due: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    pieces: list[float] = field(default_factory=list)
    openings: list[float] = field(default_factory=list)


def remembered(engine: PersonaPlexEngine, frames: int, seed: int = 0) -> bytes:
    """A memory of a session that is ``frames`` long, of random ids."""
    shape, dice = engine.parts.shape, np.random.default_rng(seed)
    first = engine.opening_frames(_opening(engine, ""))
    texts = dice.integers(4, shape.text_card, (frames, 1))
    codes = dice.integers(0, shape.code_card, (frames, shape.streams - 1))
    ids = np.concatenate([texts, codes], 1)
    return pack_frames(first, ids)


def opened(engine: PersonaPlexEngine, slot: int, name: str, memory: bytes = b"") -> Iterator[None]:
    """The opening of a session of that name."""
    return engine.open(slot, _opening(engine, name), memory)


def _opening(engine: PersonaPlexEngine, name: str) -> dict[str, Any]:
    """A session with as long a persona as leaves most of the window free."""
    words = PERSONA.split()[: engine.parts.shape.window // 4]
    return {"session_id": name, "incarnation": 0, "instructions": " ".join(words)}


def paced(engine: PersonaPlexEngine, plan: Plan) -> dict[str, Any]:
    """Run it in real time. A beat is late when its sound is not there within its 80 ms."""
    for slot in range(plan.slots):
        for _ in opened(engine, slot, f"first-{slot}"):
            pass
    age(engine.parts, None)
    gc.collect()
    gc.disable()
    try:
        tally = _run(engine, plan)
    finally:
        gc.enable()
    late = sum(after > PERIOD_S * 1000 for after in tally.after_due)
    after = spread(tally.after_due)
    return {
        "slots": plan.slots,
        "beats": len(tally.after_due),
        "late": late,
        "after_due_ms": after,
        "work_ms": spread(tally.work),
        "joins": len(tally.openings),
        "rebuilt_frames": plan.rebuilt_frames,
        "piece_ms": spread(tally.pieces),
        "opening_until_ready_ms": spread(tally.openings),
        "memory_gb": memory_gb(engine.parts.beat.stepper.device),
        "passed": late == 0 and after["p99"] <= 60,
    }


def _run(engine: PersonaPlexEngine, plan: Plan) -> Tally:
    tally = Tally()
    dice = np.random.default_rng(1)
    sound = dice.normal(0, 0.1, (16, plan.slots, FRAME_SAMPLES)).astype(np.float32)
    memory = remembered(engine, plan.rebuilt_frames) if plan.rebuilt_frames else b""
    ready = set(range(plan.slots))
    joining: tuple[int, Iterator[None], float] | None = None
    longest_piece_s = 0.02
    began_s = time.perf_counter() + PERIOD_S
    for beat in range(max(1, int(plan.seconds / PERIOD_S))):
        due_s = began_s + beat * PERIOD_S
        time.sleep(max(0.0, due_s - time.perf_counter()))
        started_s = time.perf_counter()
        # Somebody's packet is late in every seventh beat.
        batch = [slot for slot in sorted(ready) if beat % 7 or slot != beat % plan.slots] or sorted(ready)
        engine.step(batch, sound[beat % 16, batch])
        done_s = time.perf_counter()
        tally.work.append((done_s - started_s) * 1000)
        tally.after_due.append((done_s - due_s) * 1000)
        # One piece that was slow for once must not keep all others waiting.
        longest_piece_s *= 0.95
        if joining is None and beat % plan.join_every == 0 and len(ready) > 1:
            slot = (beat // plan.join_every) % plan.slots
            engine.close(slot)
            ready.discard(slot)
            joining = slot, opened(engine, slot, f"join-{beat}", memory), time.perf_counter()
        while joining is not None and time.perf_counter() + longest_piece_s * 1.1 < due_s + PERIOD_S:
            slot, work, asked_s = joining
            piece_s = time.perf_counter()
            is_done = next(work, work) is work
            taken_s = time.perf_counter() - piece_s
            longest_piece_s = max(taken_s, longest_piece_s)
            tally.pieces.append(taken_s * 1000)
            if is_done:
                tally.openings.append((time.perf_counter() - asked_s) * 1000)
                age(engine.parts, slot)
                ready.add(slot)
                joining = None
    return tally


def rebuild_times(engine: PersonaPlexEngine, seconds: tuple[float, ...], times: int = 3) -> list[dict[str, Any]]:
    """How long one session takes to be rebuilt with nobody beside it, by how long it was, piece by piece."""
    found = []
    for length_s in seconds:
        frames = max(3, int(length_s / PERIOD_S))
        memory = remembered(engine, frames)
        taken, pieces = [], []
        _rest()
        for _ in range(times):
            began_s = time.perf_counter()
            pieces = _pieces(engine, 0, memory)
            taken.append((time.perf_counter() - began_s) * 1000)
        found.append(
            {
                "seconds": length_s,
                "frames": frames,
                "memory_bytes": len(memory),
                "ms": spread(taken),
                "last_pieces_ms": [round(piece, 1) for piece in pieces],
            }
        )
    engine.close(0)
    return found


def rebuild_all(engine: PersonaPlexEngine, frames: int) -> dict[str, Any]:
    """How long all slots together take to be rebuilt after a crash, one after the other, nobody stepping yet."""
    memory = remembered(engine, frames)
    _rest()
    began_s = time.perf_counter()
    for slot in range(engine.facts.slots):
        for _ in opened(engine, slot, "rebuilt", memory):
            pass
    engine.parts.beat.synchronize()
    total_s = time.perf_counter() - began_s
    for slot in range(engine.facts.slots):
        engine.close(slot)
    return {"slots": engine.facts.slots, "frames": frames, "total_s": round(total_s, 2)}


def _pieces(engine: PersonaPlexEngine, slot: int, memory: bytes) -> list[float]:
    """Rebuild one session; how long each piece took, in ms."""
    taken = []
    began_s = time.perf_counter()
    for _ in opened(engine, slot, "rebuilt", memory):
        now_s = time.perf_counter()
        taken.append((now_s - began_s) * 1000)
        began_s = now_s
    engine.parts.beat.synchronize()
    return [*taken, (time.perf_counter() - began_s) * 1000]


def _rest() -> None:
    """Long enough for the engine to see that nobody is stepped."""
    time.sleep(2 * BUSY_S)
