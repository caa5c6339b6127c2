"""A session's log in lines a person reads: one per record, long runs of the same thing folded into one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..reading.records import InputLine, Line, OutputLine

DETAIL_LENGTH = 72
# What of a message says most; the first that is there is shown, with its name unless that is obvious.
TELLING = (
    "transcript",
    "text",
    "delta",
    "code",
    "reason",
    "message",
    "played_ms",
    "generation",
    "server_event_seq",
    "status",
    "response_id",
    "item_id",
    "duration_ms",
)
QUOTED = {"transcript", "text", "delta", "message"}
FOLDED_SAID = {"input_audio_buffer.append", "session.event_ack", "session.heartbeat", "playback.ack"}
FOLDED_SHOWN = {"session.heartbeat_ack", "playback.acknowledged"}
ANSWERING = {
    "response.output_audio.delta": "sound",
    "response.output_audio_transcript.delta": "sound",
    "response.output_text.delta": "text",
}
# Facts that only count what went by.
QUIET_FACTS = {"AudioAppended", "AudioProduced", "TextProduced", "HeartbeatAnswered"}
LONG_ID = re.compile(r"(?<![0-9a-f])([0-9a-f]{8})[0-9a-f]{24}(?![0-9a-f])")


def render(lines: Sequence[Line], *, folds: bool = True, start_ms: int | None = None) -> Iterator[str]:
    """The log as text. Times are seconds since the first record, or since ``start_ms``.

    Appends, acknowledgements and the pieces of an answer are folded into one line each between two records that say
    more; ``folds=False`` shows every record by itself.
    """
    if not lines:
        return
    start_ms = min(line.at_ms for line in lines) if start_ms is None else start_ms
    for run in _runs(lines) if folds else ([line] for line in lines):
        first, last = run[0], run[-1]
        stamp = f"{(first.at_ms - start_ms) / 1000:8.3f}"
        span = str(first.id) if len(run) == 1 else f"{first.id}..{last.id.number}"
        arrow = ">" if isinstance(first, InputLine) else "<"
        yield f"{stamp} {arrow} {span:<12} {_what(run)}".rstrip()


def _runs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lines that fold, gathered by kind until one comes that does not; the gathered keep the order they began in."""
    gathered: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        if kind := _kind(line):
            gathered.setdefault(kind, []).append(line)
            continue
        yield from gathered.values()
        gathered = {}
        yield [line]
    yield from gathered.values()


def _kind(line: Line) -> tuple[str, ...] | None:
    """What ``line`` may be folded with; ``None`` when it must stand alone."""
    generation = str(line.id.generation)
    if isinstance(line, InputLine):
        return ("said", generation, line.type) if line.type in FOLDED_SAID else None
    if any(_fact_name(fact) not in QUIET_FACTS for fact in line.facts):
        return None
    if line.frame is None:
        return ("facts", generation) if line.facts else None
    name = str(line.frame.get("type"))
    if name in ANSWERING:
        return ("answer", generation, ANSWERING[name], str(line.frame.get("response_id")))
    return ("shown", generation, name) if name in FOLDED_SHOWN else None


def _what(run: Sequence[Line]) -> str:
    first = run[0]
    if isinstance(first, InputLine):
        return _said([line for line in run if isinstance(line, InputLine)])
    return _shown([line for line in run if isinstance(line, OutputLine)])


def _said(run: Sequence[InputLine]) -> str:
    first = run[0]
    size_bytes = sum(line.audio_bytes or 0 for line in run)
    audio = f"  {_sound(size_bytes, first.said)}" if size_bytes else ""
    if len(run) > 1:
        return f"{len(run)} x {first.type}{audio}"
    if first.type == "duplex_es.forked":
        told = first.said
        return f"{first.type}  of {told.get('session_id')}#{told.get('incarnation')} after seq {told.get('seq')}"
    return f"{first.type}{audio}{'' if audio else _detail(first.said)}"


def _shown(run: Sequence[OutputLine]) -> str:
    first = run[0]
    facts = _facts(run)
    if first.frame is None:
        return f"(no frame){facts}" if facts else "(a record this build cannot read)"
    name = str(first.frame.get("type", "frame"))
    sounding = [line for line in run if line.audio_bytes]
    audio = f"  {_sound(sum(line.audio_bytes or 0 for line in sounding), sounding[0].frame or {})}" if sounding else ""
    if len(run) == 1:
        return f"{name}{audio}{'' if audio else _detail(first.frame)}{facts}"
    if name in ANSWERING:
        # A sound's frame keeps its audio apart, so what is left in ``delta`` are words.
        pieces = (str((line.frame or {}).get("delta") or "") for line in run if not line.audio_bytes)
        said = "".join(pieces).strip()
        return f"{len(run)} x {name} and its words{audio}{_quoted(said)}{facts}"
    return f"{len(run)} x {name}{audio}{facts}"


def _facts(run: Sequence[OutputLine]) -> str:
    counts = Counter(_fact_name(fact) for line in run for fact in line.facts)
    names = [name if count == 1 else f"{count} x {name}" for name, count in counts.items()]
    return f"  [{', '.join(names)}]" if names else ""


def _fact_name(fact: dict[str, Any]) -> str:
    return str(fact.get("fact") or fact.get("type") or "fact")


def _sound(size_bytes: int | None, message: dict[str, Any]) -> str:
    rate_hz = message.get("sample_rate_hz") or message.get("sample_rate")
    encoding = message.get("format") or message.get("input_audio_format") or "pcm16"
    if isinstance(rate_hz, int) and rate_hz > 0 and encoding == "pcm16" and size_bytes is not None:
        return f"{size_bytes / (2 * rate_hz):.2f} s"
    return f"{size_bytes} bytes"


def _detail(message: dict[str, Any]) -> str:
    sources = [message, *(message[name] for name in ("error", "response", "item", "event") if _is_map(message, name))]
    for name in TELLING:
        for source in sources:
            value = source.get(name)
            if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
                continue
            return _quoted(str(value)) if name in QUOTED else f"  {name}={_short(str(value))}"
    return ""


def _is_map(message: dict[str, Any], name: str) -> bool:
    return isinstance(message.get(name), dict)


def _quoted(text: str) -> str:
    return f'  "{_short(text)}"' if text else ""


def _short(text: str) -> str:
    shortened = LONG_ID.sub(r"\1..", text)
    return shortened if len(shortened) <= DETAIL_LENGTH else f"{shortened[:DETAIL_LENGTH]}..."
