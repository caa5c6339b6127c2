"""``duplex-es log diff``: where two sessions part, and what that made of each turn. 0 alike, 1 different."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ...log.api import Head
from ...reading.calls import read_call
from ...reading.divergence import first_divergence, turns_of
from ...reading.source import Source
from ...reading.words import json_text
from ..console import Console
from .source import opened_source


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es log diff``."""
    async with opened_side(args, args.a) as (one, head_a), opened_side(args, args.b) as (two, head_b):
        parted = await first_divergence(one, head_a, two, head_b)
        calls = [await read_call(one, head_a), await read_call(two, head_b)]
    console = Console()
    turns = [] if parted is None else turns_of(*calls)
    if args.json:
        console.line(json_text({"alike": parted is None, "first_divergence": parted, "turns": turns}))
    elif parted is not None:
        console.line(f"they part at {parted['what']} {parted['number']}:")
        console.table([("A", parted["a_id"], parted["a"]), ("B", parted["b_id"], parted["b"])])
        console.heading("by turn")
        console.table(turn_rows(turns), width=150)
    return 0 if parted is None else 1


def turn_rows(turns: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Each answer of both calls, in rows."""
    rows = [(f"{turn['turn']}", turn["differs"] or "alike", f"A {turn['a']} | B {turn['b']}") for turn in turns]
    return rows or [("", "", "no turns")]


def opened_side(args: argparse.Namespace, name: str) -> Any:
    """A side of the comparison: a ``.dxlog`` file by its path, else a session of the store."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Source, Head]]:
        is_file = name.endswith(".dxlog")
        place = {"file": Path(name), "archive": None} if is_file else {"file": None}
        where = argparse.Namespace(**(vars(args) | place))
        async with opened_source(where) as source:
            yield source, await source.find(None if is_file else name)

    return opened()
