"""An hour's call, made in seconds, and what it costs to read it: ``python -m tests.corpus.hour [FILE] [--minutes N]``.

Each command runs as its own process, start included; it prints seconds, peak memory, and both as a share of the limits
(5 s and 300 MB for an hour). What counts is the time of a processor: on a machine that does nothing else it is what one
waits. The caller's sound is noise, which no compression makes smaller.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import AppendAudio, CloseSession
from tests.support.long_call import APPEND_MS
from tests.support.recorded_call import RecordedCall, export
from workers.retention import Limits

LIMIT_S, LIMIT_MB = 5.0, 300.0
KEEPS_ALL = Limits(audio_s=0, audio_bytes=0, history_s=0, history_bytes=0)
TURN_S, ANSWER_MS = 6, 8_000
SCRIPT = (
    '[{"on": "end_turn", "every": true, "transcript": "and then", "do": '
    f'[{{"audio_ms": {ANSWER_MS}, "pace": "fast", "text": "Then something else happened."}}, {{"finish": true}}]}}]'
)
COMMANDS = (
    ("show",),
    ("show", "--at", "20000"),
    ("verify",),
    ("audio", "-o", "call.wav"),
    ("stats",),
    ("replay", "--check"),
)
LIMITED = {"show", "verify", "audio"}


class Cost(NamedTuple):
    """What one command took: ``seconds`` on the wall, ``busy_s`` of a processor."""

    seconds: float
    busy_s: float
    peak_mb: float


def noise(ms: int, draw: random.Random) -> bytes:
    """PCM16 at 16 kHz that is like speech only in that it cannot be compressed."""
    return draw.randbytes(16 * 2 * ms)


async def make_call(path: Path, minutes: int) -> None:
    """Record it over a log in memory, with a real actor, and write it to ``path``."""
    log, draw = MemoryLog(), random.Random(1)
    call = await RecordedCall.begin(log, "hour", SCRIPT, KEEPS_ALL)
    for _ in range(minutes * 60_000 // (TURN_S * 1_000 + ANSWER_MS)):
        for _ in range(TURN_S * 1_000 // APPEND_MS):
            call.clock.now_ms += APPEND_MS
            await call.caller.say(AppendAudio(audio=noise(APPEND_MS, draw), is_speech=True))
        call._heard_ms += TURN_S * 1_000
        await call._until(lambda: call.actor.session.input.clock.ms >= call._heard_ms)
        await call.turn()
        call.wait(ANSWER_MS)
    await call.caller.say(CloseSession())
    await call.caller.ends()
    await call.end()
    await export(log, "hour", path)


WATCH = """
import json, os, sys, time
began = time.monotonic()
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
wall, busy = time.monotonic() - began, used.ru_utime + used.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), wall, busy, used.ru_maxrss / 1024]))
"""
"""Its own process is small: what a child needed at most includes what its parent had when it was made."""


def cost_of(words: tuple[str, ...], path: Path, folder: Path) -> Cost:
    """Run ``duplex-es log …`` on the file. Raises: RuntimeError when it fails."""
    program = str(Path(sys.executable).with_name("duplex-es"))
    command = [sys.executable, "-S", "-E", "-c", WATCH, program, "log", *words, "--file", str(path)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    code, seconds, busy_s, peak_mb = json.loads(done.stdout)
    if code:
        raise RuntimeError(f"log {' '.join(words)}: {done.stderr}")
    return Cost(seconds, busy_s, peak_mb)


def measure(path: Path, minutes: int) -> dict[str, Cost]:
    """Every command once, and the table."""
    found: dict[str, Cost] = {}
    print(f"{path}: {minutes} minutes, {path.stat().st_size / 1e6:.0f} MB, {os.cpu_count()} cores")
    print(f"{'command':<22}{'s':>7}{'busy s':>8}{'MB':>6}{'of 5 s':>9}{'of 300 MB':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for words in COMMANDS:
            if "--at" in words and minutes < 60:
                continue
            name = " ".join(words[:2] if words[0] in ("show", "replay") else words[:1])
            cost = found[name] = cost_of(words, path, Path(folder))
            shares = f"{cost.busy_s / LIMIT_S:>9.0%}{cost.peak_mb / LIMIT_MB:>11.0%}"
            print(f"log {name:<18}{cost.seconds:>7.2f}{cost.busy_s:>8.2f}{cost.peak_mb:>6.0f}{shares}")
    return found


def main() -> int:
    """0 when the limited commands keep within the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=None)
    parser.add_argument("--minutes", type=int, default=60)
    args: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or Path(folder) / "hour.dxlog"
        if not path.exists():
            asyncio.run(make_call(path, args.minutes))
        found = measure(path, args.minutes)
    limited = {name: cost for name, cost in found.items() if name in LIMITED}
    slow = [name for name, cost in limited.items() if cost.busy_s > LIMIT_S or cost.peak_mb > LIMIT_MB]
    print("too much: " + ", ".join(slow) if slow else "within the limits")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
