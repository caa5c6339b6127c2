"""A session's log in lines a person reads: one per record, long runs of the same thing folded into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .records import InputLine, Line, OutputLine

DETAIL_LENGTH = 72
# What of a message says most; the first that is there is shown, with its name unless that is obvious.
TELLING = (
    "transcript",
    "text",
    "delta",
    "code",
    "reason",
    "message",
    "item_id",
    "response_id",
    "server_event_seq",
    "played_ms",
    "generation",
    "duration_ms",
)
QUOTED = {"transcript", "text", "delta", "message"}
FOLDED = {"input_audio_buffer.append", "session.event_ack", "session.heartbeat"}


def render(lines: Sequence[Line], *, folds: bool = True) -> Iterator[str]:
    """The log as text. Times are seconds since the first record; ``folds=False`` shows every append by itself."""
    if not lines:
        return
    start_ms = min(line.at_ms for line in lines)
    for run in _runs(lines) if folds else ([line] for line in lines):
        first, last = run[0], run[-1]
        stamp = f"{(first.at_ms - start_ms) / 1000:8.3f}"
        span = str(first.id) if len(run) == 1 else f"{first.id}..{last.id.number}"
        arrow = ">" if isinstance(first, InputLine) else "<"
        yield f"{stamp} {arrow} {span:<12} {_what(run)}".rstrip()


def _runs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    run: list[Line] = []
    for line in lines:
        if run and not _continues(run[-1], line):
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def _continues(before: Line, after: Line) -> bool:
    if isinstance(before, InputLine) and isinstance(after, InputLine):
        same = before.type == after.type and before.id.generation == after.id.generation
        return same and before.type in FOLDED
    if isinstance(before, OutputLine) and isinstance(after, OutputLine):
        return _is_quiet(before) and _is_quiet(after) and before.facts == after.facts == ()
    return False


def _is_quiet(line: OutputLine) -> bool:
    return (line.frame or {}).get("type") in FOLDED


def _what(run: Sequence[Line]) -> str:
    first = run[0]
    if isinstance(first, OutputLine):
        return _output(first)
    if len(run) > 1:
        total_bytes = sum(line.audio_bytes or 0 for line in run)
        audio = f", {_sound(total_bytes, first.said)} of audio" if total_bytes else ""
        return f"{len(run)} x {first.type}{audio}"
    audio = f"  {_sound(first.audio_bytes, first.said)}" if first.audio_bytes else ""
    return f"{first.type}{audio}{_detail(first.said)}"


def _output(line: OutputLine) -> str:
    if line.frame is None and not line.facts:
        return "(a record this build cannot read)"
    shown = ""
    if line.frame is not None:
        audio = f"  {_sound(line.audio_bytes, line.frame)}" if line.audio_bytes else ""
        shown = f"{line.frame.get('type', 'frame')}{audio}{_detail(line.frame)}"
    facts = ", ".join(str(fact.get("fact") or fact.get("type") or "fact") for fact in line.facts)
    return f"{shown or '(no frame)'}{f'  [{facts}]' if facts else ''}"


def _sound(size_bytes: int | None, message: dict[str, Any]) -> str:
    rate_hz = message.get("sample_rate_hz") or message.get("sample_rate")
    encoding = message.get("format") or message.get("input_audio_format") or "pcm16"
    if isinstance(rate_hz, int) and rate_hz > 0 and encoding == "pcm16" and size_bytes is not None:
        return f"{size_bytes / (2 * rate_hz):.2f} s"
    return f"{size_bytes} bytes"


def _detail(message: dict[str, Any]) -> str:
    for source in (message, *_nested(message)):
        for name in TELLING:
            value = source.get(name)
            if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
                continue
            text = str(value)
            text = text if len(text) <= DETAIL_LENGTH else f"{text[:DETAIL_LENGTH]}..."
            return f'  "{text}"' if name in QUOTED else f"  {name}={text}"
    return ""


def _nested(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("error", "response", "item", "event"):
        value = message.get(name)
        if isinstance(value, dict):
            yield value
