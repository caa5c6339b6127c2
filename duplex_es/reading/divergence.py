"""Where two sessions part, and what that made of each turn: ids as ordinals, without clock times."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from ..log.api import Head
from .calls import Answer, Call
from .dxlog import audio_digest
from .source import Source
from .words import json_text, seconds

ID = re.compile(r"(?:(?:item_)?resp|item|sess|event|call)_[0-9a-f]{8,}")
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


Decision = tuple[str, str, Any, bytes | None]
"""The record's id, a short name, the content to compare, and the digest of its sound if that is still there."""


async def decisions(source: Source, head: Head) -> AsyncIterator[Decision]:
    """What was decided and shown, in order."""
    names = Names(head.ref.session_id)
    async for entry in source.output(head, audio=True):
        body = msgspec.msgpack.decode(entry.body)
        for fact in body.get("facts") or ():
            if fact.get("fact") not in COUNTING:
                yield str(entry.id), str(fact.get("fact")), names.plain(fact), None
        if (frame := body.get("frame")) is not None:
            sound = None if entry.audio is None else audio_digest(entry.audio)
            yield str(entry.id), str(frame.get("type")), names.plain(frame), sound


async def first_divergence(one: Source, head_a: Head, two: Source, head_b: Head) -> dict[str, Any] | None:
    """The first decision that is not the same, ``None`` without one. Sound that one side has lost is not compared."""
    a, b = decisions(one, head_a), decisions(two, head_b)
    end: Decision = ("-", "the log ends", None, None)
    for number in itertools.count(1):
        mine, theirs = await anext(a, None) or end, await anext(b, None) or end
        if mine is end and theirs is end:
            return None
        if mine[1:3] != theirs[1:3] or (mine[3] and theirs[3] and mine[3] != theirs[3]):
            return {
                "what": "decision", "number": number, "a_id": mine[0], "b_id": theirs[0],
                "a": _short(mine), "b": _short(theirs),
            }  # fmt: skip
    return None


def _short(decision: Decision) -> str:
    _, name, content, _ = decision
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
