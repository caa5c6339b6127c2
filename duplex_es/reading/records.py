"""The log's records as plain maps, whatever wrote them: for reading, not for deciding.

Nothing here knows the typed commands, frames or facts, so a record of a newer build still shows what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ..log.api import Entry, EntryId, SessionLog, SessionRef
from ..log.errors import PositionGone

PAGE = 500


@dataclass(frozen=True, slots=True)
class InputLine:
    """One entry of ``input``: what was said. ``said`` is empty for a body that cannot be read."""

    id: EntryId
    at_ms: int
    said: dict[str, Any]
    audio_bytes: int | None

    @property
    def type(self) -> str:
        """The command's wire name, or the gateway's own report."""
        return str(self.said.get("type", "unreadable"))

    @property
    def audio_end_ms(self) -> int | None:
        """Where the client says this audio ends on its own clock."""
        value = self.said.get("audio_end_ms")
        return int(value) if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One entry of ``output``: the frame the client was shown, and the facts behind it."""

    id: EntryId
    at_ms: int
    frame: dict[str, Any] | None
    facts: tuple[dict[str, Any], ...]
    consumed: str | None
    audio_bytes: int | None

    @property
    def seq(self) -> int:
        """The frame's ``server_event_seq``."""
        return self.id.number


Line = InputLine | OutputLine


def input_line(entry: Entry) -> InputLine:
    """The entry as a line; an unreadable body gives one that says so."""
    body = _plain(entry.body)
    said = body.get("said")
    return InputLine(entry.id, _at_ms(body), said if isinstance(said, dict) else {}, _size(entry))


def output_line(entry: Entry) -> OutputLine:
    """The entry as a line; an unreadable body gives one without frame and facts."""
    body = _plain(entry.body)
    frame, facts, consumed = body.get("frame"), body.get("facts"), body.get("consumed")
    return OutputLine(
        id=entry.id,
        at_ms=_at_ms(body),
        frame=frame if isinstance(frame, dict) else None,
        facts=tuple(fact for fact in facts if isinstance(fact, dict)) if isinstance(facts, list) else (),
        consumed=consumed if isinstance(consumed, str) else None,
        audio_bytes=_size(entry),
    )


def line_map(line: Line) -> dict[str, Any]:
    """One record as JSON shows it; sound is counted, not shown."""
    common = {"stream": "input" if isinstance(line, InputLine) else "output", "id": str(line.id), "at_ms": line.at_ms}
    if isinstance(line, InputLine):
        return {**common, "said": _shown(line.said), "audio_bytes": line.audio_bytes}
    facts = [_shown(fact) for fact in line.facts]
    frame = None if line.frame is None else _shown(line.frame)
    return {**common, "consumed": line.consumed, "frame": frame, "facts": facts, "audio_bytes": line.audio_bytes}


async def read_lines(log: SessionLog, ref: SessionRef, *, first_seq: int = 1) -> list[Line]:
    """All that is left of both streams, by time; at the same millisecond what was said stands before what was decided.

    Raises: SessionUnknown, LogUnavailable.
    """
    lines: list[Line] = []
    after = EntryId(0, 0)
    while entries := await _input_left(log, ref, after):
        lines += map(input_line, entries)
        after = entries[-1].id
    seq = first_seq - 1
    while entries := await _output_left(log, ref, seq):
        lines += map(output_line, entries)
        seq = entries[-1].id.number
    # Within a stream the ids are the order; a stable sort by time keeps it unless a clock stepped back.
    return sorted(lines, key=lambda line: (line.at_ms, isinstance(line, OutputLine)))


async def _input_left(log: SessionLog, ref: SessionRef, after: EntryId) -> list[Entry]:
    """The next entries; what was trimmed is passed over."""
    while True:
        try:
            return await log.read_input(ref, after, limit=PAGE, audio=True)
        except PositionGone as gone:
            if gone.trimmed is None:
                raise
            after = gone.trimmed


async def _output_left(log: SessionLog, ref: SessionRef, seq: int) -> list[Entry]:
    while True:
        try:
            return await log.read_output(ref, seq, limit=PAGE, audio=True)
        except PositionGone as gone:
            seq = gone.first_available - 1


def _plain(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.msgpack.decode(body)
    except msgspec.MsgspecError:
        return {}
    return value if isinstance(value, dict) else {}


def _at_ms(body: dict[str, Any]) -> int:
    value = body.get("at_ms")
    return value if isinstance(value, int) else 0


def _size(entry: Entry) -> int | None:
    return None if entry.audio is None else len(entry.audio)


def _shown(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if value != b""}
