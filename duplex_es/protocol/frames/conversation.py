"""Frames about items of the conversation."""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, UnsetType

from ..objects import ErrorBody, Item, Plain, Usage
from .frame import ServerEvent


class ConversationItemAdded(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.added"):
    """An item entered the conversation, after ``previous_item_id``. ``event`` echoes what caused it."""

    TIER: ClassVar[int] = 2

    previous_item_id: str | None
    item: Item
    event: Plain | UnsetType = UNSET


class ConversationItemCreated(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.created"):
    """The same as ``ConversationItemAdded`` under the beta name; both are sent."""

    TIER: ClassVar[int] = 2

    previous_item_id: str | None
    item: Item
    event: Plain | UnsetType = UNSET


class ConversationItemDone(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.done"):
    """An item is final."""

    TIER: ClassVar[int] = 2

    previous_item_id: str | None
    item: Item
    event: Plain | UnsetType = UNSET


class ConversationItemInputAudioTranscriptionCompleted(
    ServerEvent, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.completed"
):
    """What the caller said in ``item_id``."""

    TIER: ClassVar[int] = 1

    item_id: str
    content_index: int = 0
    transcript: str
    usage: Usage | UnsetType = UNSET


class ConversationItemInputAudioTranscriptionDelta(
    ServerEvent, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.delta"
):
    """An extension: the next words of a transcript that is still to come."""

    TIER: ClassVar[int] = 1

    item_id: str
    content_index: int = 0
    delta: str


class ConversationItemInputAudioTranscriptionFailed(
    ServerEvent, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.failed"
):
    """An extension: what the caller said in ``item_id`` could not be made out, and why."""

    TIER: ClassVar[int] = 1

    item_id: str
    content_index: int = 0
    error: ErrorBody


class ConversationItemDeleted(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.deleted"):
    """An item is gone."""

    TIER: ClassVar[int] = 2

    item_id: str
    event: Plain | UnsetType = UNSET


class ConversationItemRetrieved(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.retrieved"):
    """An item as it stands."""

    TIER: ClassVar[int] = 1

    item: Item


class ConversationItemTruncated(ServerEvent, frozen=True, kw_only=True, tag="conversation.item.truncated"):
    """An answer was cut at ``audio_end_ms`` of its sound."""

    TIER: ClassVar[int] = 2

    item_id: str
    content_index: int = 0
    audio_end_ms: int
    event: Plain | UnsetType = UNSET
