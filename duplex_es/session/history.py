"""What the model is told of the conversation so far: remembered items, in order, as far as they were heard."""

from __future__ import annotations

from ..model import HistoryItem
from .playback import remembered_text
from .state import Item, Session


def history(session: Session) -> tuple[HistoryItem, ...]:
    """The conversation as the model may know it, oldest first; answers that nobody heard are left out."""
    remembered = (_entry(item) for item in session.items if item.remembered)
    return tuple(entry for entry in remembered if entry is not None)


def _entry(item: Item) -> HistoryItem | None:
    match item.type:
        case "function_call":
            return HistoryItem(
                item_id=item.id, role="assistant", text=item.arguments or "", call_id=item.call_id, name=item.name
            )
        case "function_call_output":
            return HistoryItem(item_id=item.id, role="tool", text=item.output or "", call_id=item.call_id)
    text = (
        remembered_text(item)
        if item.role == "assistant" and item.response_id
        else (" ".join(part for part in (item.transcript, item.text) if part))
    )
    return HistoryItem(item_id=item.id, role=item.role or "user", text=text) if text else None
