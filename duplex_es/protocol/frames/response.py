"""Frames of one response, in the order they come, and the model's decision to listen instead."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from ..objects import AudioTextMark, ContentPart, Item, Plain, PlaybackLedger, ResponseObject
from .frame import ServerEvent


class OutputMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What rides on an audio delta or a speak decision.

    ``audio_duration_ms``, ``audio_text_marks`` and ``playback`` are cumulative over the response.
    """

    session_id: str | UnsetType = UNSET
    epoch: int | UnsetType = UNSET
    model_speak: bool | UnsetType = UNSET
    end_of_turn: bool | UnsetType = UNSET
    audio_duration_ms: int | UnsetType = UNSET
    audio_text_marks: list[AudioTextMark] | UnsetType = UNSET
    playback: PlaybackLedger | UnsetType = UNSET
    vllm_omni: Plain | UnsetType = UNSET


class ResponseCreated(ServerEvent, frozen=True, kw_only=True, tag="response.created"):
    """A response starts; the first of its frames."""

    TIER: ClassVar[int] = 2

    response_id: str | UnsetType = UNSET
    response: ResponseObject


class ResponseOutputItemAdded(ServerEvent, frozen=True, kw_only=True, tag="response.output_item.added"):
    """The response has an item now: its message, or a function call."""

    TIER: ClassVar[int] = 1

    response_id: str
    output_index: int = 0
    item: Item


class _PartEvent(ServerEvent, frozen=True, kw_only=True):
    """Addresses one content part of one item of one response."""

    response_id: str
    item_id: str
    output_index: int = 0
    content_index: int = 0


class ResponseContentPartAdded(_PartEvent, frozen=True, kw_only=True, tag="response.content_part.added"):
    """A part opened; ``part.type`` is ``audio`` or ``text``."""

    TIER: ClassVar[int] = 1

    part: ContentPart


class ResponseSpeak(_PartEvent, frozen=True, kw_only=True, tag="response.speak"):
    """The model decided to speak; at most once per response, before its first audio."""

    TIER: ClassVar[int] = 3

    metadata: OutputMetadata | UnsetType = UNSET


class ResponseOutputAudioDelta(_PartEvent, frozen=True, kw_only=True, tag="response.output_audio.delta"):
    """The next piece of speech: ``delta`` is raw audio in ``format``, base64 on the wire."""

    TIER: ClassVar[int] = 2

    delta: bytes
    format: str | UnsetType = UNSET
    sample_rate_hz: int | UnsetType = UNSET
    metadata: OutputMetadata | UnsetType = UNSET


class ResponseOutputAudioTranscriptDelta(
    _PartEvent, frozen=True, kw_only=True, tag="response.output_audio_transcript.delta"
):
    """The text of the audio delta before it; may be empty."""

    TIER: ClassVar[int] = 1

    delta: str


class ResponseOutputTextDelta(_PartEvent, frozen=True, kw_only=True, tag="response.output_text.delta"):
    """The next piece of written text."""

    TIER: ClassVar[int] = 1

    delta: str


class ResponseOutputTextDone(_PartEvent, frozen=True, kw_only=True, tag="response.output_text.done"):
    """The written text, whole."""

    TIER: ClassVar[int] = 1

    text: str


class ResponseOutputAudioDone(_PartEvent, frozen=True, kw_only=True, tag="response.output_audio.done"):
    """No more audio comes."""

    TIER: ClassVar[int] = 1


class ResponseOutputAudioTranscriptDone(
    _PartEvent, frozen=True, kw_only=True, tag="response.output_audio_transcript.done"
):
    """The spoken text, whole: exactly its deltas joined."""

    TIER: ClassVar[int] = 1

    transcript: str


class ResponseContentPartDone(_PartEvent, frozen=True, kw_only=True, tag="response.content_part.done"):
    """A part is final."""

    TIER: ClassVar[int] = 1

    part: ContentPart


class ResponseOutputItemDone(ServerEvent, frozen=True, kw_only=True, tag="response.output_item.done"):
    """An item of the response is final."""

    TIER: ClassVar[int] = 1

    response_id: str
    output_index: int = 0
    item: Item


class ResponseDone(ServerEvent, frozen=True, kw_only=True, tag="response.done"):
    """The response ended; exactly one per response, after all its other frames."""

    TIER: ClassVar[int] = 2

    response_id: str | UnsetType = UNSET
    response: ResponseObject


class RateLimitsUpdated(ServerEvent, frozen=True, kw_only=True, tag="rate_limits.updated"):
    """Follows every ``response.done``; always empty."""

    TIER: ClassVar[int] = 1

    rate_limits: list[Plain] = msgspec.field(default_factory=list)


class ResponseListen(ServerEvent, frozen=True, kw_only=True, tag="response.listen"):
    """The model keeps listening. With ``response_id`` it ends that response, whose ``response.done`` follows."""

    TIER: ClassVar[int] = 3

    session_id: str
    epoch: int
    response_id: str | UnsetType = UNSET
    response: ResponseObject


class ResponseFunctionCallArgumentsDelta(
    ServerEvent, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"
):
    """Arguments of a function call, a piece of their JSON text."""

    TIER: ClassVar[int] = 1

    response_id: str
    item_id: str
    output_index: int = 0
    call_id: str
    delta: str


class ResponseFunctionCallArgumentsDone(
    ServerEvent, frozen=True, kw_only=True, tag="response.function_call_arguments.done"
):
    """Arguments of a function call, whole."""

    TIER: ClassVar[int] = 1

    response_id: str
    item_id: str
    output_index: int = 0
    call_id: str
    name: str | UnsetType = UNSET
    arguments: str


class DuplexFunctionCallDone(ServerEvent, frozen=True, kw_only=True, tag="duplex.function_call.done"):
    """A function call of the model without ``call_id`` or ``name``, as it came."""

    TIER: ClassVar[int] = 3

    event: Plain


class ResponseMessage(ServerEvent, frozen=True, kw_only=True, tag="response.message"):
    """An extension: something a chat model sent that has no place in the response's frames, as it came."""

    TIER: ClassVar[int] = 3

    response_id: str | UnsetType = UNSET
    message: Plain
