"""Conversation items and content parts as stock clients validate them: known keys, known values, no nulls.

What a client is shown of its own words is cut at ``MAX_ECHO_CHARS``, so that no frame grows beyond what clients read;
the item in the session keeps all of it.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ..ids import response_of_item
from ..objects import ContentPart, Item, Plain

MAX_ECHO_CHARS = 80_000
"""The longest text that is echoed; every character may take six bytes of JSON."""

_STATUSES = {"completed": "completed", "in_progress": "in_progress"}
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_AUDIO_KINDS = frozenset({"audio", "input_audio", "output_audio", "audio_transcript", "transcript"})


def stock_item(item: Item, *, beta: bool = False) -> Plain:
    """``item`` whole: with ``id``, ``object``, ``type`` and ``status``; what cannot be missing gets an empty value."""
    kind = _kind(item)
    shown: Plain = {
        "id": said(item.id) or "",
        "object": "realtime.item",
        "type": kind,
        "status": _STATUSES.get(said(item.status) or "completed", "incomplete"),
    }
    if kind == "function_call":
        return shown | {
            "name": said(item.name) or "",
            "call_id": said(item.call_id) or "",
            "arguments": said(item.arguments) or "",
        }
    if kind == "function_call_output":
        return shown | {"call_id": said(item.call_id) or "", "output": echoed(said(item.output) or "")}
    role = _role(item)
    parts = [] if item.content is UNSET else item.content
    return shown | {"role": role, "content": [_item_part(part, role, beta=beta) for part in parts]}


def begun_item(item: Item, *, beta: bool = False) -> Plain:
    """``item`` as it is announced. A call the model makes is announced before its arguments are; one that the client

    put into the conversation is complete from the start.
    """
    shown = stock_item(item, beta=beta)
    if shown["type"] == "function_call" and response_of_item(str(shown["id"])) is not None:
        return shown | {"status": "in_progress", "arguments": ""}
    return shown


def stock_part(part: ContentPart) -> Plain:
    """A part of an answer, as the content-part events name it: of type ``audio`` or ``text``."""
    if _is_audio(part):
        return {"type": "audio", "transcript": said(part.transcript) or ""}
    return {"type": "text", "text": said(part.text) or ""}


def place_of(previous_item_id: str | None) -> str | None:
    """The item before; ``root``, which is how clients ask for the very first place, is nobody's id."""
    return None if previous_item_id == "root" else previous_item_id


def said(value: str | UnsetType | None) -> str | None:
    """``value`` where there is one."""
    return None if value is UNSET else value


def echoed(text: str) -> str:
    """``text`` as far as it is echoed."""
    return text if len(text) <= MAX_ECHO_CHARS else text[:MAX_ECHO_CHARS]


def _kind(item: Item) -> str:
    if isinstance(item.type, str):
        return item.type if item.type in ("function_call", "function_call_output") else "message"
    if isinstance(item.output, str):
        return "function_call_output"
    return "function_call" if isinstance(item.call_id, str) else "message"


def _role(item: Item) -> str:
    if isinstance(item.role, str):
        return _ROLES.get(item.role, "user")
    return "assistant" if response_of_item(said(item.id) or "") is not None else "user"


def _is_audio(part: ContentPart) -> bool:
    return said(part.type) in _AUDIO_KINDS


def _item_part(part: ContentPart, role: str, *, beta: bool) -> Plain:
    """One part of a message. Sound itself is never sent back."""
    kind = "audio" if _is_audio(part) else "text"
    if role == "assistant":
        shown: Plain = {"type": kind if beta else f"output_{kind}"}
    else:
        shown = {"type": f"input_{kind}"}
    words = said(part.transcript) if kind == "audio" else said(part.text) or ""
    if words is not None:
        shown["transcript" if kind == "audio" else "text"] = words if role == "assistant" else echoed(words)
    return shown
