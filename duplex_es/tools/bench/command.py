"""``duplex-es bench``: runs a plan, shows how it goes, and leaves a table, JSON and a plot behind."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ...log.api import SessionLog
from ..console import Console
from ..errors import ToolError
from ..show import opened
from ..waves import Wave, read_wave
from .caller import Caller
from .inside import service_times
from .plan import BenchPlan
from .report import BenchReport, summarize
from .speech import babble
from .table import facts, rows, troubles

PROGRESS_S = 1.0


async def bench(plan: BenchPlan, *, progress: Console | None = None, log: SessionLog | None = None) -> BenchReport:
    """Run ``plan`` to its end; with ``progress``, a line each second about what has happened so far.

    With the service's ``log``, the report says what its records tell. Raises: LogUnavailable when it cannot be read.
    """
    loop = asyncio.get_running_loop()
    callers = [Caller(plan, number) for number in range(plan.sessions)]
    started_at, began_s = datetime.now(UTC).isoformat(timespec="seconds"), loop.time()
    until_s = began_s + plan.ramp_s + plan.duration_s
    watching = asyncio.create_task(_watch(callers, began_s, until_s, progress)) if progress else None
    try:
        async with asyncio.TaskGroup() as group:
            for caller in callers:
                delay_s = plan.ramp_s * caller.take.number / max(1, plan.sessions - 1)
                group.create_task(_start(caller, delay_s, until_s))
    finally:
        if watching:
            watching.cancel()
            await asyncio.wait([watching])
    takes = [caller.take for caller in callers]
    elapsed_s = loop.time() - began_s
    inside = await service_times(log, takes) if log else None
    return summarize(plan, takes, started_at=started_at, elapsed_s=elapsed_s, inside=inside)


async def _start(caller: Caller, delay_s: float, until_s: float) -> None:
    await asyncio.sleep(delay_s)
    await caller.run(until_s)


async def _watch(callers: Sequence[Caller], began_s: float, until_s: float, console: Console) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(PROGRESS_S)
        takes = [caller.take for caller in callers]
        answers = [answer for take in takes for answer in take.answers]
        waits = sorted(answer.ttfp_ms for answer in answers if answer.ttfp_ms is not None)
        console.line(
            f"{clock() - began_s:5.0f} / {until_s - began_s:.0f} s"
            f"  {sum(take.opening_ms is not None for take in takes):4d} sessions"
            f"  {len(answers):5d} answers"
            f"  first sound {waits[len(waits) // 2] if waits else 0:6.0f} ms at the median"
            f"  {sum(take.error is not None for take in takes)} failed"
        )


def plan_from(args: argparse.Namespace) -> BenchPlan:
    """The plan of a command line. Raises: ToolError for a file or a JSON text that cannot be used."""
    question = read_wave(args.wav) if args.wav else babble(args.question_ms, args.rate_hz)
    return BenchPlan(
        urls=tuple(args.url),
        model=args.model,
        question=_whole_chunks(question, args.chunk_ms),
        sessions=args.sessions,
        duration_s=args.duration_s,
        ramp_s=args.ramp_s,
        chunk_ms=args.chunk_ms,
        pause_ms=args.pause_ms,
        commits=not args.vad,
        cut_every=args.cut_every,
        continuous=args.continuous,
        answer_timeout_s=args.timeout_s,
        extra_body=_extra_body(args.extra_body),
    )


def _whole_chunks(wave: Wave, chunk_ms: int) -> Wave:
    """Padded with silence to whole chunks: a last short append would arrive earlier than a microphone's."""
    missing_ms = -wave.duration_ms % chunk_ms
    return Wave(wave.pcm + wave.silence(missing_ms), wave.sample_rate_hz)


def _extra_body(text: str | None) -> dict[str, object]:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise ToolError(f"--extra-body is not a JSON object: {error}") from error


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es bench``: 0 when every session was opened and every question answered, else 1."""
    if args.plot is not None:
        from .plot import require_matplotlib

        require_matplotlib()
    plan = plan_from(args)
    # The result goes to stdout; what happens meanwhile must not get into it.
    console = Console(sys.stdout)
    progress = None if args.quiet else Console(sys.stderr)
    if args.redis_url:
        async with opened(args.redis_url) as log:
            report = await bench(plan, progress=progress, log=log)
    else:
        report = await bench(plan, progress=progress)
    encoded = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    if args.json:
        sys.stdout.write(encoded.decode())
    else:
        console.heading(f"{plan.sessions} sessions of {plan.model}, {plan.duration_s:g} s")
        console.table(facts(report))
        if why := troubles(report):
            console.heading("No session was opened, so there are no times")
            console.table(why)
        else:
            console.heading("Times")
            console.columns(rows(report))
    if args.out is not None:
        _write(args.out, encoded)
    if args.plot is not None:
        from .plot import draw

        draw(report, args.plot)
    held = report.sessions.opened == plan.sessions and not (report.sessions.failed or report.answers.unanswered)
    return 0 if held else 1
