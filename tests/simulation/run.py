"""The long form: ``python -m tests.simulation.run --schedules 20000 --seed 1``; prints the seed of what broke."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

SHOWN_EVERY_S = 5.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000, help="how many schedules to run")
    parser.add_argument("--seed", type=int, default=1, help="the first one's seed; the others follow it")
    parser.add_argument("--mood", help="all of this kind; see plan.MOODS")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    return parser.parse_args()


def main() -> int:
    """Run the schedules; the exit status is 1 when one broke a promise."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of strings are walked in the order of their hashes: it belongs to what a seed stands for.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.run", *sys.argv[1:]])
    from .plan import draw_plan
    from .simulate import simulate
    from .world import installed

    arguments = _arguments()
    began = shown = time.perf_counter()
    count = Counter[str]()
    broken: dict[int, list[str]] = {}
    with installed() as world:
        for seed in range(arguments.seed, arguments.seed + arguments.schedules):
            outcome = simulate(world, seed, keep_trace=arguments.trace, mood=arguments.mood)
            count.update(schedules=1, frames=outcome.frames, steps=outcome.steps, told=outcome.told)
            count.update(virtual_s=int(outcome.virtual_s), lossy=int(outcome.losses > 0))
            if arguments.trace:
                print(draw_plan(seed, arguments.mood), *outcome.trace, f"digest {outcome.digest:08x}", sep="\n")
            if outcome.violations:
                broken[seed] = outcome.violations
                print(f"\nseed {seed}:", *outcome.violations[:5], sep="\n  ", flush=True)
                mood = f" --mood {arguments.mood}" if arguments.mood else ""
                print(f"  again: python -m tests.simulation.run --schedules 1 --seed {seed}{mood} --trace", flush=True)
                if arguments.stop:
                    break
            if time.perf_counter() - shown > SHOWN_EVERY_S:
                shown = time.perf_counter()
                rate = count["schedules"] / (shown - began) * 60
                print(f"{count['schedules']} schedules, {rate:.0f}/min, {len(broken)} broken", file=sys.stderr)
    took_s = time.perf_counter() - began
    print(
        f"{count['schedules']} schedules in {took_s:.0f} s ({count['schedules'] / took_s * 60:.0f}/min),"
        f" {count['frames']} frames, {count['steps']} steps, {count['virtual_s']} virtual seconds,"
        f" {count['lossy']} with a store that lost writes, {count['told']} clients told, {len(broken)} violations"
        + (f": seeds {sorted(broken)[:50]}" if broken else "")
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
