"""Plays the failure table and prints it: ``python -m tests.chaos.run --rounds 5 --seed 1 --row worker-killed``.

With ``--rounds-total`` the rows come in random order, drawn from the seed. Each round is a line of ``--results`` as
soon as it is over, so that a run that is stopped has not run for nothing: ``--resume`` goes on with it, ``--table``
prints what is there. Exit code 1 when a promise was broken, with the seed that plays the round again.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.chaos import results
from tests.chaos.catalogue import ROWS, chosen, deck
from tests.chaos.results import Result
from tests.chaos.rounds import CROWD, SESSIONS, play
from tests.chaos.table import Row
from tests.support.chaos_fleet import Fleet, Scene

LAST_WORDS = Path("out/chaos")
"""Where the processes' own words of a broken round go."""
FLEETS, LIFE = 3, 25
"""How many deployments are kept at a time, and how many rounds one is used for."""


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each row")
    parser.add_argument("--rounds-total", type=int, default=0, help="instead: so many rounds, rows in random order")
    parser.add_argument("--seed", default="1", help="what the moments are drawn from; a round's own seed is SEED.N")
    parser.add_argument("--row", action="append", default=[], choices=sorted(ROWS), help="only this row; repeatable")
    parser.add_argument("--but", action="append", default=[], choices=sorted(ROWS), help="not this row; repeatable")
    parser.add_argument("--short", action="store_true", help="the quick rows")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="callers in a round")
    parser.add_argument("--crowd", type=int, default=CROWD, help="clients in a reconnect storm")
    parser.add_argument("--store", default="valkey", choices=("valkey", "redis"), help="which server")
    parser.add_argument("--source", default="", help="what is tested, for the results; the commit if it is not said")
    parser.add_argument("--minutes", type=float, default=0.0, help="start no round after so long; 0: no limit")
    parser.add_argument("--results", type=Path, default=None, help="a file to add a line of JSON to for each round")
    parser.add_argument("--resume", action="store_true", help="leave out the rounds that are in the file already")
    parser.add_argument("--table", type=Path, nargs="+", default=[], help="only print the table of these files")
    return parser.parse_args(words)


def rounds_of(args: argparse.Namespace) -> Iterator[tuple[Row, str]]:
    """What to play: each row and the seed of its round. Rows take turns, so that a run cut short saw them all alike."""
    rows = [row for row in chosen(args.row, quick=args.short) if row.name not in args.but and args.store in row.stores]
    if args.rounds_total:
        for number, row in enumerate(itertools.islice(deck(rows, args.seed), args.rounds_total)):
            yield row, f"{args.seed}.{number}"
        return
    for number in range(args.rounds):
        # One round asked for by its full seed is played under that seed.
        seed = args.seed if args.rounds == 1 and "." in args.seed else f"{args.seed}.{number}"
        for row in rows:
            yield row, seed


class Deployments:
    """The deployments that rounds are played on: kept for the next round that wants one alike, a few at a time."""

    def __init__(self, store_kind: str) -> None:
        self._store_kind = store_kind
        self._fleets: dict[Scene, Fleet] = {}
        self._rounds: dict[Scene, int] = {}

    async def take(self, scene: Scene) -> Fleet:
        """A deployment of this scene that is whole and ready. Ends the one that was not wanted for longest."""
        if scene in self._fleets:
            self._fleets[scene] = self._fleets.pop(scene)
        else:
            while len(self._fleets) >= FLEETS:
                await self.drop(next(iter(self._fleets)))
            fleet = Fleet(scene, store_kind=self._store_kind)
            self._fleets[scene] = await fleet.__aenter__()
            self._rounds[scene] = 0
        self._rounds[scene] += 1
        return self._fleets[scene]

    async def give_back(self, scene: Scene, *, spoilt: bool) -> None:
        """The round is over. A deployment that is spoilt or has seen many rounds is ended."""
        if spoilt or self._rounds[scene] >= LIFE:
            await self.drop(scene)

    async def drop(self, scene: Scene) -> None:
        """End this deployment."""
        await self._fleets.pop(scene).__aexit__()

    async def stop(self) -> None:
        """End all."""
        for scene in list(self._fleets):
            await self.drop(scene)


async def run(args: argparse.Namespace) -> int:
    """Play, print, and return the exit code."""
    ends_s = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # After the round that is being played, so that no process is left behind and the table is printed.
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    played = results.read(args.results) if args.results is not None and args.resume else []
    over = {(one.row, one.seed) for one in played}
    source = f"{args.source or _commit()} {args.store}"
    deployments = Deployments(args.store)
    try:
        for row, seed in rounds_of(args):
            if stopping.is_set() or time.monotonic() >= ends_s:
                break
            if (row.name, seed) in over:
                continue
            result = await play_round(row, deployments, seed, args)
            result.at, result.source = time.strftime("%Y-%m-%d %H:%M:%S"), source
            played.append(result)
            if args.results is not None:
                results.append(args.results, result)
    finally:
        await deployments.stop()
    return show(played)


async def play_round(row: Row, deployments: Deployments, seed: str, args: argparse.Namespace) -> Result:
    """One round, with a line about it on stderr; a round that cannot be judged counts as broken."""
    fleet: Fleet | None = None
    try:
        fleet = await deployments.take(row.scene)
        result = await play(row, fleet, seed, sessions=args.sessions, crowd=args.crowd)
    except Exception as error:
        result = Result(row.name, seed)
        result.faults = [f"the round broke: {error!r}", *traceback.format_exc().splitlines()[-6:]]
    words = f"{len(result.faults)} wrong: {result.faults[0][:200]}" if result.faults else "held"
    if result.known:
        words += f" but for what is known: {result.known[0]}"
    stamp = time.strftime("%H:%M:%S")
    print(f"{stamp} {row.name} {seed} {result.wall_s:.1f} s: {words}", file=sys.stderr, flush=True)
    if fleet is not None:
        if result.faults:
            LAST_WORDS.mkdir(parents=True, exist_ok=True)
            (LAST_WORDS / f"{row.name}-{seed}.log").write_text(fleet.words())
        await deployments.give_back(row.scene, spoilt=row.spoils or bool(result.faults))
    return result


def show(played: Iterable[Result]) -> int:
    """Print the table, what was broken and how to see it again; the exit code."""
    rounds = list(played)
    print(results.table(rounds, ROWS))
    slow = results.slow_rows(rounds, ROWS)
    for words in slow:
        print(f"\ntoo slow: {words}")
    broken = [one for one in rounds if one.faults]
    for one in broken:
        promise = ROWS[one.row].promise if one.row in ROWS else "a row that is no more"
        print(f"\n{one.row}: {promise}\n  make chaos ROUNDS=1 SEED={one.seed} ROW={one.row}")
        for line in one.faults[:12]:
            print(f"  - {line}")
    return 1 if broken or slow else 0


def _commit() -> str:
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()


if __name__ == "__main__":
    chosen_arguments = arguments()
    if chosen_arguments.table:
        sys.exit(show(result for path in chosen_arguments.table for result in results.read(path)))
    sys.exit(asyncio.run(run(chosen_arguments)))
