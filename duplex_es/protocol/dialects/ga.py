"""The canonical stream as strict OpenAI Realtime: names, shapes and values that stock clients validate.

Every frame has a row. A frame without a counterpart is heard as nothing; no row looks at any other frame.
Source: docs/reference/dialects.md, "ga".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import frames
from ..objects import Plain, given
from .faults import stock_error
from .items import begun_item, place_of, said, stock_item, stock_part
from .responses import stock_response, transcription_usage
from .sessions import ga_session

MAX_DELTA_BYTES = 360 * 1024
"""The most sound one event carries: whole samples of any width, and below 512 KiB once it is base64."""

Row = Callable[[Any], list[Plain]]
"""A frame → the events a client hears, in order, without ``event_id``. A ``bytes`` value is still to be base64."""


def event(frame: frames.ServerEvent | type[frames.ServerEvent], **fields: object) -> Plain:
    """An event under the frame's own name."""
    return {"type": frames.wire_name(frame), **fields}


def silent(frame: frames.Frame) -> list[Plain]:
    """Nothing: the frame has no counterpart in this dialect."""
    return []


def plain(frame: frames.Frame) -> list[Plain]:
    """The event's name alone."""
    return [event(frame)]


# -- session -------------------------------------------------------------------------------------------------------


def _session_created(frame: frames.SessionCreated) -> list[Plain]:
    made = event(frame, session=ga_session(frame.session))
    return [made | resume_fields(frame)]


def resume_fields(frame: frames.SessionCreated) -> Plain:
    """What a client needs that wants to resume this session as a seed client, under one key that others ignore."""
    known = {
        "incarnation": frame.incarnation,
        "attachment_generation": frame.attachment_generation,
        "resume_token": frame.resume_token,
    }
    fields = {key: value for key, value in known.items() if isinstance(value, int | str)}
    return {"duplex": fields} if fields else {}


def _session_updated(frame: frames.SessionUpdated) -> list[Plain]:
    return [event(frame, session=ga_session(frame.session))]


def session_closed(frame: frames.SessionClosed) -> list[Plain]:
    """Only a session that timed out says so; every other end has its error already, or was the client's wish."""
    return [expired("The session ended after a long silence.")] if frame.reason == "timeout" else []


def session_expired(frame: frames.SessionExpired) -> list[Plain]:
    """The error that means the end of a session to a stock client."""
    return [expired(f"The session ended: {frame.reason}.")]


def expired(message: str) -> Plain:
    """The error of a session that is over."""
    error: Plain = {"type": "invalid_request_error", "code": "session_expired", "message": message}
    return event(frames.Error, error=error)


def error(frame: frames.Error) -> list[Plain]:
    """The error under the code that clients branch on."""
    return [event(frame, error=stock_error(frame.error))]


# -- input and conversation ----------------------------------------------------------------------------------------


def speech_started(frame: frames.InputAudioBufferSpeechStarted) -> list[Plain]:
    """Speech began."""
    return [event(frame, audio_start_ms=frame.audio_start_ms, item_id=frame.item_id)]


def speech_stopped(frame: frames.InputAudioBufferSpeechStopped) -> list[Plain]:
    """Speech ended."""
    return [event(frame, audio_end_ms=frame.audio_end_ms, item_id=frame.item_id)]


def committed(frame: frames.InputAudioBufferCommitted) -> list[Plain]:
    """The utterance became an item."""
    return [event(frame, previous_item_id=place_of(frame.previous_item_id), item_id=frame.item_id)]


def _item_added(frame: frames.ConversationItemAdded) -> list[Plain]:
    return [event(frame, previous_item_id=place_of(frame.previous_item_id), item=begun_item(frame.item))]


def _item_done(frame: frames.ConversationItemDone) -> list[Plain]:
    return [event(frame, previous_item_id=place_of(frame.previous_item_id), item=stock_item(frame.item))]


def transcribed(frame: frames.ConversationItemInputAudioTranscriptionCompleted) -> list[Plain]:
    """What the caller said, and what it cost to know."""
    made = event(frame, item_id=frame.item_id, content_index=frame.content_index, transcript=frame.transcript)
    return [made | {"usage": transcription_usage(frame.usage)}]


def transcript_delta(frame: frames.ConversationItemInputAudioTranscriptionDelta) -> list[Plain]:
    """The next words of what the caller said."""
    return [event(frame, item_id=frame.item_id, content_index=frame.content_index, delta=frame.delta)]


def transcription_failed(frame: frames.ConversationItemInputAudioTranscriptionFailed) -> list[Plain]:
    """Nothing could be made out, and why."""
    place = {"item_id": frame.item_id, "content_index": frame.content_index}
    return [event(frame, **place, error=stock_error(frame.error))]


def item_deleted(frame: frames.ConversationItemDeleted) -> list[Plain]:
    """The item is gone."""
    return [event(frame, item_id=frame.item_id)]


def _item_retrieved(frame: frames.ConversationItemRetrieved) -> list[Plain]:
    return [event(frame, item=stock_item(frame.item))]


def item_truncated(frame: frames.ConversationItemTruncated) -> list[Plain]:
    """The answer was cut."""
    place = {"item_id": frame.item_id, "content_index": frame.content_index}
    return [event(frame, **place, audio_end_ms=frame.audio_end_ms)]


def output_cleared(frame: frames.OutputAudioBufferCleared) -> list[Plain]:
    """Queued sound is dropped; without a response to name there is nothing a stock client could take from it."""
    return [event(frame, response_id=frame.response_id)] if isinstance(frame.response_id, str) else []


# -- responses -----------------------------------------------------------------------------------------------------


def _response_created(frame: frames.ResponseCreated) -> list[Plain]:
    return [event(frame, response=stock_response(frame.response))]


