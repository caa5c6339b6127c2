"""The timeline document: one call as marks on lanes, small enough to open at once.

Times are milliseconds since the first record that is left. A place in the log is ``>2-17`` for an entry of ``input``
(what was said) and ``<7-42`` for one of ``output`` (what was decided and shown), whose number is the seq. The document
holds no sound and no single appends; peaks, sound and records are asked for by time or by place.
"""

from __future__ import annotations

from typing import Any

import msgspec

VERSION = 1
LANES = ("speech", "model", "overlap", "tools", "sockets", "workers", "errors")
"""The lanes that are only marks; the others have structs of their own."""


class Mark(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something that happened at ``at``, or lasted until ``end``. ``open``: it still goes on.

    ``kind`` is what, in one word of a fixed set; ``text`` says it to people; ``ref`` is where the log says so and
    ``end_ref`` where it says that it was over. ``count`` records in a row were made one mark. ``response`` and ``item``
    name what it belongs to.
    """

    at: int
    kind: str
    end: int | None = None
    open: bool = False
    text: str = ""
    ref: str = ""
    end_ref: str = ""
    count: int = 1
    response: str = ""
    item: str = ""


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Sound in one piece: where in the answer it begins, how long it is, where it is heard, where it is generated.

    All in milliseconds. ``heard`` is ``None`` where the client never played it.
    """

    offset: int
    length: int
    heard: int | None
    generated: int


class Reply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One response: the answer as it was made (``created`` to ``done``) and as it was played.

    ``made_from`` and ``made_to`` are when its sound was recorded, ``sent`` is where all of it would have been played,
    ``generated_ms`` and ``heard_ms`` how long that is. ``words`` are ``[offset in its sound, text]``; without sound the
    offset is from ``created``. ``latency_ms`` counts from the end of the turn to the first sound.
    """

    response: str
    item: str = ""
    created: int
    done: int | None = None
    status: str = "in_progress"
    reason: str = ""
    asked: int | None = None
    asked_text: str = ""
    text: str = ""
    latency_ms: int | None = None
    made_from: int | None = None
    made_to: int | None = None
    sent: int | None = None
    generated_ms: int = 0
    heard_ms: int = 0
    runs: list[Run] = []
    words: list[tuple[int, str]] = []
    ref: str = ""
    end_ref: str = ""


class Report(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The client reported playback, or an answer was cut by it (``truncate``)."""

    at: int
    response: str = ""
    item: str = ""
    played_ms: int = 0
    committed_ms: int = 0
    truncate: bool = False
    ref: str = ""


class CallerSound(msgspec.Struct, frozen=True, array_like=True):
    """Caller audio without a gap: from, to, and the entries it came in."""

    begin: int
    end: int
    first: str
    last: str
    count: int


class Written(msgspec.Struct, frozen=True, array_like=True):
    """How far the log was at a time: the last seq, the last input entry that was decided on."""

    at: int
    seq: int
    consumed: str


class Timeline(msgspec.Struct, kw_only=True):
    """The whole document. ``position`` says how far it was read: it is different as soon as anything is new.

    ``written`` and ``said`` (``[time, entry]``) are samples that find a place of the log by its time; ``acknowledged``
    (``[time, seq]``) is what the client confirmed, ``snapshots`` the seqs that snapshots are kept of. ``sound`` is
    the rate of each lane of sound, in hertz.
    """

    version: int = VERSION
    session: str
    incarnation: int
    model: str
    state: str
    closed: str | None
    position: str
    start_ms: int
    length_ms: int
    first_seq: int
    last_seq: int
    last_input: str
    stats: dict[str, Any]
    sound: dict[str, int]
    caller: list[CallerSound]
    marks: dict[str, list[Mark]]
    replies: list[Reply]
    reports: list[Report]
    written: list[Written]
    said: list[tuple[int, str]]
    acknowledged: list[tuple[int, int]]
    snapshots: list[int]


def encoded(document: Timeline) -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document)
