"""The one way to refuse a command: a fact that changes nothing and tells the client why."""

from __future__ import annotations

from ..protocol import ERRORS
from .events import CommandRejected


def known_code(code: str, otherwise: str) -> str:
    """``code`` if the error table has it, else ``otherwise``: a plug-in may report codes of its own making."""
    return code if code in ERRORS else otherwise


def refuse(said: object, code: str, message: str, param: str | None = None) -> tuple[CommandRejected]:
    """Reject ``said`` with a code of the error table; the client's ``event_id`` is echoed if it gave one."""
    stated = getattr(said, "event_id", None)
    event_id = stated if isinstance(stated, str) else None
    return (CommandRejected(code=known_code(code, "duplex_error"), message=message, param=param, event_id=event_id),)
