"""The client of the Realtime duplex API. Needs only msgspec, pybase64 and websockets; servers never import it."""

from .audio import AudioFormat, read_pcm16_wav, write_pcm16_wav
from .config import SessionConfig
from .errors import DuplexClientError, DuplexConnectionError, DuplexProtocolError, DuplexSessionClosedError
from .events import (
    AudioDelta,
    ConnectionResumed,
    DuplexEvent,
    ErrorEvent,
    ListenDecision,
    ResponseCreated,
    ResponseDone,
    SessionClosed,
    SessionCreated,
    SessionEnded,
    SessionExpired,
    SessionReplaced,
    SessionResumed,
    SpeakDecision,
    TextDelta,
    TranscriptDelta,
)
from .reconnect import ReconnectPolicy
from .responses import ResponseHandle, ResponseStream
from .session import DuplexClient

__all__ = [
    "AudioDelta",
    "AudioFormat",
    "ConnectionResumed",
    "DuplexClient",
    "DuplexClientError",
    "DuplexConnectionError",
    "DuplexEvent",
    "DuplexProtocolError",
    "DuplexSessionClosedError",
    "ErrorEvent",
    "ListenDecision",
    "ReconnectPolicy",
    "ResponseCreated",
    "ResponseDone",
    "ResponseHandle",
    "ResponseStream",
    "SessionClosed",
    "SessionConfig",
    "SessionCreated",
    "SessionEnded",
    "SessionExpired",
    "SessionReplaced",
    "SessionResumed",
    "SpeakDecision",
    "TextDelta",
    "TranscriptDelta",
    "read_pcm16_wav",
    "write_pcm16_wav",
]
