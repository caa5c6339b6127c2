"""What rounds found: one line of JSON for each as it ends, and the table that is made of those lines."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.table import Hit, Row
from tests.support.chaos_check import Verdict

TITLES = ("row", "rounds", "sessions", "frames", "lost", "repeated", "told", "failed", "median s", "worst s", "")
ENOUGH = 5
"""A median of fewer rounds than this is not held to a row's target."""


@dataclass(slots=True)
class Result:
    """One round of one row. ``faults`` are broken promises in words, ``known`` those that the row's known fault

    explains. ``silences_s`` has the longest silence of each caller that was hit and not told an ending.
    """

    row: str
    seed: str
    at: str = ""
    source: str = ""
    """What it ran on: the commit, and the store's kind."""
    wall_s: float = 0.0
    sessions: int = 0
    frames: int = 0
    lost: int = 0
    repeated: int = 0
    told: int = 0
    failed: int = 0
    silences_s: list[float] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)


def weigh(
    row: Row, seed: str, verdicts: Iterable[Verdict], hit: Hit, more: Iterable[str], measured: Mapping[str, float] = {}
) -> Result:
    """Sum up one round; ``more`` is what else was found wrong."""
    result = Result(row.name, seed, measured=dict(measured))
    wrong = list(more)
    for number, verdict in enumerate(verdicts):
        result.sessions += 1
        result.frames += verdict.frames
        result.lost += verdict.lost
        result.repeated += verdict.repeated
        result.failed += verdict.failed_answers
        result.told += verdict.told is not None
        wrong += [f"caller {number}: {fault}" for fault in verdict.faults]
        if verdict.told is None and number in hit and not row.must_be_told:
            result.silences_s.append(round(verdict.silence_s, 3))
            if verdict.silence_s > row.silence_s:
                wrong.append(f"caller {number} heard nothing for {verdict.silence_s:.1f} s")
    result.known = [fault for fault in wrong if row.excused and row.excused in fault]
    result.faults = [fault for fault in wrong if fault not in result.known]
    return result


# -- lines ---------------------------------------------------------------------------------------------------------


def append(path: Path, result: Result) -> None:
    """Add a round to the file; several processes may do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(dataclasses.asdict(result)) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def read(path: Path) -> list[Result]:
    """The rounds in the file, none when there is no such file."""
    if not path.exists():
        return []
    return [Result(**json.loads(line)) for line in path.read_text().splitlines() if line.strip()]


# -- the table -----------------------------------------------------------------------------------------------------


def table(results: Iterable[Result], rows: Mapping[str, Row]) -> str:
    """The results as Markdown: a line for each row that was played, in the order of ``rows``, and their sum."""
    by_row: dict[str, list[Result]] = {name: [] for name in rows}
    for result in results:
        by_row.setdefault(result.row, []).append(result)
    lines = [f"| {' | '.join(TITLES)} |", f"|{' --- |' * len(TITLES)}"]
    played = {name: rounds for name, rounds in by_row.items() if rounds}
    for name, rounds in played.items():
        lines.append(_line(name, rounds, _verdict(rows.get(name), rounds)))
    everything = [result for rounds in played.values() for result in rounds]
    if everything:
        lines.append(_line("all", everything, ""))
    return "\n".join(lines)


def slow_rows(results: Iterable[Result], rows: Mapping[str, Row]) -> list[str]:
    """The rows whose callers waited longer at the median than their target, in words."""
    silences: dict[str, list[float]] = {}
    rounds: dict[str, int] = {}
    for result in results:
        silences.setdefault(result.row, []).extend(result.silences_s)
        rounds[result.row] = rounds.get(result.row, 0) + 1
    slow = []
    for name, times in silences.items():
        target_s = rows[name].target_s if name in rows else 0.0
        if target_s and rounds[name] >= ENOUGH and times and statistics.median(times) > target_s:
            slow.append(f"{name}: {statistics.median(times):.2f} s at the median, the target is {target_s:g} s")
    return slow


def _line(name: str, rounds: list[Result], verdict: str) -> str:
    sums = [
        sum(getattr(one, field) for one in rounds)
        for field in ("sessions", "frames", "lost", "repeated", "told", "failed")
    ]
    silences = [silence for one in rounds for silence in one.silences_s]
    times = (f"{statistics.median(silences):.2f}", f"{max(silences):.2f}") if silences else ("-", "-")
    return f"| {' | '.join(str(cell) for cell in (name, len(rounds), *sums, *times, verdict))} |"


def _verdict(row: Row | None, rounds: list[Result]) -> str:
    broken = sum(bool(one.faults) for one in rounds)
    known = sum(bool(one.known) for one in rounds)
    words = f"BROKEN in {broken}" if broken else f"KNOWN FAULT in {known}" if known else "held"
    if row is not None and row.known:
        words += f" ({row.known})"
    measures = sorted({name for one in rounds for name in one.measured})
    for name in measures:
        values = [one.measured[name] for one in rounds if name in one.measured]
        words += f"; {name} {statistics.median(values):.4g}"
        if len(values) > 1:
            words += f", worst {max(values):.4g}"
    return words
