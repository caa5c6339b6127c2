"""The error vocabulary of the wire: one table, and the exception that can only carry a code from it.

Clients branch on ``code``; ``type`` is the class stock clients know. A code that is not in ``ERRORS`` cannot be said.
"""

from __future__ import annotations

from typing import Literal

import msgspec

ErrorType = Literal["invalid_request_error", "server_error", "rate_limit_error"]
Fault = Literal["client", "server", "capacity"]


class ErrorCode(msgspec.Struct, frozen=True):
    """What a code means for the one who gets it.

    ``fault`` says whose it was, ``retryable`` that the very same request may succeed later. ``closes``: the
    connection ends with it at any time; ``closes_in_handshake``: it ends when the session is not open yet.
    """

    code: str
    type: ErrorType
    fault: Fault
    retryable: bool
    closes: bool
    closes_in_handshake: bool


def _client(codes: str, *, retryable: bool = False, closes: bool = False, handshake: bool = False) -> list[ErrorCode]:
    return [
        ErrorCode(code, "invalid_request_error", "client", retryable, closes, closes or handshake)
        for code in codes.split()
    ]


def _server(codes: str, *, retryable: bool = False, closes: bool = False, handshake: bool = False) -> list[ErrorCode]:
    return [ErrorCode(code, "server_error", "server", retryable, closes, closes or handshake) for code in codes.split()]


def _capacity(codes: str, *, closes: bool = False) -> list[ErrorCode]:
    return [ErrorCode(code, "rate_limit_error", "capacity", True, closes, closes) for code in codes.split()]


_ROWS = [
    # Frames and the handshake.
    *_client("bad_event invalid_json", handshake=True),
    *_client("bad_audio event_too_large unknown_event invalid_video_frames"),
    *_client("config_timeout unsupported realtime_input_failed", closes=True),
    # Settings. What the syntax check of an opening update refuses may be sent again on the same socket.
    *_client("unsupported_turn_detection unsupported_audio_format"),
    *_client("server_vad_requires_native_duplex invalid_duplex_runtime_config invalid_request_error", handshake=True),
    *_client("unsupported_ref_audio_path ref_audio_required unsupported_nemotron_duplex_mode", handshake=True),
    *_client("model_update_unsupported voice_update_after_audio_unsupported ref_audio_update_unsupported"),
    *_client("native_duplex_mode_update_unsupported instructions_update_unsupported session_update_aborted"),
    # Input, responses, items, playback.
    *_client("server_vad_manual_commit_unsupported native_text_append_unsupported input_audio_buffer_empty"),
    *_client("response_already_active", retryable=True),
    *_client("response_not_active response_create_without_input unsupported_native_response_options"),
    *_client("barge_in_unsupported unsupported_response_modality"),
    *_client("missing_item_id item_not_found invalid_function_call_output"),
    *_client("playback_item_mismatch playback_item_not_found playback_ack_too_late"),
    *_capacity("input_backpressure"),
    # Acknowledgement and resume.
    *_client("invalid_event_ack"),
    *_client("invalid_session_resume session_resume_expired unsupported_session_resume", closes=True),
    *_client("invalid_resume_token session_resume_conflict", closes=True),
    *_server("runtime_resume_failed", retryable=True, closes=True),
    *_server("runtime_resume_unsupported", closes=True),
    # The model and what runs it.
    *_server("internal_error", closes=True),
    *_server("server_vad_initialization_failed", handshake=True),
    *_server("server_vad_inference_failed server_vad_unavailable"),
    *_server("runtime_touch_failed", retryable=True),
    *_client("runtime_touch_unsupported"),
    *_server("runtime_open_failed", retryable=True, closes=True),
    *_server("runtime_open_unsupported runtime_contract_invalid", closes=True),
    *_server("runtime_append_failed runtime_signal_failed", retryable=True),
    *_server("runtime_append_task_failed runtime_data_plane_stream_failed runtime_close_failed", closes=True),
    *_server("runtime_abort_failed runtime_data_plane_text_without_audio"),
    *_server("runtime_native_stage_role_required runtime_native_runner_kv_required", handshake=True),
    *_server("chat_error response_error commit_aborted", retryable=True),
    # Capacity.
    *_capacity("resource_exhausted duplex_session_busy", closes=True),
    # Control codes a model's engine may surface verbatim, and the fallback for an error that has no code.
    *_client("stale_fence not_found invalid_argument invalid_capability failed_precondition duplex_error"),
    *_client("timeout", retryable=True),
]

_EXTENSIONS = [
    *_server("log_unavailable", retryable=True, closes=True),
    *_server("worker_lost", retryable=True),
    *_server("context_exhausted", closes=True),
    *_client("session_exists", closes=True),
    *_client("item_exists stale_function_call_output"),
]

ERRORS: dict[str, ErrorCode] = {row.code: row for row in (*_ROWS, *_EXTENSIONS)}
"""Every code this service can say."""

EXTENSION_CODES: frozenset[str] = frozenset(row.code for row in _EXTENSIONS)
"""Codes of this service's own: its log, its workers, its limits. All others are the published vocabulary."""


class ProtocolError(Exception):
    """Something the client sent cannot be accepted; carries all that its error frame needs.

    ``param`` is the dotted path of the failing field, ``event_id`` the client's own id of the event,
    ``retry_after_ms`` when to try the same again. Raises: KeyError for a code that is not in ``ERRORS``.
    """

    def __init__(
        self,
        code: str,
        message: str,
        param: str | None = None,
        event_id: str | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        self.entry = ERRORS[code]
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.param = param
        self.event_id = event_id
        self.retry_after_ms = retry_after_ms

    def __reduce__(self) -> tuple[type[ProtocolError], tuple[str, str, str | None, str | None, int | None]]:
        return (ProtocolError, (self.code, self.message, self.param, self.event_id, self.retry_after_ms))

    def with_event_id(self, event_id: str | None) -> ProtocolError:
        """The same error, correlated to the event it answers."""
        return ProtocolError(self.code, self.message, self.param, event_id, self.retry_after_ms)
