"""``duplex-es log show``: a session's log in readable lines, or the state at one place of it."""

from __future__ import annotations

import argparse

from ...reading.notes import Erased, Tombstone, tombstones_of
from ...reading.records import Line, OutputLine, input_line, line_map, output_line
from ...reading.words import json_text
from ..console import Console
from ..render import render
from ..show import summary
from .source import opened_source
from .states import plain, state_at, state_lines


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es log show``."""
    console = Console()
    async with opened_source(args) as source:
        try:
            head = await source.find(args.session)
        except Erased as erased:
            return _show_tombstones(erased.tombstones, args)
        tombstones = tombstones_of(await source.notes_on(head.ref.session_id), head.ref)
        if args.at is not None:
            standing = await state_at(source, head, args.at)
            if args.json:
                where = {"seq": standing.seq, "consumed": standing.consumed, "folded_from": standing.since_seq}
                console.line(json_text({**where, "state": plain(standing.session)}))
            else:
                console.table(state_lines(standing), width=160)
            return 0
        lines: list[Line] = [input_line(entry) async for entry in source.input(head, audio=True)]
        lines += [output_line(entry) async for entry in source.output(head, audio=True)]
    # Within a stream the ids are the order; a stable sort by time keeps it unless a clock stepped back.
    lines.sort(key=lambda line: (line.at_ms, isinstance(line, OutputLine)))
    if args.json:
        for line in lines:
            console.line(json_text(line_map(line), lines=True))
        return 0
    console.line(summary(head))
    for tombstone in tombstones:
        console.line(f"  {tombstone.line()}")
    for text in render(lines, folds=not args.all):
        console.line(text)
    return 0


def _show_tombstones(tombstones: list[Tombstone], args: argparse.Namespace) -> int:
    for tombstone in tombstones:
        name = f"{tombstone.session_id}#{tombstone.incarnation}"
        Console().line(json_text(tombstone, lines=True) if args.json else f"{name}: {tombstone.line()}")
    return 0
