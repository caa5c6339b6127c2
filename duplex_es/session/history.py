"""What the model is told of the conversation so far: remembered items, in order, as far as they were heard."""

from __future__ import annotations

from ..model import HistoryItem
from .playback import remembered_text
from .state import Item, Session


def history(session: Session) -> tuple[HistoryItem, ...]:
    """The conversation as the model may know it, oldest first; answers that nobody heard are left out.

    A model that keeps what it heard by item is also told of what was said aloud and never written down.
    """
    keeps_audio = session.info is not None and session.info.keeps_audio
    known = (item for item in session.items if item.remembered or (keeps_audio and _spoken(item)))
    entries = (_entry(item, keeps_audio) for item in known)
    return tuple(entry for entry in entries if entry is not None)


def _spoken(item: Item) -> bool:
    """Whether the caller said it aloud."""
    return item.role == "user" and item.part == "audio"


def _entry(item: Item, keeps_audio: bool) -> HistoryItem | None:
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
        else (" ".join(part for part in (item.text, item.transcript) if part))
    )
    spoken = _spoken(item)
    if not text and not (spoken and keeps_audio):
        return None
    return HistoryItem(item_id=item.id, role=item.role or "user", text=text, spoken=spoken)
