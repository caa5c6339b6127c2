"""``duplex-es log diff``: where two sessions part, and what that made of each turn. 0 alike, 1 different."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from ...log.api import Head
from ..console import Console
from .calls import Answer, Call, read_call
from .source import Source, opened_source
from .words import json_text, seconds

ID = re.compile(r"(?:resp|item|sess|event|call)_[0-9a-f]{8,}")
TIMES = {"at_ms", "opened_at_ms", "ends_at_ms", "expires_at_ms", "expires_at", "event_id", "crc"}
COUNTING = {"AudioAppended", "SocketChanged", "WorkerChanged", "HeartbeatAnswered"}
"""Facts that say how the sound was cut into pieces and who served it, not what was decided."""
SAME_AFTER_MS = 50


class Names:
    """Ids as ordinals, so that two sessions that minted different ones can be compared."""

    def __init__(self, session_id: str) -> None:
        self._known = {session_id: "the-session"}

    def plain(self, value: Any) -> Any:
        """``value`` without times, ids replaced."""
        if isinstance(value, dict):
            return {key: self.plain(one) for key, one in value.items() if key not in TIMES}
        if isinstance(value, list):
            return [self.plain(one) for one in value]
        if isinstance(value, str) and (value in self._known or ID.fullmatch(value)):
            return self._known.setdefault(value, f"{value.split('_')[0]}-{len(self._known)}")
        return value


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
        rows = [(f"{turn['turn']}", turn["differs"] or "alike", f"A {turn['a']} | B {turn['b']}") for turn in turns]
        console.table(rows or [("", "", "no turns")], width=150)
    return 0 if parted is None else 1


def opened_side(args: argparse.Namespace, name: str) -> Any:
    """A side of the comparison: a ``.dxlog`` file by its path, else a session of the store."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Source, Head]]:
        is_file = name.endswith(".dxlog")
        where = argparse.Namespace(file=Path(name) if is_file else None, redis_url=args.redis_url)
        async with opened_source(where) as source:
            yield source, await source.find(None if is_file else name)

    return opened()


async def decisions(source: Source, head: Head) -> AsyncIterator[tuple[str, str, Any]]:
    """What was decided and shown, in order: the record's id, a short name, and the content to compare."""
    names = Names(head.ref.session_id)
    async for entry in source.output(head):
        body = msgspec.msgpack.decode(entry.body)
        for fact in body.get("facts") or ():
            if fact.get("fact") not in COUNTING:
                yield str(entry.id), str(fact.get("fact")), names.plain(fact)
        if (frame := body.get("frame")) is not None:
            sound = None if entry.audio is None else hash(entry.audio)
            yield str(entry.id), str(frame.get("type")), (names.plain(frame), sound)


async def first_divergence(one: Source, head_a: Head, two: Source, head_b: Head) -> dict[str, Any] | None:
    """The first decision that is not the same, ``None`` without one."""
    a, b = decisions(one, head_a), decisions(two, head_b)
    end = ("-", "the log ends", None)
    for number in itertools.count(1):
        mine, theirs = await anext(a, None) or end, await anext(b, None) or end
        if mine is end and theirs is end:
            return None
        if mine[1:] != theirs[1:]:
            return {
                "what": "decision", "number": number, "a_id": mine[0], "b_id": theirs[0],
                "a": _short(mine), "b": _short(theirs),
            }  # fmt: skip
    return None


def _short(decision: tuple[str, str, Any]) -> str:
    _, name, content = decision
    content = content[0] if isinstance(content, tuple) else content
    shown = {key: value for key, value in (content or {}).items() if key not in ("fact", "type")}
    text = f"{name} {json_text(shown, lines=True)}" if shown else name
    return text if len(text) <= 160 else f"{text[:160]}..."


def turns_of(a: Call, b: Call) -> list[dict[str, Any]]:
    """Both calls answer by answer; ``differs`` names text, status and timing where they are not the same."""
    turns = []
    for number, (mine, theirs) in enumerate(itertools.zip_longest(a.answers, b.answers), 1):
        turns.append({"turn": number, "differs": _differs(mine, theirs), "a": _said(mine), "b": _said(theirs)})
    return turns


def _differs(mine: Answer | None, theirs: Answer | None) -> str:
    if mine is None or theirs is None:
        return "missing"
    found = []
    if (mine.asked_text, mine.text) != (theirs.asked_text, theirs.text):
        found.append("text")
    if (mine.status, mine.reason) != (theirs.status, theirs.reason):
        found.append("status")
    if abs((mine.latency_ms or 0) - (theirs.latency_ms or 0)) > SAME_AFTER_MS:
        found.append("timing")
    if abs(mine.heard_ms - theirs.heard_ms) > SAME_AFTER_MS:
        found.append("heard")
    return ", ".join(found)


def _said(answer: Answer | None) -> str:
    if answer is None:
        return "nothing"
    text = f"{answer.text.strip()!r} {answer.status}, {seconds(answer.heard_ms)} heard"
    return f"{text} after {seconds(answer.latency_ms)}"
