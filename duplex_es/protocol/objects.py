"""The shapes that commands and frames share.

A field that may be missing on the wire is ``UNSET`` here, one that may be ``null`` is ``None``; the two are never mixed
up, so that what was read is written back as it was. Keys a struct does not know are ignored.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

T = TypeVar("T")

Plain = dict[str, object]
"""A free-form JSON object."""

_LIMIT = 2**53
Ms = Annotated[int, msgspec.Meta(ge=-_LIMIT, le=_LIMIT)]
"""Whole milliseconds. A fraction on the wire is floored."""
Count = Annotated[int, msgspec.Meta(ge=0, le=_LIMIT)]
"""An integer from 0 that a double can hold exactly."""


def given(value: T | UnsetType | None, default: T) -> T:
    """``value`` if the wire said one, else ``default``; ``null`` counts as not said."""
    return default if value is UNSET or value is None else value


class PlaybackLedger(msgspec.Struct, frozen=True, kw_only=True):
    """How far one response got, in milliseconds from its first sample; each field cumulative.

    ``generated_ms`` came from the model, ``sent_ms`` entered the output, ``played_ms`` is the client's report and
    ``committed_ms`` what counts as heard for the history.
    """

    generated_ms: int = 0
    sent_ms: int = 0
    played_ms: int = 0
    committed_ms: int = 0


class AudioTextMark(msgspec.Struct, frozen=True, kw_only=True):
    """Ties text to sound: the first ``text_chars`` characters end at ``audio_end_ms``; both cumulative."""

    text_chars: int
    audio_end_ms: int


class ContentPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of an item, or the part a ``response.content_part`` frame names.

    ``audio`` is the decoded bytes of the wire's base64. ``type`` is ``input_text``, ``input_audio``, ``output_text``
    or ``output_audio`` in items, ``audio`` or ``text`` in content-part frames.
    """

    type: str | UnsetType = UNSET
    text: str | UnsetType | None = UNSET
    transcript: str | UnsetType | None = UNSET
    audio: bytes | UnsetType | None = UNSET
    format: str | Plain | UnsetType | None = UNSET
    sample_rate_hz: int | UnsetType | None = UNSET
    is_speech: bool | UnsetType = UNSET
    audio_duration_ms: int | UnsetType = UNSET
    audio_text_marks: list[AudioTextMark] | UnsetType = UNSET


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation item: a message, a function call or its output. All fields may be missing in an echo."""

    id: str | UnsetType | None = UNSET
    object: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    role: str | UnsetType | None = UNSET
    status: str | UnsetType | None = UNSET
    content: list[ContentPart] | UnsetType = UNSET
    name: str | UnsetType | None = UNSET
    call_id: str | UnsetType | None = UNSET
    arguments: str | UnsetType | None = UNSET
    output: str | UnsetType | None = UNSET


class StatusDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Why a response ended other than by completing."""

    type: str
    reason: str | UnsetType = UNSET
    error: Plain | UnsetType = UNSET


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a response or a transcription cost. ``type`` is ``tokens`` or ``duration`` for transcriptions."""

    type: str | UnsetType = UNSET
    seconds: float | UnsetType = UNSET
    total_tokens: int | UnsetType = UNSET
    input_tokens: int | UnsetType = UNSET
    output_tokens: int | UnsetType = UNSET
    input_token_details: Plain | UnsetType = UNSET
    output_token_details: Plain | UnsetType = UNSET


class ResponseObject(msgspec.Struct, frozen=True, kw_only=True):
    """A response; ``status`` is ``in_progress``, ``completed``, ``cancelled``, ``failed`` or ``listening``."""

    id: str | UnsetType = UNSET
    object: str = "realtime.response"
    status: str | UnsetType = UNSET
    status_details: StatusDetails | UnsetType | None = UNSET
    output: list[Item] | UnsetType = UNSET
    conversation_id: str | UnsetType | None = UNSET
    modalities: list[str] | UnsetType = UNSET
    output_modalities: list[str] | UnsetType = UNSET
    usage: Usage | UnsetType | None = UNSET
    metadata: Plain | UnsetType | None = UNSET


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the session's model can do. Clients branch on these flags, never on the model's name.

    ``chunk_period_ms`` is the unit the model decides in. The last block says how a model is run rather than what it can
    do; a model that has nothing to say there leaves it out.
    """

    implementation_level: str = "model_native_duplex"
    supports_input_append: bool = True
    supports_barge_in: bool = False
    supports_session_resume: bool = True
    supports_session_lease: bool = True
    supports_multi_session: bool = True
    supports_audio_truncate: bool = False
    supports_client_commit: bool | UnsetType = UNSET
    supports_playback_ack: bool | UnsetType = UNSET
    supports_external_turn_signal: bool | UnsetType = UNSET
    supports_model_native_turn_policy: bool | UnsetType = UNSET
    chunk_period_ms: int = 1000
    input_modes: list[str] = msgspec.field(default_factory=lambda: ["append_audio_chunk"])
    signal_sources: list[str] = msgspec.field(default_factory=lambda: ["model_native", "client_event", "server_policy"])
    target_barge_in_latency_ms: int | None = None
    adapter_patterns: list[str] | UnsetType = UNSET
    session_admission_mode: str | UnsetType = UNSET
    stage_handoff_transport: str | UnsetType | None = UNSET
    supports_session_adapter: bool | UnsetType = UNSET
    supports_replace_latest_chunk: bool | UnsetType = UNSET
    supports_reencode_context: bool | UnsetType = UNSET
    supports_rollback_to_checkpoint: bool | UnsetType = UNSET
    supports_turn_commit_only: bool | UnsetType = UNSET
    supports_kv_lease: bool | UnsetType = UNSET
    supports_core_kv_lease: bool | UnsetType = UNSET
    supports_model_internal_state: bool | UnsetType = UNSET
    supports_stage_resumption: bool | UnsetType = UNSET
    supports_core_resumable_request: bool | UnsetType = UNSET
    supports_stage_connector_handoff: bool | UnsetType = UNSET
    supports_independent_io_streams: bool | UnsetType = UNSET
    supports_realtime_endpoint: bool | UnsetType = UNSET
    supports_scheduler_native_append: bool | UnsetType = UNSET
    supports_multi_session_same_replica: bool | UnsetType = UNSET
    requires_model_runner_kv: bool | UnsetType = UNSET
    requires_native_stage_role: bool | UnsetType = UNSET


