"""The frames of one response: its opening, its deltas, and its end in the one order the API allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from ...protocol import (
    AudioTextMark,
    ContentPart,
    Frame,
    ResponseObject,
    StatusDetails,
    frames,
)
from .. import events
from ..measuring import shown as shown_stages
from ..state import Item, Response, Session
from ..usage import response_usage
from .items import shown_transcript, wire_item


def _numbered(live: Response, kind: str) -> int:
    """The content index of a part: in the order the parts were opened."""
    return live.parts.index(kind) if kind in live.parts else 0


def _started(before: Session, fact: events.ResponseStarted, after: Session, audio: bytes) -> list[Frame]:
    live = after.response
    item = after.item(live.item_id) if live else None
    if live is None or item is None:
        return []
    raw: dict[str, object] = {
        "type": "response.created",
        "session_id": after.id,
        "response_id": live.id,
        "epoch": after.epoch,
        "turn_id": live.turn_id,
        "modalities": list(live.modalities),
    }
    said = {"metadata": fact.metadata, "conversation": fact.conversation, "prompt": fact.prompt}
    raw.update({key: value for key, value in said.items() if value is not None})
    response = ResponseObject(
        id=live.id,
        status="in_progress",
        status_details=None,
        output=[],
        modalities=list(live.modalities),
        metadata={**_metadata(after, live), "duplex_event": raw},
    )
    wire, place = wire_item(item), item.previous_item_id
    made: list[Frame] = [
        frames.ResponseCreated(response_id=live.id, response=response),
        frames.ConversationItemAdded(previous_item_id=place, item=wire),
        frames.ConversationItemCreated(previous_item_id=place, item=wire),
        frames.ResponseOutputItemAdded(response_id=live.id, item=wire),
    ]
    if "audio" in live.parts:
        made.append(_part_added(live, "audio"))
    return made


def _part_added(live: Response, kind: str) -> Frame:
    part = ContentPart(type="audio", transcript="") if kind == "audio" else ContentPart(type="text", text="")
    return frames.ResponseContentPartAdded(
        response_id=live.id, item_id=live.item_id, content_index=_numbered(live, kind), part=part
    )


def _spoken(before: Session, fact: events.ResponseSpoken, after: Session, audio: bytes) -> list[Frame]:
    live = after.response
    if live is None or "audio" not in live.modalities:
        return []
    metadata = frames.OutputMetadata(session_id=after.id, epoch=after.epoch, model_speak=True)
    return [frames.ResponseSpeak(response_id=live.id, item_id=live.item_id, metadata=metadata)]


def _audio(before: Session, fact: events.AudioProduced, after: Session, audio: bytes) -> list[Frame]:
    live = after.response
    item = after.item(live.item_id) if live else None
    if live is None or item is None or live.id != fact.response_id:
        return []
    opened = [] if before.response and "audio" in before.response.parts else [_part_added(live, "audio")]
    # Only the newest mark: the earlier ones were on the deltas before, and a long answer has hundreds.
    marks = [AudioTextMark(text_chars=item.marks[-1][0], audio_end_ms=item.marks[-1][1])] if fact.text else []
    metadata = frames.OutputMetadata(
        session_id=after.id,
        epoch=after.epoch,
        model_speak=True,
        end_of_turn=False,
        audio_duration_ms=item.ledger.generated_ms,
        audio_text_marks=marks,
        playback=item.ledger,
    )
    place: dict[str, Any] = {"response_id": live.id, "item_id": live.item_id, "content_index": _numbered(live, "audio")}
    return [
        *opened,
        frames.ResponseOutputAudioDelta(
            **place,
            delta=audio,
            format=fact.format,
            sample_rate_hz=fact.rate_hz if fact.sent_rate_hz is None else fact.sent_rate_hz,
            metadata=metadata,
        ),
        frames.ResponseOutputAudioTranscriptDelta(**place, delta=fact.text),
    ]


def _text(before: Session, fact: events.TextProduced, after: Session, audio: bytes) -> list[Frame]:
    live = after.response
    if live is None or live.id != fact.response_id:
        return []
    opened = [] if before.response and "text" in before.response.parts else [_part_added(live, "text")]
    delta = frames.ResponseOutputTextDelta(
        response_id=live.id, item_id=live.item_id, content_index=_numbered(live, "text"), delta=fact.text
    )
    return [*opened, delta]


def _listened(before: Session, fact: events.Listened, after: Session, audio: bytes) -> list[Frame]:
    raw: dict[str, object] = {
        "type": "response.listen",
        "session_id": after.id,
        "epoch": after.epoch,
        "reason": fact.reason,
    }
    if fact.reason in ("model_listen", "buffering"):
        raw["model_listen"] = fact.reason == "model_listen"
    if fact.reason == "buffering":
        raw["buffering"] = True
    response = ResponseObject(status="listening", metadata=raw)
    if fact.response_id is None:
        return [frames.ResponseListen(session_id=after.id, epoch=after.epoch, response=response)]
    return [
        frames.ResponseListen(session_id=after.id, epoch=after.epoch, response_id=fact.response_id, response=response)
    ]


def _finished(before: Session, fact: events.ResponseFinished, after: Session, audio: bytes) -> list[Frame]:
    live = before.response
    item = after.item(live.item_id) if live else None
    if live is None or item is None or live.id != fact.response_id:
        return []
    made: list[Frame] = []
    if fact.cleared_output:
        made.append(frames.OutputAudioBufferCleared(response_id=live.id))
    made += _parts_done(after, live, item)
    wire = wire_item(item)
    made += [
        frames.ResponseOutputItemDone(response_id=live.id, item=wire),
        frames.ConversationItemDone(previous_item_id=item.previous_item_id, item=wire),
        frames.ResponseDone(response_id=live.id, response=_ended(after, live, item, fact)),
        frames.RateLimitsUpdated(),
    ]
    if fact.cleared_input:
        made.append(frames.InputAudioBufferCleared())
    return made


def _parts_done(after: Session, live: Response, item: Item) -> list[Frame]:
    place: dict[str, Any] = {"response_id": live.id, "item_id": live.item_id}
    made: list[Frame] = []
    if "audio" in live.parts:
        at = {**place, "content_index": _numbered(live, "audio")}
        if live.samples or item.transcript:
            made.append(frames.ResponseOutputAudioDone(**at))
        if item.transcript:
            made.append(frames.ResponseOutputAudioTranscriptDone(**at, transcript=item.transcript))
        part = ContentPart(type="audio", transcript=shown_transcript(item))
        made.append(frames.ResponseContentPartDone(**at, part=part))
    if "text" in live.parts:
        at = {**place, "content_index": _numbered(live, "text")}
        made.append(frames.ResponseOutputTextDone(**at, text=item.text))
        part = ContentPart(type="text", text=item.text)
        made.append(frames.ResponseContentPartDone(**at, part=part))
    return made


def _ended(after: Session, live: Response, item: Item, fact: events.ResponseFinished) -> ResponseObject:
    raw: dict[str, object] = {
        "type": "response.done",
        "session_id": after.id,
        "response_id": live.id,
        "epoch": after.epoch,
        "committed": fact.remembered,
        "playback": {
            "generated_ms": item.ledger.generated_ms,
            "sent_ms": item.ledger.sent_ms,
            "played_ms": item.ledger.played_ms,
            "committed_ms": item.ledger.committed_ms,
        },
    }
    if live.measured:
        raw["vllm_omni"] = {"stage_metrics": shown_stages(live.measured)}
    details = None
    if fact.status != "completed":
        details = StatusDetails(type=fact.status, reason=fact.reason or fact.status)
    return ResponseObject(
        id=live.id,
        status=fact.status,
        status_details=details,
        output=[wire_item(item)],
        modalities=list(live.modalities),
        usage=response_usage(fact),
        metadata={**_metadata(after, live), **raw},
    )


def _metadata(session: Session, live: Response) -> dict[str, object]:
    """What the session and the client attached to this response; the client's own once more, whole, so that nothing

    the runtime adds can hide it.
    """
    attached = session.settings.extra.get("metadata")
    shared = attached if isinstance(attached, dict) else {}
    if not shared and not live.metadata:
        return {}
    return {**shared, **(live.metadata or {}), "client_metadata": live.metadata or {}}


def _function_called(before: Session, fact: events.FunctionCalled, after: Session, audio: bytes) -> list[Frame]:
    item = after.item(fact.item_id)
    if item is None:
        return []
    wire, place = wire_item(item), item.previous_item_id
    raw: dict[str, object] = {
        "type": "function_call.done",
        "session_id": after.id,
        "response_id": fact.response_id,
        "epoch": after.epoch,
        "call_id": fact.call_id,
    }
    begun = ResponseObject(
        id=fact.response_id, status="in_progress", status_details=None, output=[], metadata={"duplex_event": raw}
    )
    ended = ResponseObject(
        id=fact.response_id,
        status="completed",
        status_details=StatusDetails(type="completed", reason="completed"),
        output=[wire],
        metadata=raw,
    )
    call: dict[str, Any] = {"response_id": fact.response_id, "item_id": item.id, "call_id": fact.call_id}
    return [
        frames.ResponseCreated(response_id=fact.response_id, response=begun),
        frames.ConversationItemAdded(previous_item_id=place, item=wire),
        frames.ConversationItemCreated(previous_item_id=place, item=wire),
        frames.ResponseOutputItemAdded(response_id=fact.response_id, item=wire),
        frames.ResponseFunctionCallArgumentsDelta(**call, delta=fact.arguments),
        frames.ResponseFunctionCallArgumentsDone(**call, name=fact.name, arguments=fact.arguments),
        frames.ResponseOutputItemDone(response_id=fact.response_id, item=wire),
        frames.ConversationItemDone(previous_item_id=place, item=wire),
        frames.ResponseDone(response_id=fact.response_id, response=ended),
        frames.RateLimitsUpdated(),
    ]


def _malformed(before: Session, fact: events.FunctionCallMalformed, after: Session, audio: bytes) -> list[Frame]:
    event: dict[str, object] = {
        "type": "function_call.done",
        "session_id": after.id,
        "epoch": after.epoch,
        "call_id": fact.call_id,
        "name": fact.name,
        "arguments": fact.arguments,
    }
    return [frames.DuplexFunctionCallDone(event=event)]


def _passed_on(before: Session, fact: events.MessagePassedOn, after: Session, audio: bytes) -> list[Frame]:
    response_id = UNSET if fact.response_id is None else fact.response_id
    return [frames.ResponseMessage(response_id=response_id, message=fact.message)]


Rows = Mapping[type[events.Fact], Callable[[Session, Any, Session, bytes], list[Frame]]]

STARTS: Rows = {events.ResponseStarted: _started, events.ResponseSpoken: _spoken}
PRODUCES: Rows = {events.AudioProduced: _audio, events.TextProduced: _text, events.Listened: _listened}
FINISHES: Rows = {
    events.ResponseFinished: _finished,
    events.FunctionCalled: _function_called,
    events.FunctionCallMalformed: _malformed,
    events.MessagePassedOn: _passed_on,
}
