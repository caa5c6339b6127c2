"""Plays the failure table and prints it: ``python -m tests.chaos.run --rounds 5 --seed 1 --row worker-killed``.

Exit code 1 when a promise was broken, with the seed that plays the round again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
import traceback
from contextlib import AsyncExitStack
from pathlib import Path

from tests.chaos.rounds import SESSIONS, Tally, play
from tests.chaos.rows import ROWS, Row, chosen
from tests.support.chaos_fleet import Fleet

LAST_WORDS = Path("out/chaos")
"""Where the processes' own words of a broken round go."""
TITLES = ("row", "rounds", "sessions", "frames", "lost", "repeated", "told", "failed", "median s", "worst s", "")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each row")
    parser.add_argument("--seed", default="1", help="what the moments are drawn from; a round's own seed is SEED.N")
    parser.add_argument("--row", action="append", default=[], choices=sorted(ROWS), help="only this row; repeatable")
    parser.add_argument("--short", action="store_true", help="the quick rows")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="callers in a round")
    parser.add_argument("--store", default="valkey", choices=("valkey", "redis"), help="which server")
    parser.add_argument("--minutes", type=float, default=0.0, help="start no round after so long; 0: no limit")
    parser.add_argument("--out", type=Path, default=None, help="also write the table as JSON here")
    return parser.parse_args(words)


async def run(args: argparse.Namespace) -> int:
    """Play, print, and return the exit code. Rows take turns, so that a run cut short has seen them all alike."""
    rows = chosen(args.row, quick=args.short)
    tallies = {row.name: Tally(row) for row in rows}
    ends_s = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # After the round that is being played, so that no process is left behind and the table is printed.
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        fleets: dict[str, Fleet] = {}
        for number in range(args.rounds):
            # One round asked for by its full seed is played under that seed.
            seed = args.seed if args.rounds == 1 and "." in args.seed else f"{args.seed}.{number}"
            for row in rows:
                if stopping.is_set() or time.monotonic() >= ends_s:
                    break
                if row.far not in fleets:
                    fleets[row.far] = await stack.enter_async_context(Fleet(row.far, store_kind=args.store))
                await play_round(row, fleets[row.far], seed, tallies[row.name], args.sessions)
    print(table([tally for tally in tallies.values() if tally.rounds]))
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps([_plain(tally) for tally in tallies.values()], indent=1))
    return report(list(tallies.values()))


async def play_round(row: Row, fleet: Fleet, seed: str, tally: Tally, sessions: int) -> None:
    """One round, with a line about it on stderr; a round that cannot be judged counts as broken."""
    began_s = time.monotonic()
    try:
        await play(row, fleet, seed, tally, sessions)
    except Exception as error:
        tally.rounds += 1
        tally.faults[seed] = [f"the round broke: {error!r}", *traceback.format_exc().splitlines()[-6:]]
    wrong = tally.faults.get(seed, [])
    words = f"{len(wrong)} wrong: {wrong[0][:200]}" if wrong else "held"
    if seed in tally.known:
        words += f" but for what is known: {tally.known[seed][0]}"
    print(
        f"{time.strftime('%H:%M:%S')} {row.name} {seed} {time.monotonic() - began_s:.1f} s: {words}",
        file=sys.stderr,
        flush=True,
    )
    if wrong:
        LAST_WORDS.mkdir(parents=True, exist_ok=True)
        (LAST_WORDS / f"{row.name}-{seed}.log").write_text(fleet.words())


def table(tallies: list[Tally]) -> str:
    """The table, as Markdown."""
    lines = [f"| {' | '.join(TITLES)} |", f"|{' --- |' * len(TITLES)}"]
    for tally in tallies:
        verdict = "held" if not tally.faults else f"BROKEN in {len(tally.faults)}"
        if tally.known:
            verdict = f"KNOWN FAULT in {len(tally.known)}" if not tally.faults else verdict
        if tally.row.known:
            verdict += f" ({tally.row.known})"
        cells = [
            *(tally.row.name, tally.rounds, tally.sessions, tally.frames, tally.lost, tally.repeated, tally.told),
            *(tally.failed_answers, f"{tally.median_s:.2f}", f"{tally.worst_s:.2f}", verdict),
        ]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)


def report(tallies: list[Tally]) -> int:
    """Say what was broken and how to see it again; the exit code."""
    broken = [(tally.row, seed, wrong) for tally in tallies for seed, wrong in tally.faults.items()]
    for row, seed, wrong in broken:
        print(f"\n{row.name}: {row.promise}\n  make chaos ROUNDS=1 SEED={seed} ROW={row.name}")
        for line in wrong[:12]:
            print(f"  - {line}")
    return 1 if broken else 0


def _plain(tally: Tally) -> dict[str, object]:
    counts = {name: getattr(tally, name) for name in ("rounds", "sessions", "frames", "lost", "repeated", "told")}
    times: dict[str, object] = {"median_s": round(tally.median_s, 3), "worst_s": round(tally.worst_s, 3)}
    return {
        "row": tally.row.name,
        **counts,
        **times,
        "failed_answers": tally.failed_answers,
        "faults": tally.faults,
        "known": tally.known,
    }


if __name__ == "__main__":
    sys.exit(asyncio.run(run(arguments())))
