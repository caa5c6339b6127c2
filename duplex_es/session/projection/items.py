"""Conversation items as the wire shows them."""

from __future__ import annotations

from ...protocol import AudioTextMark, ContentPart
from ...protocol import Item as WireItem
from ..playback import heard_ms, heard_text
from ..state import Item


def wire_item(item: Item) -> WireItem:
    """``item`` as a ``realtime.item``, its transcript cut to what was heard where it was cut short."""
    if item.type == "function_call":
        return WireItem(
            id=item.id,
            object="realtime.item",
            type="function_call",
            status=item.status,
            name=item.name,
            call_id=item.call_id,
            arguments=item.arguments,
        )
    if item.type == "function_call_output":
        return WireItem(
            id=item.id,
            object="realtime.item",
            type="function_call_output",
            status=item.status,
            call_id=item.call_id,
            output=item.output,
        )
    return WireItem(
        id=item.id,
        object="realtime.item",
        type="message",
        role=item.role,
        status=item.status,
        content=content(item),
    )


def content(item: Item) -> list[ContentPart]:
    """The content parts of a message; empty for an answer that has not said anything yet."""
    if item.response_id is None:
        return _given(item)
    parts: list[ContentPart] = []
    transcript = shown_transcript(item)
    if item.part == "audio" and (item.ledger.generated_ms > 0 or item.transcript):
        parts.append(
            ContentPart(
                type="output_audio",
                transcript=transcript,
                audio_duration_ms=item.ledger.generated_ms,
                audio_text_marks=[AudioTextMark(text_chars=chars, audio_end_ms=ms) for chars, ms in item.marks],
            )
        )
    if item.text:
        parts.append(ContentPart(type="output_text", text=item.text))
    return parts


def _given(item: Item) -> list[ContentPart]:
    """What a caller said or a client wrote: its words, then its sound."""
    if item.part != "audio":
        return [ContentPart(type="output_text" if item.role == "assistant" else "input_text", text=item.text)]
    written = [ContentPart(type="input_text", text=item.text)] if item.text else []
    return [*written, ContentPart(type="input_audio", transcript=item.transcript)]


def shown_transcript(item: Item) -> str:
    """The transcript a client is shown: whole, unless the answer was cancelled or truncated."""
    limits = [ms for ms in (item.cap_ms,) if ms is not None]
    if item.status == "cancelled":
        limits.append(heard_ms(item))
    return heard_text(item, min(limits)) if limits else item.transcript
