"""The one way to refuse a command: a fact that changes nothing and tells the client why."""

from __future__ import annotations

from .events import CommandRejected


def refuse(said: object, code: str, message: str, param: str | None = None) -> tuple[CommandRejected]:
    """Reject ``said`` with a code of the error table; the client's ``event_id`` is echoed if it gave one."""
    event_id = getattr(said, "event_id", None)
    return (
        CommandRejected(
            code=code, message=message, param=param, event_id=event_id if isinstance(event_id, str) else None
        ),
    )
