"""``duplex-es log tail``: a session's records as they come, until it ends or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable

from ...log.api import START, Ended, Entry, EntryId, Head, SessionLog
from ...log.errors import PositionGone
from ...reading.records import Line, OutputLine, input_line, line_map, output_line
from ...reading.words import json_text
from ..console import Console
from ..render import render
from ..show import opened, read_session
from .archived import opened_archive

ARCHIVE_PAUSE_S = 1.0


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es log tail``; 0 when the session ended."""
    console = Console()
    if getattr(args, "archive", None) is not None:
        return await _tail_archive(args, console)
    async with opened(args.redis_url) as log:
        head, lines = await read_session(log, args.session)
        start_ms = min((line.at_ms for line in lines), default=0)

        def show(entry: Entry, *, output: bool) -> None:
            line = output_line(entry) if output else input_line(entry)
            if args.json:
                console.line(json_text(line_map(line), lines=True))
                return
            for text in render([line], start_ms=start_ms):
                console.line(text)

        begins = bool(args.from_start)
        following = asyncio.create_task(_follow_input(log, head, begins, show))
        try:
            reason = await _follow_output(log, head, begins, show)
            await asyncio.wait([following], timeout=1.0)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    if not args.json:
        console.line(f"the session has ended: {reason}")
    return 0


Show = Callable[..., None]


async def _tail_archive(args: argparse.Namespace, console: Console) -> int:
    """What comes into an archive of one session, as its process brings it, until the session is archived whole."""
    said, shown = START, 0
    start_ms: int | None = None
    while True:
        async with opened_archive(args) as source:
            head = await source.find(args.session)
            if start_ms is None and not args.from_start:
                said, shown = head.input, head.output.number
            lines: list[Line] = [input_line(entry) async for entry in source.input(head, said)]
            lines += [output_line(entry) async for entry in source.output(head, shown)]
        said, shown = max(said, head.input), max(shown, head.output.number)
        lines.sort(key=lambda line: (line.at_ms, isinstance(line, OutputLine)))
        start_ms = lines[0].at_ms if start_ms is None and lines else start_ms or 0
        for line in lines:
            texts = [json_text(line_map(line), lines=True)] if args.json else render([line], start_ms=start_ms)
            for text in texts:
                console.line(text)
        if head.state == "closed":
            break
        await asyncio.sleep(ARCHIVE_PAUSE_S)
    if not args.json:
        console.line("the session has ended")
    return 0


async def _follow_output(log: SessionLog, head: Head, begins: bool, show: Show) -> str:
    """Show what comes; why it ended."""
    after = EntryId(0, head.first_seq - 1 if begins else head.output.number)
    while True:
        try:
            async with log.follow_output(head.ref) as follower:
                follower.start(after)
                async for said in follower:
                    if isinstance(said, Entry):
                        show(said, output=True)
                        after = EntryId(0, said.id.number)
                    elif isinstance(said, Ended):
                        return said.reason
                return "closed"
        except PositionGone as gone:
            after = EntryId(0, gone.first_available - 1)


async def _follow_input(log: SessionLog, head: Head, begins: bool, show: Show) -> None:
    after = START if begins else head.input
    while True:
        try:
            async with log.follow_input(head.ref) as follower:
                follower.start(after)
                async for said in follower:
                    if isinstance(said, Entry):
                        show(said, output=False)
                        after = said.id
                return
        except PositionGone as gone:
            if gone.trimmed is None:
                raise
            after = gone.trimmed
