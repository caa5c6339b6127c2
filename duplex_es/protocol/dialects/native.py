"""The canonical stream as the runtime's own events: what the Realtime names are a projection of, taken back.

One native event is several frames: one of them stands for it, the others are heard as nothing. Where a frame carries
the event it came from, that is what is heard.
Source: docs/reference/realtime-api.md, "Native to Realtime name map".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .. import frames
from ..codec import to_plain
from ..objects import Plain, ResponseObject, StatusDetails, given
from . import ga
from .items import said

COMMAND_NAMES: Mapping[str, str] = {
    "session.create": "session.update",
    "open_session": "session.update",
    "session.config": "session.update",
}
"""What only native clients say → the command it is."""


def unchanged(frame: frames.Frame) -> list[Plain]:
    """The frame as it stands."""
    return [to_plain(frame)]


def wrapped(frame: Any) -> list[Plain]:
    """The event that the frame wraps; the frame itself where there is none."""
    inner = frame.event
    if isinstance(inner, msgspec.Struct):
        inner = msgspec.to_builtins(inner)
    return [dict(inner)] if isinstance(inner, dict) and "type" in inner else unchanged(frame)


def _session_created(frame: frames.SessionCreated) -> list[Plain]:
    made = unchanged(frame)[0]
    return [made | {"session_id": frame.session.get("id") or ""}]


def _input_cancelled(frame: frames.InputAudioBufferCleared) -> list[Plain]:
    return [{"type": "input.cancelled"}]


def _response_created(frame: frames.ResponseCreated) -> list[Plain]:
    """The raw event; that of a function call is told when the call is whole."""
    metadata = given(frame.response.metadata, {})
    raw = metadata.get("duplex_event")
    if isinstance(raw, dict) and "type" in raw:
        return [] if raw["type"] == "function_call.done" else [dict(raw)]
    return [ga.event(frame, response_id=_response_id(frame))]


def _response_done(frame: frames.ResponseDone) -> list[Plain]:
    """The raw event, or ``audio.cancelled`` for an answer that was cut short."""
    raw = _raw(frame.response)
    if raw.get("type") == "function_call.done":
        return []
    status = given(frame.response.status, "completed")
    made: Plain = {"type": "response.done", "response_id": _response_id(frame), **raw, "status": status}
    details = given(frame.response.status_details, StatusDetails(type=status))
    if status == "cancelled":
        return [{**made, "type": "audio.cancelled", "reason": given(details.reason, "client_cancelled")}]
    if status != "completed":
        made["status_details"] = msgspec.to_builtins(details)
    return [made]


def _listened(frame: frames.ResponseListen) -> list[Plain]:
    made: Plain = {"type": "response.listen", "session_id": frame.session_id, "epoch": frame.epoch}
    made |= _raw(frame.response)
    if isinstance(frame.response_id, str):
        made["response_id"] = frame.response_id
    return [made]


def _audio_delta(frame: frames.ResponseOutputAudioDelta) -> list[Plain]:
    """The sound with what rode on it, flat. Its text follows in an event of its own."""
    made: Plain = ga.event(frame, response_id=frame.response_id, delta=frame.delta)
    for key, value in (("format", frame.format), ("sample_rate_hz", frame.sample_rate_hz)):
        if isinstance(value, str | int):
            made[key] = value
    return [made | msgspec.to_builtins(given(frame.metadata, frames.OutputMetadata()))]


def _transcript_delta(frame: frames.ResponseOutputAudioTranscriptDelta) -> list[Plain]:
    if not frame.delta:
        return []
    made: Plain = {"type": "response.output_audio.delta", "response_id": frame.response_id}
    return [made | {"delta": "", "audio_transcript": frame.delta}]


def _text_delta(frame: frames.ResponseOutputTextDelta) -> list[Plain]:
    return [{"type": "response.text.delta", "response_id": frame.response_id, "delta": frame.delta}]


def _function_called(frame: frames.ResponseFunctionCallArgumentsDone) -> list[Plain]:
    made = {"type": "function_call.done", **ga.call_place(frame)}
    return [made | {"name": given(said(frame.name), ""), "arguments": frame.arguments}]


def _error(frame: frames.Error) -> list[Plain]:
    body = frame.error
    made: Plain = ga.event(frame, error=body.message, code=body.code)
    for key, value in (("param", said(body.param)), ("client_event_id", said(body.event_id))):
        if value is not None:
            made[key] = value
    return [made]


def _response_id(frame: frames.ResponseCreated | frames.ResponseDone) -> str:
    return given(frame.response_id, given(frame.response.id, ""))


def _raw(response: ResponseObject) -> Plain:
    """The runtime's own event, which the metadata of a response holds beside what the client attached."""
    metadata = given(response.metadata, {})
    return dict(metadata) if "type" in metadata else {}


ROWS: Mapping[type[frames.Frame], ga.Row] = {
    frames.SessionCreated: _session_created,
    frames.SessionUpdated: unchanged,
    frames.SessionHeartbeatAck: unchanged,
    frames.SessionClosed: unchanged,
    frames.SessionResumed: unchanged,
    frames.SessionReplaced: unchanged,
    frames.SessionExpired: unchanged,
    frames.SessionResyncRequired: unchanged,
    frames.InputAudioBufferSpeechStarted: ga.silent,
    frames.InputAudioBufferSpeechStopped: ga.silent,
    frames.InputAudioBufferCommitted: wrapped,
    frames.InputAudioBufferCleared: _input_cancelled,
    frames.ConversationItemAdded: ga.silent,
    frames.ConversationItemCreated: ga.silent,
    frames.ConversationItemDone: ga.silent,
    frames.ConversationItemInputAudioTranscriptionCompleted: ga.silent,
    frames.ConversationItemDeleted: wrapped,
    frames.ConversationItemRetrieved: unchanged,
    frames.ConversationItemTruncated: wrapped,
    frames.ResponseCreated: _response_created,
    frames.ResponseOutputItemAdded: ga.silent,
    frames.ResponseContentPartAdded: ga.silent,
    frames.ResponseSpeak: ga.silent,
    frames.ResponseOutputAudioDelta: _audio_delta,
    frames.ResponseOutputAudioTranscriptDelta: _transcript_delta,
    frames.ResponseOutputTextDelta: _text_delta,
    frames.ResponseOutputTextDone: unchanged,
    frames.ResponseOutputAudioDone: unchanged,
    frames.ResponseOutputAudioTranscriptDone: ga.silent,
    frames.ResponseContentPartDone: ga.silent,
    frames.ResponseOutputItemDone: ga.silent,
    frames.ResponseDone: _response_done,
    frames.RateLimitsUpdated: ga.silent,
    frames.ResponseListen: _listened,
    frames.ResponseFunctionCallArgumentsDelta: ga.silent,
    frames.ResponseFunctionCallArgumentsDone: _function_called,
    frames.DuplexFunctionCallDone: wrapped,
    frames.OutputAudioBufferCleared: unchanged,
    frames.PlaybackAcknowledged: wrapped,
    frames.OverlapDecision: unchanged,
    frames.RuntimeControl: unchanged,
    frames.Error: _error,
    frames.DuplexTurnEvent: wrapped,
    frames.ResponseMessage: unchanged,
    frames.SessionGoingAway: unchanged,
    frames.SessionDurable: unchanged,
    frames.ConversationItemInputAudioTranscriptionDelta: ga.silent,
    frames.ConversationItemInputAudioTranscriptionFailed: ga.silent,
}
"""Every frame, extensions included → its row."""
