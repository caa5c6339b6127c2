"""``duplex-es log replay``: a recorded call carried out again. 0 as it was recorded, 1 otherwise.

With ``--check`` alone by the session core, with ``--model`` by a model in this process, with ``--to`` by a service.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from ...log.api import START, Head
from ...log.errors import LogError
from ...log.forking import begin_from
from ...log.tokens import mint_token, token_digest
from ...protocol import session_id_from
from ...reading.calls import read_call
from ...reading.divergence import first_divergence, turns_of
from ...reading.source import LiveSource, Source
from ...reading.words import json_text
from ..console import Console
from ..errors import ToolError
from ..replay.forking import copy_at
from ..replay.inprocess import InProcess, Played
from ..replay.live import Line, Replayed, ids_of, say_again
from ..replay.pace import Pace, cues_in
from ..replay.reexecution import Checked, check
from ..show import opened
from .carry import export
from .diff import turn_rows
from .source import opened_source


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es log replay``."""
    if args.to and (args.model or args.check):
        raise ToolError("--to replays against a service: --model and --check are for this process")
    if not (args.to or args.model or args.check):
        raise ToolError("say what is to answer: --to URL, --model NAME, or --check for the session core alone")
    if args.speed < 0:
        raise ToolError("--speed is a factor: 2 is twice as fast, 0 waits for nothing but frames")
    if args.out is not None and args.out.exists():
        raise ToolError(f"{args.out} is there already")
    async with opened_source(args) as source:
        head = await source.find(args.session)
        if args.to:
            return await _live(args, source, head)
        if args.model:
            return await _in_process(args, source, head)
        if args.out is not None:
            raise ToolError("--check alone makes no new call: with --model it does, and --out writes that")
        return _show_check(args, head, await check(source, head))


def pace_of(args: argparse.Namespace) -> Pace:
    """When things are said again."""
    is_patient = args.check and not args.step
    return Pace(speed=0.0 if is_patient else args.speed, steps=args.step, asks=sys.stdin.isatty())


def name_of(head: Head) -> str:
    """How a session is named."""
    return f"{head.ref.session_id}#{head.ref.incarnation}"


def _show_check(args: argparse.Namespace, head: Head, found: Checked) -> int:
    parted = found.divergence
    console = Console()
    if args.json:
        console.line(json_text({"session": name_of(head), "alike": parted is None, **asdict(found)}))
    elif parted is not None:
        console.line(f"{name_of(head)}: {found.decisions} decisions come out as recorded, then they part at {parted}")
    else:
        console.line(
            f"{name_of(head)}: all {found.decisions} decisions come out as recorded: {found.facts} facts and "
            f"{found.frames} frames, from {found.commands} commands and {found.signals} reports"
        )
        if found.undecided:
            console.line(f"  {found.undecided} more commands had not been decided on when it was recorded")
    return 0 if parted is None else 1


# -- a model in this process ---------------------------------------------------------------------------------------


async def _in_process(args: argparse.Namespace, source: Source, head: Head) -> int:
    options = dict(option.partition("=")[::2] for option in args.model_option)
    say = _progress(args)
    if args.from_seq is None:
        replay = InProcess(source, head, args.model, options)
        played = await replay.run(pace_of(args), say, only_alike=args.check)
    else:
        if args.check:
            raise ToolError("--check begins at the beginning: leave --from-seq out")
        copy = await copy_at(source, head, args.from_seq, args.id or "replay")
        replay = InProcess(source, head, args.model, options)
        played = await replay.run_from(copy, pace_of(args), say)
    if args.out is not None:
        await export(played.source, played.head, args.out)
    return await _show_played(args, source, head, played)


async def _show_played(args: argparse.Namespace, source: Source, head: Head, played: Played) -> int:
    console, parted = Console(), played.divergence
    differs = await first_divergence(source, head, played.source, played.head)
    calls = [await read_call(source, head), await read_call(played.source, played.head)]
    turns = [] if differs is None else turns_of(*calls)
    is_alike = parted is None and differs is None
    if played.decisions is None:
        begun = f"{name_of(head)} goes on after seq {args.from_seq} with {args.model}"
    else:
        begun = f"{name_of(head)}: {args.model} makes {played.decisions} decisions as recorded"
    if args.json:
        console.line(
            json_text(
                {
                    "session": name_of(head),
                    "model": args.model,
                    "alike": is_alike,
                    "decisions": played.decisions,
                    "divergence": None if parted is None else asdict(parted),
                    "first_difference": differs,
                    "turns": turns,
                }
            )
        )
    elif is_alike:
        console.line(f"{name_of(head)}: {args.model} does what was recorded, in all {played.decisions} decisions")
    else:
        where = differs["a_id"] if parted is None and differs else parted.where if parted else ""
        console.line(begun if played.decisions is None else f"{begun}, then another at {where}")
        if parted is not None:
            console.line(f"  recorded: {parted.recorded}; now: {parted.made}")
        console.table(turn_rows(turns), width=150)
    if args.out is not None and not args.json:
        console.line(f"  the new call is in {args.out}")
    return 0 if is_alike or not args.check else 1


# -- a service -----------------------------------------------------------------------------------------------------


async def _live(args: argparse.Namespace, source: Source, head: Head) -> int:
    session_id = args.id or session_id_from(os.urandom(16))
    anew = await ids_of(source, head, session_id)
    line = Line(args.to, head, anew, session_id, patience_s=args.patience_s)
    after = START
    if args.from_seq is not None:
        copy = await copy_at(source, head, args.from_seq, session_id, time.time_ns() // 1_000_000)
        token, after = mint_token(), copy.consumed
        async with _store(args) as store:
            try:
                await begin_from(store.log, copy.head, token_digest(token), copy.input, copy.output, copy.snapshots)
            except LogError as error:
                raise ToolError(f"the fork cannot be written: {error}") from error
        await line.resume(token, 0, args.from_seq)
    cues = cues_in(source, head, after)
    found = await say_again(line, cues, pace_of(args), _progress(args), last_seq=head.output.number)
    if args.out is not None:
        async with _store(args) as store:
            await export(store, await store.find(session_id), args.out)
    _show_replayed(args, head, found)
    return 0


@asynccontextmanager
async def _store(args: argparse.Namespace) -> Any:
    """The store behind the service."""
    async with opened(args.into or args.redis_url) as log:
        yield LiveSource(log, args.into or args.redis_url)


def _show_replayed(args: argparse.Namespace, head: Head, found: Replayed) -> None:
    console = Console()
    if args.json:
        console.line(json_text({"recorded": name_of(head), "session": f"{found.session_id}#0", **asdict(found)}))
        return
    console.line(f"{name_of(head)} was said again as {found.session_id}#0")
    rows = [
        ("said", f"{found.said} commands" + (f", {found.left_out} could not be said again" if found.left_out else "")),
        ("heard", f"{found.frames} frames, {found.answers} answers, {found.errors} errors"),
        ("ended", found.ended or "not yet"),
    ]
    if found.late:
        rows.append(("late", f"{found.late} commands came before a frame that they had come after when recorded"))
    if args.out is not None:
        rows.append(("written", str(args.out)))
    console.table(rows)


def _progress(args: argparse.Namespace) -> Callable[[str], None]:
    def tell(text: str) -> None:
        if not args.json:
            print(text, file=sys.stderr, flush=True)

    return tell


