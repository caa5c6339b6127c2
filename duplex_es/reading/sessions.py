"""Where sessions stand, as lists of them show it."""

from __future__ import annotations

from typing import Any

import msgspec

from ..log.api import Head
from ..protocol.records import RecordUnreadable, unpack_opening
from .records import input_line, output_line
from .source import Source


def session_map(head: Head) -> dict[str, Any]:
    """Where a session stands, for JSON and for the table."""
    return {
        "session": f"{head.ref.session_id}#{head.ref.incarnation}",
        "state": head.state,
        "model": head.model,
        "socket": f"{head.gateway}/{head.generation}" if head.attached else None,
        "worker": f"{head.worker}/{head.fence}" if head.fence else None,
        "input": str(head.input),
        "output": str(head.output),
        "first_seq": head.first_seq,
        "acknowledged_seq": head.acknowledged_seq,
    }


async def begun_ms(source: Source, head: Head) -> int | None:
    """When the first record that is left was written."""
    async for entry in source.input(head):
        return input_line(entry).at_ms
    async for entry in source.output(head):
        return output_line(entry).at_ms
    return None


async def ended_ms(source: Source, head: Head) -> int | None:
    """When the last record that is left was written."""
    found: int | None = None
    async for entry in source.output(head, max(0, head.output.number - 1)):
        found = output_line(entry).at_ms
    return found


async def error_in(source: Source, head: Head) -> str | None:
    """The last thing that went wrong in a session: a refused opening, a failed answer, an error frame."""
    found = None
    if head.opening is not None:
        try:
            refused = unpack_opening(head.opening).error
            found = None if isinstance(refused, msgspec.UnsetType) else f"refused: {refused.code}"
        except RecordUnreadable:
            found = "unreadable opening"
    async for entry in source.output(head):
        frame = output_line(entry).frame or {}
        if frame.get("type") == "error":
            found = str((frame.get("error") or {}).get("code"))
        elif frame.get("type") == "response.done" and (frame.get("response") or {}).get("status") == "failed":
            details = frame["response"].get("status_details") or {}
            found = f"answer failed: {details.get('reason')}"
    return found
