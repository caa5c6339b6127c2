"""The client of the Realtime duplex API. Needs only msgspec, pybase64 and websockets; servers never import it.

``DuplexClient`` is the door, ``SyncDuplexClient`` the same without ``await``. Presets for published models are in
``duplex_es.client.presets``, microphone and speaker in ``duplex_es.client.devices``.
"""

from .audio import (
    PCM16_BYTES_PER_SAMPLE,
    PCM16_SAMPLE_RATE,
    AudioFormat,
    audio_data_url,
    image_data_url,
    read_pcm16_wav,
    reference_audio_data_url,
    write_pcm16_wav,
)
from .blocking import SyncDuplexClient, SyncResponse
from .collector import EventCollector, acknowledge_collected_playback, wait_for_condition
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
    SessionUpdated,
    SpeakDecision,
    TextDelta,
    TranscriptDelta,
    UploadProgress,
)
from .figures import distribution_summary, metric_mean, summarize_session_request_metrics
from .reconnect import ReconnectPolicy
from .responses import ResponseHandle, ResponseStream
from .session import DuplexClient
from .transport import build_realtime_url
from .units import (
    DUPLEX_FIRST_UNIT_MS,
    DUPLEX_UNIT_MS,
    chunk_period_ms,
    duplex_unit_boundary_ms,
    has_residual_model_unit,
)

__all__ = [
    "DUPLEX_FIRST_UNIT_MS",
    "DUPLEX_UNIT_MS",
    "PCM16_BYTES_PER_SAMPLE",
    "PCM16_SAMPLE_RATE",
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
    "EventCollector",
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
    "SessionUpdated",
    "SpeakDecision",
    "SyncDuplexClient",
    "SyncResponse",
    "TextDelta",
    "TranscriptDelta",
    "UploadProgress",
    "acknowledge_collected_playback",
    "audio_data_url",
    "build_realtime_url",
    "chunk_period_ms",
    "distribution_summary",
    "duplex_unit_boundary_ms",
    "has_residual_model_unit",
    "image_data_url",
    "metric_mean",
    "read_pcm16_wav",
    "reference_audio_data_url",
    "summarize_session_request_metrics",
    "wait_for_condition",
    "write_pcm16_wav",
]
