"""How long callers wait when PersonaPlex's engine is killed, by what outlives it.

    .neural/bin/python ci/engine_crash.py --sessions 4 --rounds 5 --out result.json shape=small threads=1

Each round starts an engine in each way, opens the sessions with a past as long as their windows, lets each hear a
frame, kills the engine's process, and takes the time until all of them have heard their next frame. Ways take turns, so
that what else the machine does meets all alike. Options of the engine follow as ``name=value``; weights are noise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from workers.engine.contract import EngineFacts, Stepped  # noqa: E402
from workers.engine.process import EngineEvent, EngineProcess, Ready  # noqa: E402
from workers.engine.starting import Ways  # noqa: E402
from workers.neural.personaplex.memory import IDS, pack_frame  # noqa: E402

FACTORY = "workers.neural.personaplex.engine:make"
PATIENCE_S = 600.0
OPENING_FRAMES = 12
"""Without instructions and a voice there is silence only."""
WAYS: dict[str, dict[str, str]] = {
    "nothing": {},
    "standby": {"standby": "yes"},
    "weights": {"keep": "weights"},
    "weights, standby": {"keep": "weights", "standby": "yes"},
    "windows": {"keep": "windows"},
    "windows, standby": {"keep": "windows", "standby": "yes"},
}


class Callers:
    """Some sessions of one engine, over as many processes as it takes."""

    def __init__(self, engine: EngineProcess, facts: EngineFacts, sessions: int) -> None:
        self._engine, self._frame = engine, bytes(4 * facts.samples_in)
        past = facts.window_frames // 2 - OPENING_FRAMES - 1
        dice = np.random.default_rng(1)
        self._memories = {
            f"session-{number}": bytearray(
                b"".join(pack_frame(OPENING_FRAMES + at, dice.integers(4, 60, IDS)) for at in range(past))
            )
            for number in range(sessions)
        }
        self._waits_for: dict[str, type[EngineEvent]] = {}
        self._all_heard = asyncio.Event()

    async def open(self) -> None:
        """Open all, and return when all are ready."""
        self._wait_for(Ready)
        for name, memory in self._memories.items():
            opening = {"session_id": name, "incarnation": 0}
            self._engine.open(name, opening, lambda event, name=name: self._hear(name, event), bytes(memory))  # type: ignore[misc]
        await asyncio.wait_for(self._all_heard.wait(), PATIENCE_S)

    async def hear_a_frame(self) -> None:
        """Let each say a frame, and return when all have been answered."""
        self._wait_for(Stepped)
        for name in self._memories:
            self._engine.feed(name, self._frame)
        await asyncio.wait_for(self._all_heard.wait(), PATIENCE_S)

    def _wait_for(self, kind: type[EngineEvent]) -> None:
        self._waits_for = dict.fromkeys(self._memories, kind)
        self._all_heard.clear()

    def _hear(self, name: str, event: EngineEvent) -> None:
        if isinstance(event, Stepped):
            self._memories[name] += event.memory
        if isinstance(event, self._waits_for.get(name, ())):
            del self._waits_for[name]
        if not self._waits_for:
            self._all_heard.set()


def cpu_s(pid: int) -> float:
    """The processor's time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def one_crash(options: Mapping[str, str], sessions: int) -> dict[str, float]:
    """The milliseconds of one crash: until the engine was loaded, all sessions ready, and all answered.

    ``processor`` is what the next process used of it until then, which other work on the machine does not change.
    """
    ways = Ways(holds=options.get("keep", "nothing") != "nothing", standby="standby" in options)
    engine = EngineProcess(FACTORY, options, ways=ways)
    try:
        facts = await engine.start(timeout_s=PATIENCE_S)
        callers = Callers(engine, facts, sessions)
        await callers.open()
        await callers.hear_a_frame()
        if ways.standby:
            await asyncio.wait_for(engine.starter.standby.prepared.wait(), PATIENCE_S)
        assert engine.pid is not None
        waiting = engine.starter.standby.pid
        spent_s = 0.0 if waiting is None else cpu_s(waiting)
        began_s = time.monotonic()
        os.kill(engine.pid, signal.SIGKILL)
        await engine.ended()
        await engine.start(timeout_s=PATIENCE_S)
        loaded_s = time.monotonic()
        await callers.open()
        ready_s = time.monotonic()
        await callers.hear_a_frame()
        answered_s = time.monotonic()
        spent_s = cpu_s(engine.pid) - spent_s
    finally:
        await engine.stop()
    moments = {"loaded": loaded_s, "ready": ready_s, "answered": answered_s}
    found = {name: round((moment_s - began_s) * 1000, 1) for name, moment_s in moments.items()}
    return found | {"processor": round(spent_s * 1000, 1)}


async def measured(options: Mapping[str, str], sessions: int, rounds: int, names: list[str]) -> dict[str, Any]:
    """All crashes, way by way, and their medians."""
    crashes: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            found = await one_crash({**options, **WAYS[name]}, sessions)
            crashes[name].append(found)
            print(f"round {number + 1}: {name}: {found}", file=sys.stderr, flush=True)
    medians = {
        name: {part: statistics.median(one[part] for one in found) for part in found[0]}
        for name, found in crashes.items()
    }
    return {"options": dict(options), "sessions": sessions, "medians_ms": medians, "crashes_ms": crashes}


def main() -> int:
    """Measure, and say it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", default=";".join(WAYS), help="which, separated by ';'")
    parser.add_argument("--out", type=Path)
    parser.add_argument("options", nargs="*", help="name=value")
    told = parser.parse_args()
    options = {"weights": "random", "slots": str(told.sessions)} | dict(one.split("=", 1) for one in told.options)
    found = json.dumps(asyncio.run(measured(options, told.sessions, told.rounds, told.ways.split(";"))), indent=1)
    print(found)
    if told.out:
        told.out.write_text(found + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
