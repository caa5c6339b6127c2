"""Traces: one from the client's upgrade request through gateway, log and worker, whoever serves the session later.

The W3C ``traceparent`` carries it: in the request, in the log record of each attachment, in spans. A process that
exports nothing still passes it on, and its log lines name the trace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Value = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Value]

_HEADER = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace; ids in lower-case hex. ``str`` is its ``traceparent``."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"

    @classmethod
    def read(cls, header: object) -> TraceContext | None:
        """The context that ``header`` names; ``None`` for what is no ``traceparent``."""
        found = _HEADER.fullmatch(header) if isinstance(header, str) else None
        if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
            return None
        if not int(found[2], 16) or not int(found[3], 16):
            return None
        return cls(found[2], found[3], bool(int(found[4], 16) & 1))

    @classmethod
    def new(cls) -> TraceContext:
        """The beginning of a trace."""
        return cls(os.urandom(16).hex(), os.urandom(8).hex())


class Span(Protocol):
    """Something that takes time. ``context`` is what its children, here or in another process, belong to."""

    @property
    def context(self) -> TraceContext: ...

    def put(self, attributes: Attributes) -> None:
        """Say more about it."""

    def event(self, name: str, attributes: Attributes | None = None) -> None:
        """Something happened in it, now."""

    def end(self, error: str = "") -> None:
        """It is over; ``error`` says what went wrong. The first call counts."""


class Tracer(Protocol):
    """Makes spans."""

    def start(
        self,
        name: str,
        parent: TraceContext | None = None,
        attributes: Attributes | None = None,
        *,
        serves: bool = False,
        at_s: float | None = None,
    ) -> Span:
        """A span of ``parent``, or the first of a new trace. ``serves``: it answers a request from outside.

        ``at_s`` is its beginning, Unix time; now by default.
        """

    def close(self) -> None:
        """Export what is left."""


class _Unexported:
    """Only a place in the trace."""

    def __init__(self, context: TraceContext) -> None:
        self.context = context

    def put(self, attributes: Attributes) -> None:
        """See ``Span``."""

    def event(self, name: str, attributes: Attributes | None = None) -> None:
        """See ``Span``."""

    def end(self, error: str = "") -> None:
        """See ``Span``."""


class Untraced:
    """The ``Tracer`` of a process that exports nothing: children belong to the parent itself."""

    def start(
        self,
        name: str,
        parent: TraceContext | None = None,
        attributes: Attributes | None = None,
        *,
        serves: bool = False,
        at_s: float | None = None,
    ) -> Span:
        """See ``Tracer``."""
        return _Unexported(parent or TraceContext.new())

    def close(self) -> None:
        """See ``Tracer``."""


UNTRACED: Tracer = Untraced()