def _response_done(frame: frames.ResponseDone) -> list[Plain]:
    return [event(frame, response=stock_response(frame.response, ended=True))]


def _output_item_added(frame: frames.ResponseOutputItemAdded) -> list[Plain]:
    place = {"response_id": frame.response_id, "output_index": frame.output_index}
    return [event(frame, **place, item=begun_item(frame.item))]


def _output_item_done(frame: frames.ResponseOutputItemDone) -> list[Plain]:
    place = {"response_id": frame.response_id, "output_index": frame.output_index}
    return [event(frame, **place, item=stock_item(frame.item))]


def part_place(frame: Any) -> Plain:
    """The four fields that address a content part."""
    return {name: getattr(frame, name) for name in ("response_id", "item_id", "output_index", "content_index")}


def part(frame: frames.ResponseContentPartAdded | frames.ResponseContentPartDone) -> list[Plain]:
    """A part opened, or is final."""
    return [event(frame, **part_place(frame), part=stock_part(frame.part))]


def audio_delta(frame: frames.ResponseOutputAudioDelta) -> list[Plain]:
    """The sound, in as many events as it takes; none for a delta whose sound has expired."""
    starts = range(0, len(frame.delta), MAX_DELTA_BYTES)
    place = event(frame, **part_place(frame))
    return [{**place, "delta": frame.delta[start : start + MAX_DELTA_BYTES]} for start in starts]


def text_delta(frame: Any) -> list[Plain]:
    """A piece of text, written or spoken. Only seed clients count on one for every piece of sound."""
    return [event(frame, **part_place(frame), delta=frame.delta)] if frame.delta else []


def text_done(frame: frames.ResponseOutputTextDone) -> list[Plain]:
    """The written text, whole."""
    return [event(frame, **part_place(frame), text=frame.text)]


def transcript_done(frame: frames.ResponseOutputAudioTranscriptDone) -> list[Plain]:
    """The spoken text, whole."""
    return [event(frame, **part_place(frame), transcript=frame.transcript)]


def audio_done(frame: frames.ResponseOutputAudioDone) -> list[Plain]:
    """No more sound comes."""
    return [event(frame, **part_place(frame))]


def call_place(frame: Any) -> Plain:
    """The four fields that address a function call."""
    return {name: getattr(frame, name) for name in ("response_id", "item_id", "output_index", "call_id")}


def arguments_delta(frame: frames.ResponseFunctionCallArgumentsDelta) -> list[Plain]:
    """A piece of a call's arguments."""
    return [event(frame, **call_place(frame), delta=frame.delta)]


def arguments_done(frame: frames.ResponseFunctionCallArgumentsDone) -> list[Plain]:
    """A call's arguments, whole, and the name of the function."""
    return [event(frame, **call_place(frame), name=given(said(frame.name), ""), arguments=frame.arguments)]


def rate_limits(frame: frames.RateLimitsUpdated) -> list[Plain]:
    """Clients read two names of limits and no other."""
    known = [dict(limit) for limit in frame.rate_limits if limit.get("name") in ("requests", "tokens")]
    return [event(frame, rate_limits=known)]


ROWS: Mapping[type[frames.Frame], Row] = {
    frames.SessionCreated: _session_created,
    frames.SessionUpdated: _session_updated,
    frames.SessionHeartbeatAck: silent,
    frames.SessionClosed: session_closed,
    frames.SessionResumed: silent,
    frames.SessionReplaced: silent,
    frames.SessionExpired: session_expired,
    frames.SessionResyncRequired: silent,
    frames.InputAudioBufferSpeechStarted: speech_started,
    frames.InputAudioBufferSpeechStopped: speech_stopped,
    frames.InputAudioBufferCommitted: committed,
    frames.InputAudioBufferCleared: plain,
    frames.ConversationItemAdded: _item_added,
    frames.ConversationItemCreated: silent,
    frames.ConversationItemDone: _item_done,
    frames.ConversationItemInputAudioTranscriptionCompleted: transcribed,
    frames.ConversationItemDeleted: item_deleted,
    frames.ConversationItemRetrieved: _item_retrieved,
    frames.ConversationItemTruncated: item_truncated,
    frames.ResponseCreated: _response_created,
    frames.ResponseOutputItemAdded: _output_item_added,
    frames.ResponseContentPartAdded: part,
    frames.ResponseSpeak: silent,
    frames.ResponseOutputAudioDelta: audio_delta,
    frames.ResponseOutputAudioTranscriptDelta: text_delta,
    frames.ResponseOutputTextDelta: text_delta,
    frames.ResponseOutputTextDone: text_done,
    frames.ResponseOutputAudioDone: audio_done,
    frames.ResponseOutputAudioTranscriptDone: transcript_done,
    frames.ResponseContentPartDone: part,
    frames.ResponseOutputItemDone: _output_item_done,
    frames.ResponseDone: _response_done,
    frames.RateLimitsUpdated: rate_limits,
    frames.ResponseListen: silent,
    frames.ResponseFunctionCallArgumentsDelta: arguments_delta,
    frames.ResponseFunctionCallArgumentsDone: arguments_done,
    frames.DuplexFunctionCallDone: silent,
    frames.OutputAudioBufferCleared: output_cleared,
    frames.PlaybackAcknowledged: silent,
    frames.OverlapDecision: silent,
    frames.RuntimeControl: silent,
    frames.Error: error,
    frames.DuplexTurnEvent: silent,
    frames.ResponseMessage: silent,
    frames.SessionGoingAway: silent,
    frames.SessionDurable: silent,
    frames.ConversationItemInputAudioTranscriptionDelta: transcript_delta,
    frames.ConversationItemInputAudioTranscriptionFailed: transcription_failed,
}
"""Every frame, extensions included → its row."""
