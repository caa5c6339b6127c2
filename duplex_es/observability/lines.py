"""Log lines: readable ones, or one JSON object per event that says which session, process and trace it is about.

A JSON line has ``time``, ``level``, ``logger``, ``event`` and ``message``. ``event`` is the line's own wording without
its values, so that equal events count as equal; values that the wording names (``session=%s``) are fields of their own.
``session``, ``seq`` and ``trace_id`` are added inside a task that serves a session, also to what libraries say there.
Nothing that a caller said or hears is ever handed to a logger.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from .readiness import utc

_NAMED = re.compile(r"(\w+)=%[sdr]")
_VALUE = re.compile(r"%(?:\.\d+)?[sdrfgx]")
_CHATTY = ("uvicorn", "websockets", "httpx", "httpcore", "urllib3", "opentelemetry")
"""Libraries that log every frame or request at lower levels, with what is in it."""


@dataclass(frozen=True, slots=True)
class Spot:
    """What a task is about: the session it serves and the trace it belongs to; ``seq`` says how far it has come."""

    session: str
    incarnation: int = 0
    trace_id: str = ""
    seq: Callable[[], int] | None = None


SPOT: ContextVar[Spot | None] = ContextVar("duplex_es_spot", default=None)
"""The spot of the running task and of those it starts."""


class JsonLines(logging.Formatter):
    """One object per line; ``identity`` is in each, such as the process's name in its fleet."""

    def __init__(self, identity: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._identity = dict(identity or {})

    def format(self, record: logging.LogRecord) -> str:
        """The line of ``record``, without its end."""
        line: dict[str, object] = {
            "time": utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _event(record),
            "message": record.getMessage(),
            **self._identity,
        }
        if (spot := SPOT.get()) is not None:
            line |= {"session": spot.session, "incarnation": spot.incarnation, "trace_id": spot.trace_id}
            if spot.seq is not None:
                line["seq"] = spot.seq()
        line |= _fields(record)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _event(record: logging.LogRecord) -> str:
    """What happened, without to whom."""
    text = _NAMED.sub("", str(record.msg)) if record.args else str(record.msg)
    return " ".join(_VALUE.sub("…", text).split())


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The values that the wording names, numbers as numbers."""
    wording, values = str(record.msg), record.args
    if not isinstance(values, tuple):
        return {}
    named = {found.end(): found[1] for found in _NAMED.finditer(wording)}
    places = [named.get(found.end()) for found in _VALUE.finditer(wording)]
    return {
        name: value if isinstance(value, int | float | str) else str(value)
        for name, value in zip(places, values, strict=False)
        if name is not None
    }


def configure(log_format: str, level: str, **identity: str) -> None:
    """Send this program's log lines to standard error, ``text`` or ``json``, from ``level`` up."""
    sink = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        sink.setFormatter(JsonLines(identity))
    else:
        sink.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[sink], force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
