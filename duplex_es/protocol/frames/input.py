"""Frames about what the caller says: speech bounds, commits, clears, and overlap with an answer."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from ..objects import Plain
from .frame import ServerEvent


class InputAudioBufferSpeechStarted(ServerEvent, frozen=True, kw_only=True, tag="input_audio_buffer.speech_started"):
    """Speech began at ``audio_start_ms`` of the session's input clock; ``item_id`` is the item it will become."""

    TIER: ClassVar[int] = 1

    audio_start_ms: int
    item_id: str


class InputAudioBufferSpeechStopped(ServerEvent, frozen=True, kw_only=True, tag="input_audio_buffer.speech_stopped"):
    """Speech ended at ``audio_end_ms``, trailing silence included."""

    TIER: ClassVar[int] = 1

    audio_end_ms: int
    item_id: str


class InputCommitted(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit did, in detail. A flag is there only when it says something."""

    type: str = "input.committed"
    session_id: str
    turn_id: int
    epoch: int
    history_len: int
    message: Plain | UnsetType = UNSET
    native_audio: bool | UnsetType = UNSET
    transcript: str | UnsetType = UNSET
    realtime_item_id: str | UnsetType = UNSET
    item_id: str | UnsetType = UNSET
    empty: bool | UnsetType = UNSET
    is_speech: bool | UnsetType = UNSET
    no_response: bool | UnsetType = UNSET
    overlap_ack: bool | UnsetType = UNSET
    overlap_deferred: bool | UnsetType = UNSET
    response_create_deferred: bool | UnsetType = UNSET


class InputAudioBufferCommitted(ServerEvent, frozen=True, kw_only=True, tag="input_audio_buffer.committed"):
    """The buffered utterance became item ``item_id``."""

    TIER: ClassVar[int] = 2

    previous_item_id: str | None
    item_id: str
    event: InputCommitted | UnsetType = UNSET


class InputAudioBufferCleared(ServerEvent, frozen=True, kw_only=True, tag="input_audio_buffer.cleared"):
    """Pending input is gone."""

    TIER: ClassVar[int] = 1


class OverlapDecision(ServerEvent, frozen=True, kw_only=True, tag="overlap.decision"):
    """How audio that overlapped an answer was taken: ``action`` is ``drop``, ``listen`` or ``barge_in``.

    Comes before the effects of the decision. ``overlap_ms`` is the overlapping speech so far; ``metadata`` repeats
    the details under the names of the runtime.
    """

    TIER: ClassVar[int] = 3

    session_id: str
    epoch: int
    policy: str
    action: str
    reason: str
    overlap_ms: int | UnsetType = UNSET
    buffer_audio: bool | UnsetType = UNSET
    defer_runtime_append: bool | UnsetType = UNSET
    force_listen: bool | UnsetType = UNSET
    cancel_reason: str | UnsetType = UNSET
    preserve_realtime_input: bool | UnsetType = UNSET
    metadata: Plain | UnsetType = UNSET


class DuplexTurnEvent(ServerEvent, frozen=True, kw_only=True, tag="duplex.turn.event"):
    """An extension: an explicit ``turn.signal`` was taken in; ``event`` holds its name and the turn state after it."""

    TIER: ClassVar[int] = 3

    event: Plain
