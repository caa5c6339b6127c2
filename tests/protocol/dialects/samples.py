"""Frames to project: one of every kind, as a session makes them, and those of a whole call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from duplex_es import model
from duplex_es.model import ModelInfo
from duplex_es.protocol import (
    EXTENSIONS,
    FRAMES,
    AppendAudio,
    AudioTextMark,
    CancelResponse,
    Capabilities,
    CommitInput,
    ContentPart,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Error,
    ErrorBody,
    FlatError,
    Frame,
    Item,
    OpenSession,
    PlaybackLedger,
    ResponseObject,
    RetrieveItem,
    StatusDetails,
    TruncateItem,
    decode_frame,
    frames,
    wire_name,
)
from duplex_es.session.inputs import AudioArrived, OpenAs
from duplex_es.session.projection.session_object import session_object
from duplex_es.session.state import Session
from duplex_es.session.step import step

FIXTURES = Path(__file__).parents[1] / "fixtures" / "seed_examples.json"

RESPONSE_ID, ITEM_ID, USER_ID = "resp_01", "item_resp_01", "item_9b2d"
PCM = bytes(range(250)) * 2
LEDGER = PlaybackLedger(generated_ms=2400, sent_ms=2400, played_ms=1000, committed_ms=1000)
SAID = "It is sunny, 24 degrees."
PLACE: dict[str, Any] = {"response_id": RESPONSE_ID, "item_id": ITEM_ID}
CALL: dict[str, Any] = {"response_id": "resp_02", "item_id": "item_resp_02", "call_id": "call_7d1f"}

PUBLIC_SESSION: dict[str, Any] = {
    "id": "sess_demo_01",
    "object": "realtime.session",
    "type": "realtime",
    "model": "cascade",
    "state": "open",
    "turn_state": "idle",
    "epoch": 0,
    "turn_id": 0,
    "active_request_id": None,
    "active_response_id": None,
    "active_response_turn_id": None,
    "modalities": ["text", "audio"],
    "output_modalities": ["text", "audio"],
    "instructions": None,
    "voice": None,
    "response_format": "pcm16",
    "input_audio_format": "pcm16",
    "output_audio_format": "pcm16",
    "audio": {
        "input": {"format": {"type": "audio/pcm", "rate": 24000}, "sample_rate_hz": 24000},
        "output": {"format": {"type": "audio/pcm", "rate": 24000}},
    },
    "temperature": None,
    "max_tokens": None,
    "speed": None,
    "idle_timeout_s": 300.0,
    "overlap_policy": "barge_in_on_speech",
    "overlap_short_ack_ms": 700,
    "overlap_barge_in_ms": 1200,
    "overlap_silence_rms": 0.003,
    "playback_commit_policy": "commit_all_on_done",
    "turn_detection": {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "create_response": True,
        "interrupt_response": True,
        "min_speech_duration_ms": 96.0,
    },
    "input_audio_transcription": None,
    "tracing": None,
    "playback": {"generated_ms": 0, "sent_ms": 0, "played_ms": 0, "committed_ms": 0},
    "capabilities": msgspec.to_builtins(Capabilities(supports_barge_in=True)),
    "tools": [],
    "extra_body": {"auto_response": True},
}


def answer(status: str = "completed", item_id: str = ITEM_ID) -> Item:
    """The assistant's message, with everything the session knows of its sound."""
    marks = [AudioTextMark(text_chars=11, audio_end_ms=1000)]
    part = ContentPart(type="output_audio", transcript=SAID, audio_duration_ms=2400, audio_text_marks=marks)
    return Item(id=item_id, object="realtime.item", type="message", role="assistant", status=status, content=[part])


def question() -> Item:
    """The caller's message, spoken."""
    part = ContentPart(type="input_audio", transcript="what is the weather today", is_speech=True)
    return Item(id=USER_ID, object="realtime.item", type="message", role="user", status="completed", content=[part])


def call() -> Item:
    """A call the model made, as the session tells it: complete at once."""
    return Item(
        id="item_resp_02",
        object="realtime.item",
        type="function_call",
        status="completed",
        name="get_weather",
        call_id="call_7d1f",
        arguments='{"city":"Hong Kong"}',
    )


def created(**metadata: object) -> frames.ResponseCreated:
    """A response begins; ``metadata`` is the client's."""
    raw = {"type": "response.created", "session_id": "s", "response_id": RESPONSE_ID, "epoch": 0, "turn_id": 0}
    response = ResponseObject(
        id=RESPONSE_ID,
        status="in_progress",
        status_details=None,
        output=[],
        modalities=["text", "audio"],
        metadata={**metadata, "duplex_event": raw},
    )
    return frames.ResponseCreated(response_id=RESPONSE_ID, response=response)