class SessionObject(msgspec.Struct, frozen=True, kw_only=True):
    """The public session object: the effective settings and where the session stands.

    Frames carry it as a plain map, because it also echoes keys only the client understands: see ``to_wire``.
    """

    id: str
    object: str = "realtime.session"
    type: str = "realtime"
    model: str | None = None
    state: str = "open"
    turn_state: str = "idle"
    epoch: int = 0
    turn_id: int = 0
    active_request_id: str | None = None
    active_response_id: str | None = None
    active_response_turn_id: int | None = None
    modalities: list[str] = msgspec.field(default_factory=lambda: ["text", "audio"])
    output_modalities: list[str] = msgspec.field(default_factory=lambda: ["text", "audio"])
    instructions: str | None = None
    voice: str | None = None
    response_format: str = "pcm16"
    input_audio_format: str | Plain = "pcm16"
    output_audio_format: str | Plain = "pcm16"
    audio: Plain = {}
    temperature: float | None = None
    max_tokens: int | str | None = None
    speed: float | None = None
    idle_timeout_s: float = 300.0
    overlap_policy: str = "listen_only"
    overlap_short_ack_ms: int = 700
    overlap_barge_in_ms: int = 1200
    overlap_silence_rms: float = 0.003
    playback_commit_policy: str = "commit_all_on_done"
    turn_detection: Plain | None = None
    input_audio_transcription: Plain | None = None
    tracing: str | Plain | None = None
    playback: PlaybackLedger = PlaybackLedger()
    capabilities: Capabilities = Capabilities()

    def to_wire(self, extra: Plain | None = None) -> Plain:
        """The map a frame carries: ``extra`` (what else the client sent) below, this object's own keys on top."""
        own: Plain = msgspec.to_builtins(self)
        return {**(extra or {}), **own}


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The inside of an ``error`` frame. ``event_id`` is the client's own; ``param`` the dotted path of the field.

    ``retry_after_ms`` says when the same may be tried again, where that can be said.
    """

    type: str
    code: str
    message: str
    event_id: str | UnsetType | None = UNSET
    param: str | UnsetType | None = UNSET
    retry_after_ms: int | UnsetType = UNSET
