"""``duplex-es log stats``: what a call was like, in numbers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ...reading.calls import read_call
from ...reading.stats import stats_of
from ...reading.words import json_text, seconds
from ..console import Console
from .source import opened_source


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es log stats``."""
    async with opened_source(args) as source:
        head = await source.find(args.session)
        found = stats_of(await read_call(source, head))
    console = Console()
    if args.json:
        console.line(json_text({"session": f"{head.ref.session_id}#{head.ref.incarnation}", **found}))
        return 0
    latency = found["first_sound_ms"]
    rows = [
        ("length", seconds(found["length_ms"])),
        ("turns", f"{found['turns']}, answers " + _counted(found["answers"])),
        ("first sound", f"median {seconds(latency['median'])}, worst {seconds(latency['worst'])} after the turn's end"),
        ("interrupted", f"{found['interruptions']} answers, after {_each(found['heard_before_interruption_ms'])}"),
        ("caller", f"{seconds(found['caller_ms'])} of speech, {found['caller_ratio']:.0%} of the call"),
        ("assistant", f"{seconds(found['assistant_ms'])} heard, {found['assistant_ratio']:.0%} of the call"),
        ("overlap", seconds(found["overlap_ms"])),
        ("silence", f"longest {seconds(found['longest_silence_ms'])}"),
        ("sockets", f"{found['attaches']} attached, {found['takeovers']} takeovers by another worker"),
        ("refused", f"{found['refused']} commands"),
    ]
    console.table(rows)
    return 0


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"


def _each(values: Sequence[float]) -> str:
    return ", ".join(seconds(value) for value in values) or "-"
