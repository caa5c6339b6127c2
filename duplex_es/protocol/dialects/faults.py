"""Errors under the codes that stock clients branch on.

Whether an error is fatal to a client is decided by its ``code`` alone, so a code that means the same must be theirs.
Source: docs/reference/dialects.md, "Error codes".
"""

from __future__ import annotations

from collections.abc import Mapping

from ..objects import ErrorBody, Plain
from .items import said

ITEM_COMMANDS: Mapping[str, str] = {
    "conversation.item.retrieve": "item_retrieve_invalid_item_id",
    "conversation.item.truncate": "item_truncate_invalid_item_id",
    "conversation.item.delete": "item_delete_invalid_item_id",
}
"""The command a missing item was named in → the code. An error that names no command counts as a retrieve: that is

the one stock clients send by themselves, and the one whose failure they forgive."""

CODES: Mapping[str, str] = {
    "input_audio_buffer_empty": "input_audio_buffer_commit_empty",
    "response_already_active": "conversation_already_has_active_response",
    "response_not_active": "response_cancel_not_active",
    "item_not_found": ITEM_COMMANDS["conversation.item.retrieve"],
    "item_exists": "item_create_duplicate_item_id",
    "resource_exhausted": "rate_limit_exceeded",
    "duplex_session_busy": "rate_limit_exceeded",
    "input_backpressure": "rate_limit_exceeded",
    "session_resume_expired": "session_expired",
    "unknown_event": "invalid_value",
    "bad_event": "invalid_event",
    "invalid_json": "invalid_event",
}
"""This service's code → the stock one. A code that is not here is said as it is."""

CANCEL_FAILED = "Cancellation failed"
NOT_SERVED = "is not served here"
"""How an error says that no worker has the model; what is wrong with it stands in no code of the published table."""


def stock_error(error: ErrorBody) -> Plain:
    """The inside of an ``error`` event; ``param`` and ``event_id`` only where there are any."""
    code, message = stock_code(error.code, error.message, said(error.param)), error.message
    if error.code == "response_not_active" and not message.startswith(CANCEL_FAILED):
        message = f"{CANCEL_FAILED}: {message}"
    shown: Plain = {"type": error.type, "code": code, "message": message}
    for key, value in (("param", said(error.param)), ("event_id", said(error.event_id))):
        if value is not None:
            shown[key] = value
    return shown


def stock_code(code: str, message: str = "", param: str | None = None) -> str:
    """The code a stock client knows for ``code``; ``message`` may begin with the command that was refused.

    An item that is only to be followed is no such item: its absence is said as it is.
    """
    if code == "invalid_request_error" and NOT_SERVED in message:
        return "model_not_found"
    if code == "item_not_found":
        if param == "previous_item_id":
            return code
        return ITEM_COMMANDS.get(message.split(":", 1)[0].strip(), CODES[code])
    return CODES.get(code, code)
