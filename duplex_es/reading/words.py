"""How the log's commands write JSON, times and lengths."""

from __future__ import annotations

from typing import Any

import msgspec


def _other(value: object) -> object:
    return str(value)


def json_text(value: Any, *, lines: bool = False) -> str:
    """``value`` as JSON: indented, or on one line for output that is a stream of objects."""
    packed = msgspec.json.encode(value, enc_hook=_other)
    return (packed if lines else msgspec.json.format(packed, indent=2)).decode()


def seconds(ms: float | None) -> str:
    """``1.23 s``, or a dash."""
    return "-" if ms is None else f"{ms / 1000:.2f} s"
