"""Facts to frames of the Realtime Duplex API, in the order the API promises.

``project`` is pure: the frames of a recorded fact can be made again at any time and come out the same.
Source: docs/reference/realtime-api.md, "Message examples" and the ordering table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from ...protocol import ERRORS, ErrorBody, Frame, Usage, frames
from .. import events
from ..state import Item, Session
from .answers import FINISHES, PRODUCES, STARTS
from .items import wire_item
from .session_object import session_object

Projector = Callable[[Session, Any, Session, bytes], list[Frame]]
"""State before, fact, state after, the audio beside it → frames."""


def project(before: Session, fact: events.Fact, after: Session, audio: bytes = b"") -> list[Frame]:
    """The frames a client hears of ``fact``; none for a fact that only the session needs."""
    projector = PROJECTORS.get(type(fact))
    return projector(before, fact, after, audio) if projector else []


def error_frame(code: str, message: str, param: str | None, event_id: str | None) -> frames.Error:
    """An ``error`` frame; absent fields are left out, not null. A code that is not in the table is ``duplex_error``."""
    known = ERRORS.get(code, ERRORS["duplex_error"])
    details: dict[str, Any] = {
        key: value for key, value in (("param", param), ("event_id", event_id)) if value is not None
    }
    return frames.Error(error=ErrorBody(type=known.type, code=known.code, message=message, **details))


# -- session -------------------------------------------------------------------------------------------------------


def _opened(before: Session, fact: events.SessionOpened, after: Session, audio: bytes) -> list[Frame]:
    return [frames.SessionUpdated(session=session_object(after))] if fact.updated else []


def _reconfigured(before: Session, fact: events.SessionReconfigured, after: Session, audio: bytes) -> list[Frame]:
    return [frames.SessionUpdated(session=session_object(after))]


def _rejected(before: Session, fact: events.CommandRejected, after: Session, audio: bytes) -> list[Frame]:
    return [error_frame(fact.code, fact.message, fact.param, fact.event_id)]


def _heartbeat(before: Session, fact: events.HeartbeatAnswered, after: Session, audio: bytes) -> list[Frame]:
    return [frames.SessionHeartbeatAck(session_id=after.id)]


def _closed(before: Session, fact: events.SessionClosed, after: Session, audio: bytes) -> list[Frame]:
    event: dict[str, object] = {"type": "session.closed", "session_id": after.id, "reason": fact.reason}
    if fact.usage is not None:
        event["usage"] = fact.usage
    return [frames.SessionClosed(session_id=after.id, reason=fact.reason, event=event)]


def _skipped(before: Session, fact: events.InputSkipped, after: Session, audio: bytes) -> list[Frame]:
    result = {"input_dropped_ms": fact.duration_ms, "reason": "model_behind"}
    return [frames.RuntimeControl(session_id=after.id, epoch=after.epoch, result=result)]


def _expired(before: Session, fact: events.SessionExpired, after: Session, audio: bytes) -> list[Frame]:
    return [frames.SessionExpired(session_id=after.id, incarnation=after.incarnation, reason=fact.reason)]


def _expiring(before: Session, fact: events.ExpiryAnnounced, after: Session, audio: bytes) -> list[Frame]:
    return [frames.SessionGoingAway(session_id=after.id, reason="max_session_duration", grace_ms=fact.grace_ms)]


# -- input ---------------------------------------------------------------------------------------------------------


def _speech_started(before: Session, fact: events.SpeechStarted, after: Session, audio: bytes) -> list[Frame]:
    return [frames.InputAudioBufferSpeechStarted(audio_start_ms=fact.start_ms, item_id=fact.item_id)]


def _speech_stopped(before: Session, fact: events.SpeechStopped, after: Session, audio: bytes) -> list[Frame]:
    return [frames.InputAudioBufferSpeechStopped(audio_end_ms=fact.end_ms, item_id=fact.item_id)]


def _message(after: Session, fact: events.InputCommitted) -> dict[str, object]:
    """A committed turn as the runtime names it; the audio itself is a reference."""
    content: list[dict[str, object]] = [{"type": "text", "text": fact.text}] if fact.text else []
    if fact.has_audio:
        lane = "chat" if after.is_chat_lane else "native-duplex"
        content.append({"type": "audio_url", "audio_url": {"url": f"{lane}:input-audio"}})
    return {"role": "user", "content": content}


def _committed(before: Session, fact: events.InputCommitted, after: Session, audio: bytes) -> list[Frame]:
    item = after.item(fact.item_id)
    if item is None:
        return []
    event = frames.InputCommitted(
        session_id=after.id,
        turn_id=fact.turn_id,
        epoch=after.epoch,
        history_len=after.history_len,
        message=_message(after, fact),
        native_audio=UNSET if after.is_chat_lane else True,
        transcript=item.transcript or UNSET,
        realtime_item_id=item.id,
        item_id=item.id,
        overlap_deferred=fact.overlap_deferred or UNSET,
        response_create_deferred=fact.deferred or UNSET,
    )
    place = item.previous_item_id
    made = _announced(item)
    made.append(frames.InputAudioBufferCommitted(previous_item_id=place, item_id=item.id, event=event))
    return made if item.transcribing else [*made, *_transcribed_item(after, item)]


def _announced(item: Item) -> list[Frame]:
    """The item enters the conversation, under both names."""
    wire, place = wire_item(item), item.previous_item_id
    return [
        frames.ConversationItemAdded(previous_item_id=place, item=wire),
        frames.ConversationItemCreated(previous_item_id=place, item=wire),
    ]


def _silence(before: Session, fact: events.SilenceCommitted, after: Session, audio: bytes) -> list[Frame]:
    """A commit without an item; it names the one it would have become."""
    if fact.item_id is None:
        return []
    event = frames.InputCommitted(
        session_id=after.id,
        turn_id=after.turn_id,
        epoch=after.epoch,
        history_len=after.history_len,
        realtime_item_id=fact.item_id,
        item_id=fact.item_id,
        empty=True,
        is_speech=False,
        no_response=True,
        overlap_ack=fact.overlap_ack or UNSET,
    )
    return [frames.InputAudioBufferCommitted(previous_item_id=after.last_item_id, item_id=fact.item_id, event=event)]


def _overlap(before: Session, fact: events.OverlapDecided, after: Session, audio: bytes) -> list[Frame]:
    """The details twice: at the top under the names of the API, and as the runtime names them."""
    known = {
        "buffer_audio": fact.buffer_audio,
        "defer_runtime_append": fact.defer_runtime_append,
        "force_listen": fact.force_listen,
        "cancel_reason": fact.cancel_reason,
        "preserve_realtime_input": fact.preserve_realtime_input,
    }
    details: dict[str, Any] = {key: value for key, value in known.items() if value is not None}
    metadata: dict[str, object] = {"overlap_speech_ms": fact.overlap_ms, **details}
    if fact.duration_ms is not None:
        metadata["duration_ms"] = fact.duration_ms
    return [
        frames.OverlapDecision(
            session_id=after.id,
            epoch=before.epoch,
            policy=fact.policy,
            action=fact.action,
            reason=fact.reason,
            overlap_ms=fact.overlap_ms,
            metadata=metadata,
            **details,
        )
    ]


def _transcribed_item(after: Session, item: Item) -> list[Frame]:
    made: list[Frame] = []
    if item.transcript:
        usage = Usage(type="duration", seconds=item.audio_ms / 1000) if item.audio_ms else UNSET
        made.append(
            frames.ConversationItemInputAudioTranscriptionCompleted(
                item_id=item.id, content_index=_sound_index(item), transcript=item.transcript, usage=usage
            )
        )
    return [*made, frames.ConversationItemDone(previous_item_id=item.previous_item_id, item=wire_item(item))]


def _transcribed(before: Session, fact: events.InputTranscribed, after: Session, audio: bytes) -> list[Frame]:
    item = after.item(fact.item_id)
    if item is None:
        return []
    made = _transcribed_item(after, item)
    if fact.failed is None:
        return made
    error = ErrorBody(type="server_error", code="runtime_append_failed", message=fact.failed)
    failed = frames.ConversationItemInputAudioTranscriptionFailed(
        item_id=item.id, content_index=_sound_index(item), error=error
    )
    return [failed, *made]


def _sound_index(item: Item) -> int:
    """The place of the sound among the parts of an item: after what was typed."""
    return 1 if item.text else 0


def _grown(before: Session, fact: events.TranscriptGrown, after: Session, audio: bytes) -> list[Frame]:
    item = after.item(fact.item_id)
    if item is None:
        return []
    return [
        frames.ConversationItemInputAudioTranscriptionDelta(
            item_id=item.id, content_index=_sound_index(item), delta=fact.text
        )
    ]


def _repeated(before: Session, fact: events.CommitRepeated, after: Session, audio: bytes) -> list[Frame]:
    item = after.item(fact.item_id)
    event = frames.InputCommitted(
        session_id=after.id,
        turn_id=after.turn_id,
        epoch=after.epoch,
        history_len=after.history_len,
        realtime_item_id=fact.item_id,
        item_id=fact.item_id,
        empty=True,
        no_response=True,
    )
    place = item.previous_item_id if item is not None else None
    return [frames.InputAudioBufferCommitted(previous_item_id=place, item_id=fact.item_id, event=event)]


def _input_cleared(before: Session, fact: events.Fact, after: Session, audio: bytes) -> list[Frame]:
    return [frames.InputAudioBufferCleared()]


def _epoch(before: Session, fact: events.EpochAdvanced, after: Session, audio: bytes) -> list[Frame]:
    return [frames.InputAudioBufferCleared()] if fact.cleared_input else []


def _output_cleared(before: Session, fact: events.OutputCleared, after: Session, audio: bytes) -> list[Frame]:
    if fact.response_id is None:
        return [frames.OutputAudioBufferCleared()]
    return [frames.OutputAudioBufferCleared(response_id=fact.response_id)]


def _signalled(before: Session, fact: events.TurnSignalled, after: Session, audio: bytes) -> list[Frame]:
    event: dict[str, object] = {
        "type": "turn.event",
        "session_id": after.id,
        "event": fact.event,
        "turn_state": after.turn_state,
        "epoch": after.epoch,
    }
    return [frames.DuplexTurnEvent(event=event)]


# -- playback and conversation -------------------------------------------------------------------------------------


def _acknowledged(before: Session, fact: events.PlaybackAcknowledged, after: Session, audio: bytes) -> list[Frame]:
    return [
        frames.PlaybackAcknowledged(
            event=frames.PlaybackAck(
                session_id=after.id,
                epoch=after.epoch,
                item_id=fact.item_id,
                played_ms=fact.played_ms,
                committed_ms=fact.committed_ms,
                truncate=fact.truncate,
                playback=fact.ledger,
                history_committed=fact.history_committed,
            )
        )
    ]


def _item_created(before: Session, fact: events.ItemCreated, after: Session, audio: bytes) -> list[Frame]:
    wire, place = wire_item(fact.item), fact.item.previous_item_id
    event: dict[str, object] = {
        "type": "conversation.item.create",
        "previous_item_id": place,
        "item": {"id": fact.item.id, "type": fact.item.type},
    }
    return [
        frames.ConversationItemAdded(previous_item_id=place, item=wire, event=event),
        frames.ConversationItemCreated(previous_item_id=place, item=wire, event=event),
        frames.ConversationItemDone(previous_item_id=place, item=wire, event=event),
    ]


def _item_retrieved(before: Session, fact: events.ItemRetrieved, after: Session, audio: bytes) -> list[Frame]:
    return [frames.ConversationItemRetrieved(item=wire_item(fact.item))]


def _item_deleted(before: Session, fact: events.ItemDeleted, after: Session, audio: bytes) -> list[Frame]:
    event: dict[str, object] = {"type": "conversation.item.deleted", "item_id": fact.item_id, "deleted": True}
    return [frames.ConversationItemDeleted(item_id=fact.item_id, event=event)]


def _item_truncated(before: Session, fact: events.ItemTruncated, after: Session, audio: bytes) -> list[Frame]:
    event: dict[str, object] = {
        "type": "conversation.item.truncated",
        "item_id": fact.item_id,
        "content_index": fact.content_index,
        "audio_end_ms": fact.audio_end_ms,
        "truncated": True,
    }
    acknowledgement = events.PlaybackAcknowledged(
        item_id=fact.item_id,
        ledger=fact.ledger,
        played_ms=fact.ledger.played_ms,
        committed_ms=fact.audio_end_ms,
        truncate=True,
        history_committed=True,
    )
    return [
        frames.ConversationItemTruncated(
            item_id=fact.item_id,
            content_index=fact.content_index,
            audio_end_ms=fact.audio_end_ms,
            event=event,
        ),
        *_acknowledged(before, acknowledgement, after, audio),
    ]


PROJECTORS: Mapping[type[events.Fact], Projector] = {
    events.SessionOpened: _opened,
    events.SessionReconfigured: _reconfigured,
    events.CommandRejected: _rejected,
    events.HeartbeatAnswered: _heartbeat,
    events.SessionClosed: _closed,
    events.InputSkipped: _skipped,
    events.SessionExpired: _expired,
    events.ExpiryAnnounced: _expiring,
    events.SpeechStarted: _speech_started,
    events.SpeechStopped: _speech_stopped,
    events.InputCommitted: _committed,
    events.InputTranscribed: _transcribed,
    events.TranscriptGrown: _grown,
    events.CommitRepeated: _repeated,
    events.SilenceCommitted: _silence,
    events.OverlapDecided: _overlap,
    events.InputCleared: _input_cleared,
    events.EpochAdvanced: _epoch,
    events.OutputCleared: _output_cleared,
    events.TurnSignalled: _signalled,
    events.PlaybackAcknowledged: _acknowledged,
    events.ItemCreated: _item_created,
    events.ItemRetrieved: _item_retrieved,
    events.ItemDeleted: _item_deleted,
    events.ItemTruncated: _item_truncated,
    **STARTS,
    **PRODUCES,
    **FINISHES,
}
"""Which fact is heard as what. A fact without a row is silent."""
