"""``python -m tests.rollout.run --sessions 50 --balancer haproxy``: a rolling restart under talk, and what it cost.

Exit code 1 when a session or a frame was lost, a frame came twice, or an answer failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from tests.rollout.rolling import Outcome, roll
from tests.rollout.site import Site

LAST_WORDS = Path("out/rollout")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="rollout", description=__doc__)
    parser.add_argument("--sessions", type=int, default=50, help="callers who talk at the same time")
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--balancer", choices=("haproxy", "nginx"), action="append", default=[], help="repeatable")
    parser.add_argument("--seed", default="1", help="what is asked, and in which order")
    return parser.parse_args(words)


def table(balancer: str, outcome: Outcome) -> str:
    """What happened, as Markdown."""
    steps = outcome.steps[1:]
    drains = ", ".join(f"{step.name} {step.drain_s:.1f} s" for step in steps)
    lines = [
        f"{balancer}, {outcome.hosts}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores,"
        f" {steps[-1].ended_s - steps[0].began_s:.0f} s: {outcome.sessions} sessions, {outcome.lost_sessions} lost;"
        f" {outcome.frames} frames, {outcome.lost} lost, {outcome.repeated} repeated;"
        f" {outcome.failed_answers} answers failed; {outcome.resumes} resumes.",
        f"Until the old process was gone: {drains}.",
        "",
        "| longest silence of each caller, s | steps | median | p99 | worst |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [f"| {words} | {steps} | {m:.2f} | {p:.2f} | {w:.2f} |" for words, steps, m, p, w in outcome.rows()]
    return "\n".join(lines)


async def run(args: argparse.Namespace) -> int:
    """Play each balancer; the exit code."""
    broken = False
    for balancer in args.balancer or ["haproxy", "nginx"]:
        async with Site(balancer=balancer, gateways=args.gateways, workers=args.workers) as site:
            outcome = await roll(site, sessions=args.sessions, seed=args.seed)
            if outcome.faults:
                site.keep_words(LAST_WORDS / balancer)
        print(table(balancer, outcome), flush=True)
        for fault in outcome.faults[:12]:
            print(f"  - {fault}")
        broken = broken or bool(outcome.faults)
        print()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(run(arguments())))
