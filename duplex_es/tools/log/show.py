"""``duplex-es log show``: a session's log in readable lines, or the state at one place of it."""

from __future__ import annotations

import argparse
from typing import Any

from ..console import Console
from ..records import InputLine, Line, OutputLine, input_line, output_line
from ..render import render
from ..show import summary
from .source import opened_source
from .states import plain, state_at, state_lines
from .words import json_text


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es log show``."""
    console = Console()
    async with opened_source(args) as source:
        head = await source.find(args.session)
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
    for text in render(lines, folds=not args.all):
        console.line(text)
    return 0


def line_map(line: Line) -> dict[str, Any]:
    """One record as JSON shows it; sound is counted, not shown."""
    common = {"stream": "input" if isinstance(line, InputLine) else "output", "id": str(line.id), "at_ms": line.at_ms}
    if isinstance(line, InputLine):
        return {**common, "said": _shown(line.said), "audio_bytes": line.audio_bytes}
    facts = [_shown(fact) for fact in line.facts]
    frame = None if line.frame is None else _shown(line.frame)
    return {**common, "consumed": line.consumed, "frame": frame, "facts": facts, "audio_bytes": line.audio_bytes}


def _shown(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if value != b""}
