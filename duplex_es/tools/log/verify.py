"""``duplex-es log verify``: whether a log keeps every promise; 0 it does, 1 it does not, 2 it cannot be read."""

from __future__ import annotations

import argparse
import dataclasses
import sys

from ...reading.notes import Erased
from ...reading.words import json_text
from ..console import Console
from ..errors import ToolError
from .checks import RULES, Violated, check_session
from .source import opened_source


async def run(args: argparse.Namespace) -> int:
    """The exit code."""
    console = Console()
    try:
        async with opened_source(args) as source:
            try:
                head = await source.find(args.session)
            except Erased as erased:
                return _told_erased(erased, args)
            name = f"{head.ref.session_id}#{head.ref.incarnation}"
            try:
                findings = await check_session(source, head)
            except Violated as violated:
                found = {"rule": violated.rule, "where": violated.where, "detail": violated.detail}
                if args.json:
                    console.line(json_text({"session": name, "holds": False, "violation": found}))
                else:
                    console.line(f"{name}: {violated.where} breaks {violated.rule}: {violated.detail}")
                    console.line(f"  the rule: {RULES[violated.rule]}")
                return 1
    except ToolError as error:
        print(f"duplex-es: {error}", file=sys.stderr)
        return 2
    if args.json:
        console.line(json_text({"session": name, "holds": True, **dataclasses.asdict(findings)}))
        return 0
    console.line(
        f"{name}: all {len(RULES)} rules hold over {findings.input_records} input and {findings.output_records} output "
        f"records, {findings.facts} facts, {findings.answers} answers, {findings.snapshots} snapshots"
    )
    for note in findings.notes:
        console.line(f"  {note}")
    if findings.expired_audio:
        console.line(f"  the sound of {findings.expired_audio} records has expired")
    return 0


def _told_erased(erased: Erased, args: argparse.Namespace) -> int:
    """Nothing is left to be checked, and the tombstone says why: that is as it should be."""
    newest = erased.tombstones[-1]
    name = f"{newest.session_id}#{newest.incarnation}"
    if args.json:
        Console().line(json_text({"session": name, "holds": True, "erased": newest}))
    else:
        Console().line(f"{name}: {newest.line()}")
    return 0