def done(status: str = "completed", reason: str | None = None, **metadata: object) -> frames.ResponseDone:
    """A response ends; ``metadata`` is the client's."""
    raw = {
        "type": "response.done",
        "session_id": "s",
        "response_id": RESPONSE_ID,
        "epoch": 0,
        "committed": True,
        "playback": msgspec.to_builtins(LEDGER),
    }
    response = ResponseObject(
        id=RESPONSE_ID,
        status=status,
        status_details=None if reason is None else StatusDetails(type=status, reason=reason),
        output=[answer(status)],
        modalities=["text", "audio"],
        metadata={**metadata, **raw},
    )
    return frames.ResponseDone(response_id=RESPONSE_ID, response=response)


def listened() -> frames.ResponseListen:
    """The model chose to listen, which ended an announced response."""
    raw = {"type": "response.listen", "session_id": "s", "epoch": 0, "reason": "model_listen"}
    response = ResponseObject(status="listening", metadata=raw)
    return frames.ResponseListen(session_id="s", epoch=0, response_id=RESPONSE_ID, response=response)


def delta(sound: bytes = PCM) -> frames.ResponseOutputAudioDelta:
    """A piece of speech."""
    metadata = frames.OutputMetadata(session_id="s", epoch=0, model_speak=True, audio_duration_ms=10, playback=LEDGER)
    return frames.ResponseOutputAudioDelta(
        **PLACE, delta=sound, format="pcm16", sample_rate_hz=24000, metadata=metadata
    )


def error(code: str, message: str = "No.", **fields: Any) -> Error:
    """An error with this code."""
    return Error(error=ErrorBody(type="invalid_request_error", code=code, message=message, **fields))


def _committed() -> frames.InputAudioBufferCommitted:
    event = frames.InputCommitted(session_id="s", turn_id=0, epoch=0, history_len=1, realtime_item_id=USER_ID)
    return frames.InputAudioBufferCommitted(previous_item_id=None, item_id=USER_ID, event=event)


def _acknowledged() -> frames.PlaybackAcknowledged:
    event = frames.PlaybackAck(
        session_id="s", epoch=0, item_id=ITEM_ID, played_ms=1000, committed_ms=1000, playback=LEDGER
    )
    return frames.PlaybackAcknowledged(event=event)


EVERY: tuple[Frame, ...] = (
    frames.SessionCreated(session=PUBLIC_SESSION, incarnation=0, attachment_generation=1, resume_token="rt_1"),
    frames.SessionUpdated(session=PUBLIC_SESSION),
    frames.SessionHeartbeatAck(session_id="s"),
    frames.SessionClosed(session_id="s", reason="timeout"),
    frames.SessionResumed(session_id="s", incarnation=0, attachment_generation=2, resume_token="rt_2"),
    frames.SessionReplaced(session_id="s", attachment_generation=1),
    frames.SessionExpired(session_id="s", incarnation=0, reason="disconnect_grace_expired"),
    frames.SessionResyncRequired(session_id="s", reason="journal_gap"),
    frames.InputAudioBufferSpeechStarted(audio_start_ms=1040, item_id=USER_ID),
    frames.InputAudioBufferSpeechStopped(audio_end_ms=2860, item_id=USER_ID),
    _committed(),
    frames.InputAudioBufferCleared(),
    frames.ConversationItemAdded(previous_item_id=None, item=question()),
    frames.ConversationItemCreated(previous_item_id=None, item=question()),
    frames.ConversationItemDone(previous_item_id=None, item=question()),
    frames.ConversationItemInputAudioTranscriptionCompleted(item_id=USER_ID, transcript="what is the weather today"),
    frames.ConversationItemDeleted(item_id=USER_ID, event={"type": "conversation.item.deleted", "item_id": USER_ID}),
    frames.ConversationItemRetrieved(item=answer()),
    frames.ConversationItemTruncated(item_id=ITEM_ID, audio_end_ms=1850),
    created(),
    frames.ResponseOutputItemAdded(response_id=RESPONSE_ID, item=answer("in_progress")),
    frames.ResponseContentPartAdded(**PLACE, part=ContentPart(type="audio", transcript="")),
    frames.ResponseSpeak(**PLACE),
    delta(),
    frames.ResponseOutputAudioTranscriptDelta(**PLACE, delta="It is sunny"),
    frames.ResponseOutputTextDelta(**PLACE, delta="Tomorrow looks"),
    frames.ResponseOutputTextDone(**PLACE, text="Tomorrow looks cloudy."),
    frames.ResponseOutputAudioDone(**PLACE),
    frames.ResponseOutputAudioTranscriptDone(**PLACE, transcript=SAID),
    frames.ResponseContentPartDone(**PLACE, part=ContentPart(type="audio", transcript=SAID)),
    frames.ResponseOutputItemDone(response_id=RESPONSE_ID, item=answer()),
    done(),
    frames.RateLimitsUpdated(),
    listened(),
    frames.ResponseFunctionCallArgumentsDelta(**CALL, delta='{"city":"Hong Kong"}'),
    frames.ResponseFunctionCallArgumentsDone(**CALL, name="get_weather", arguments='{"city":"Hong Kong"}'),
    frames.DuplexFunctionCallDone(event={"type": "function_call.done", "call_id": None, "arguments": "{"}),
    frames.OutputAudioBufferCleared(response_id=RESPONSE_ID),
    _acknowledged(),
    frames.OverlapDecision(session_id="s", epoch=0, policy="listen_only", action="listen", reason="long"),
    frames.RuntimeControl(session_id="s", epoch=1, result={"outcome": "partial"}),
    error("bad_event", param="item.type", event_id="evt_1"),
    frames.DuplexTurnEvent(event={"type": "turn.event", "event": "user_started"}),
    frames.ResponseMessage(response_id=RESPONSE_ID, message={"role": "assistant"}),
    frames.SessionGoingAway(session_id="s", reason="gateway_stopping", grace_ms=1000),
    frames.SessionDurable(session_id="s", durable_seq=7),
    frames.ConversationItemInputAudioTranscriptionDelta(item_id=USER_ID, delta="what is "),
    frames.ConversationItemInputAudioTranscriptionFailed(
        item_id=USER_ID, error=ErrorBody(type="server_error", code="runtime_append_failed", message="Out of memory.")
    ),
)
"""One frame of every kind, extensions last."""

