"""The 42 things a client can hear, each named after its wire name, and five extensions."""

from __future__ import annotations

from .conversation import (
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDeleted,
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    ConversationItemInputAudioTranscriptionDelta,
    ConversationItemInputAudioTranscriptionFailed,
    ConversationItemRetrieved,
    ConversationItemTruncated,
)
from .frame import (
    ServerEvent,
    wire_name,
)
from .input import (
    DuplexTurnEvent,
    InputAudioBufferCleared,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    InputCommitted,
    OverlapDecision,
)
from .playback import (
    OutputAudioBufferCleared,
    PlaybackAck,
    PlaybackAcknowledged,
)
from .response import (
    DuplexFunctionCallDone,
    OutputMetadata,
    RateLimitsUpdated,
    ResponseContentPartAdded,
    ResponseContentPartDone,
    ResponseCreated,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseFunctionCallArgumentsDone,
    ResponseListen,
    ResponseMessage,
    ResponseOutputAudioDelta,
    ResponseOutputAudioDone,
    ResponseOutputAudioTranscriptDelta,
    ResponseOutputAudioTranscriptDone,
    ResponseOutputItemAdded,
    ResponseOutputItemDone,
    ResponseOutputTextDelta,
    ResponseOutputTextDone,
    ResponseSpeak,
)
from .session import (
    Error,
    FlatError,
    RuntimeControl,
    SessionClosed,
    SessionCreated,
    SessionDurable,
    SessionExpired,
    SessionGoingAway,
    SessionHeartbeatAck,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
    SessionUpdated,
)

Frame = (
    SessionCreated
    | SessionUpdated
    | SessionHeartbeatAck
    | SessionClosed
    | SessionResumed
    | SessionReplaced
    | SessionExpired
    | SessionResyncRequired
    | InputAudioBufferSpeechStarted
    | InputAudioBufferSpeechStopped
    | InputAudioBufferCommitted
    | InputAudioBufferCleared
    | ConversationItemAdded
    | ConversationItemCreated
    | ConversationItemDone
    | ConversationItemInputAudioTranscriptionCompleted
    | ConversationItemDeleted
    | ConversationItemRetrieved
    | ConversationItemTruncated
    | ResponseCreated
    | ResponseOutputItemAdded
    | ResponseContentPartAdded
    | ResponseSpeak
    | ResponseOutputAudioDelta
    | ResponseOutputAudioTranscriptDelta
    | ResponseOutputTextDelta
    | ResponseOutputTextDone
    | ResponseOutputAudioDone
    | ResponseOutputAudioTranscriptDone
    | ResponseContentPartDone
    | ResponseOutputItemDone
    | ResponseDone
    | RateLimitsUpdated
    | ResponseListen
    | ResponseFunctionCallArgumentsDelta
    | ResponseFunctionCallArgumentsDone
    | DuplexFunctionCallDone
    | OutputAudioBufferCleared
    | PlaybackAcknowledged
    | OverlapDecision
    | RuntimeControl
    | Error
    | DuplexTurnEvent
    | ResponseMessage
    | SessionGoingAway
    | SessionDurable
    | ConversationItemInputAudioTranscriptionDelta
    | ConversationItemInputAudioTranscriptionFailed
)
"""Any frame, extensions included."""

FRAMES: dict[str, type[Frame]] = {
    wire_name(struct): struct
    for struct in (
        SessionCreated,
        SessionUpdated,
        SessionHeartbeatAck,
        SessionClosed,
        SessionResumed,
        SessionReplaced,
        SessionExpired,
        SessionResyncRequired,
        InputAudioBufferSpeechStarted,
        InputAudioBufferSpeechStopped,
        InputAudioBufferCommitted,
        InputAudioBufferCleared,
        ConversationItemAdded,
        ConversationItemCreated,
        ConversationItemDone,
        ConversationItemInputAudioTranscriptionCompleted,
        ConversationItemDeleted,
        ConversationItemRetrieved,
        ConversationItemTruncated,
        ResponseCreated,
        ResponseOutputItemAdded,
        ResponseContentPartAdded,
        ResponseSpeak,
        ResponseOutputAudioDelta,
        ResponseOutputAudioTranscriptDelta,
        ResponseOutputTextDelta,
        ResponseOutputTextDone,
        ResponseOutputAudioDone,
        ResponseOutputAudioTranscriptDone,
        ResponseContentPartDone,
        ResponseOutputItemDone,
        ResponseDone,
        RateLimitsUpdated,
        ResponseListen,
        ResponseFunctionCallArgumentsDelta,
        ResponseFunctionCallArgumentsDone,
        DuplexFunctionCallDone,
        OutputAudioBufferCleared,
        PlaybackAcknowledged,
        OverlapDecision,
        RuntimeControl,
        Error,
    )
}
"""Wire name → frame, in the order of the catalogue: exactly the published ones."""

EXTENSIONS: dict[str, type[Frame]] = {
    wire_name(struct): struct
    for struct in (
        DuplexTurnEvent,
        ResponseMessage,
        SessionGoingAway,
        SessionDurable,
        ConversationItemInputAudioTranscriptionDelta,
        ConversationItemInputAudioTranscriptionFailed,
    )
}
"""Wire name → frame, for those the published catalogue does not have."""

__all__ = [
    "EXTENSIONS",
    "FRAMES",
    "ConversationItemAdded",
    "ConversationItemCreated",
    "ConversationItemDeleted",
    "ConversationItemDone",
    "ConversationItemInputAudioTranscriptionCompleted",
    "ConversationItemInputAudioTranscriptionDelta",
    "ConversationItemInputAudioTranscriptionFailed",
    "ConversationItemRetrieved",
    "ConversationItemTruncated",
    "DuplexFunctionCallDone",
    "DuplexTurnEvent",
    "Error",
    "FlatError",
    "Frame",
    "InputAudioBufferCleared",
    "InputAudioBufferCommitted",
    "InputAudioBufferSpeechStarted",
    "InputAudioBufferSpeechStopped",
    "InputCommitted",
    "OutputAudioBufferCleared",
    "OutputMetadata",
    "OverlapDecision",
    "PlaybackAck",
    "PlaybackAcknowledged",
    "RateLimitsUpdated",
    "ResponseContentPartAdded",
    "ResponseContentPartDone",
    "ResponseCreated",
    "ResponseDone",
    "ResponseFunctionCallArgumentsDelta",
    "ResponseFunctionCallArgumentsDone",
    "ResponseListen",
    "ResponseMessage",
    "ResponseOutputAudioDelta",
    "ResponseOutputAudioDone",
    "ResponseOutputAudioTranscriptDelta",
    "ResponseOutputAudioTranscriptDone",
    "ResponseOutputItemAdded",
    "ResponseOutputItemDone",
    "ResponseOutputTextDelta",
    "ResponseOutputTextDone",
    "ResponseSpeak",
    "RuntimeControl",
    "ServerEvent",
    "SessionClosed",
    "SessionCreated",
    "SessionDurable",
    "SessionExpired",
    "SessionGoingAway",
    "SessionHeartbeatAck",
    "SessionReplaced",
    "SessionResumed",
    "SessionResyncRequired",
    "SessionUpdated",
    "wire_name",
]
