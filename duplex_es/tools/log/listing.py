"""``duplex-es sessions``: every session there is, where it stands, and which of them to look at."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Any

import msgspec

from ...log.api import Head
from ...protocol.records import RecordUnreadable, unpack_opening
from ..console import Console
from ..records import input_line, output_line
from .source import Source, opened_source
from .words import json_text

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
            begun_ms = await _begun_ms(source, head)
            one["age_s"] = None if begun_ms is None else round(time.time() - begun_ms / 1_000, 1)
            if args.older_than is not None and (one["age_s"] is None or one["age_s"] < args.older_than):
                continue
        if args.error:
            one["error"] = await _error_in(source, head)
            if one["error"] is None:
                continue
        found.append(one)
    return found


def session_map(head: Head) -> dict[str, Any]:
    """Where a session stands, for JSON and for the table."""
    return {
        "session": f"{head.ref.session_id}#{head.ref.incarnation}",
        "state": head.state,
        "model": head.model,
        "socket": f"{head.gateway}/{head.generation}" if head.attached else None,
        "worker": f"{head.worker}/{head.fence}" if head.fence else None,
        "input": str(head.input),
        "output": str(head.output),
        "first_seq": head.first_seq,
        "acknowledged_seq": head.acknowledged_seq,
    }


def rows_of(found: list[dict[str, Any]], *, errors: bool = False) -> list[tuple[str, ...]]:
    """The table, with its titles."""
    names = [title.lower() for title in TITLES] + (["error"] if errors else [])
    titles = (*TITLES, "ERROR") if errors else TITLES
    return [titles, *(tuple(str(one[name] or "-") for name in names) for one in found)]


async def _begun_ms(source: Source, head: Head) -> int | None:
    """When the first record that is left was written."""
    async for entry in source.input(head):
        return input_line(entry).at_ms
    async for entry in source.output(head):
        return output_line(entry).at_ms
    return None


async def _error_in(source: Source, head: Head) -> str | None:
    """The last thing that went wrong in a session: a refused opening, a failed answer, an error frame."""
    found = None
    if head.opening is not None:
        try:
            refused = unpack_opening(head.opening).error
            found = None if isinstance(refused, msgspec.UnsetType) else f"refused: {refused.code}"
        except RecordUnreadable:
            found = "unreadable opening"
    async for entry in source.output(head):
        frame = output_line(entry).frame or {}
        if frame.get("type") == "error":
            found = str((frame.get("error") or {}).get("code"))
        elif frame.get("type") == "response.done" and (frame.get("response") or {}).get("status") == "failed":
            details = frame["response"].get("status_details") or {}
            found = f"answer failed: {details.get('reason')}"
    return found