assert [wire_name(frame) for frame in EVERY] == [*FRAMES, *EXTENSIONS]


def published() -> list[Frame]:
    """The published examples of everything a server says; an error in the handshake's shape is no frame."""
    rows = [row["event"] for row in json.loads(FIXTURES.read_text()) if row["direction"] == "server"]
    read = [decode_frame(json.dumps(row)) for row in rows]
    return [frame for frame in read if not isinstance(frame, FlatError)]


INFO = ModelInfo(
    name="stand-in",
    capabilities=Capabilities(supports_barge_in=True, supports_audio_truncate=True),
    transcribes=True,
    takes_text_turns=True,
    takes_response_options=True,
    auto_response=True,
)


class Call:
    """A session that is spoken to; ``heard`` is everything it said."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.session = Session()
        self.heard: list[Frame] = []
        opening = OpenSession(session=settings)
        self.take(OpenAs(command=opening, session_id="s", incarnation=0, model="stand-in", info=INFO))
        self.heard.insert(0, frames.SessionCreated(session=session_object(self.session)))

    def take(self, *inputs: Any) -> Call:
        """Decide on these, one after the other."""
        for said in inputs:
            decision = step(self.session, said, 0)
            self.session = decision.session
            self.heard.extend(decision.frames)
        return self

    @property
    def last_item_id(self) -> str:
        """The id of the newest item."""
        return self.session.items[-1].id


def whole_call(settings: dict[str, Any]) -> list[Frame]:
    """What a session says that is opened with ``settings``: spoken turns, an interruption, a tool, items, mistakes."""
    call = Call(settings)
    call.take(AudioArrived(command=AppendAudio(audio=b"\x00\x20" * 4800), rms=0.2), CommitInput())
    call.take(
        model.ModelHeardTurn(epoch=0, transcript="what is the weather", item_id=call.last_item_id),
        model.ModelSpoke(epoch=0, turn=1),
        model.ModelProducedAudio(epoch=0, turn=1, pcm=b"\x00\x10" * 24000, text="It is sunny, "),
        model.ModelProducedAudio(epoch=0, turn=1, pcm=b"\x00\x10" * 24000, text="24 degrees."),
        model.ModelFinished(epoch=0, turn=1, input_tokens=12, output_tokens=30),
    )
    spoken = call.last_item_id
    call.take(
        RetrieveItem(item_id=spoken),
        TruncateItem(item_id=spoken, content_index=0, audio_end_ms=700),
        RetrieveItem(item_id="item_nowhere", event_id="rci_item_nowhere"),
        CancelResponse(event_id="evt_cancel"),
        CommitInput(event_id="evt_commit"),
        CreateItem(
            item=Item(id="client_1", type="message", role="user", content=[ContentPart(type="input_text", text="Hi")]),
            previous_item_id="root",
        ),
        CreateResponse(response={"metadata": {"trace": "turn-3"}, "output_modalities": ["audio"]}),
        CreateResponse(event_id="evt_again"),
        model.ModelSpoke(epoch=0, turn=2),
        model.ModelProducedAudio(epoch=0, turn=2, pcm=b"\x00\x10" * 4800, text="Hello"),
        model.ModelInterrupted(epoch=0, turn=2, reason="barge_in"),
        model.ModelCalledFunction(epoch=1, turn=3, call_id="call_1", name="get_weather", arguments='{"city":"Ulm"}'),
        CreateItem(item=Item(type="function_call_output", call_id="call_1", output='{"c": 24}')),
        CreateResponse(response={"output_modalities": ["text"]}),
        model.ModelSpoke(epoch=1, turn=4),
        model.ModelProducedText(epoch=1, turn=4, text="24 degrees"),
        model.ModelFailed(epoch=1, code="response_error", message="No more."),
        DeleteItem(item_id="client_1"),
    )
    return call.heard
