"""``duplex-es sessions``: every session there is, where it stands, and which of them to look at."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Any

from ...reading.sessions import begun_ms, error_in, session_map
from ...reading.source import Source
from ...reading.words import json_text
from ..console import Console
from .source import opened_source

TITLES = ("SESSION", "STATE", "MODEL", "SOCKET", "WORKER", "INPUT", "OUTPUT")
CLEAR = "\033[2J\033[H"


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es sessions``."""
    console = Console()
    async with opened_source(args) as source:
        while True:
            found = await listed(source, args)
            if args.watch and sys.stdout.isatty():
                print(CLEAR, end="")
            if args.json:
                for one in found:
                    console.line(json_text(one, lines=True))
            else:
                console.table(rows_of(found, errors=args.error) if found else [("no sessions",)], width=200)
            if not args.watch:
                return 0
            await asyncio.sleep(args.every_s)


async def listed(source: Source, args: argparse.Namespace) -> list[dict[str, Any]]:
    """The sessions that pass every filter, as maps."""
    found = []
    for head in await source.sessions():
        if args.model not in (None, head.model) or args.state not in (None, head.state):
            continue
        one = session_map(head)
        if args.older_than is not None or args.json:
            since_ms = await begun_ms(source, head)
            one["age_s"] = None if since_ms is None else round(time.time() - since_ms / 1_000, 1)
            if args.older_than is not None and (one["age_s"] is None or one["age_s"] < args.older_than):
                continue
        if args.error:
            one["error"] = await error_in(source, head)
            if one["error"] is None:
                continue
        found.append(one)
    return found


def rows_of(found: list[dict[str, Any]], *, errors: bool = False) -> list[tuple[str, ...]]:
    """The table, with its titles."""
    names = [title.lower() for title in TITLES] + (["error"] if errors else [])
    titles = (*TITLES, "ERROR") if errors else TITLES
    return [titles, *(tuple(str(one[name] or "-") for name in names) for one in found)]
