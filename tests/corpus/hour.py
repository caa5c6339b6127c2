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
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import hour_call

LIMIT_S, LIMIT_MB = 5.0, 300.0
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


async def make_call(path: Path, minutes: int) -> None:
    """So much of the hour's call, with a caller of noise, written to ``path``."""
    await hour_call.write(path, hour_call.TURNS * minutes // 60, hour_call.noise)


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
