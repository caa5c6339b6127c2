"""Taking words out of a record and leaving what holds it together: ids, types, times and counts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..reading.notes import MASK

KEPT = {
    *("type", "fact", "object", "id", "item_id", "response_id", "previous_item_id", "session_id", "call_id"),
    *("event_id", "active_request_id", "active_response_id", "last_response_id", "model_item_id"),
    *("realtime_item_id", "opened_by", "owed", "consumed", "v", "dialect", "status", "role", "part", "parts"),
    *("state", "turn_state", "reason", "code", "param", "policy", "action", "event", "cancel_reason", "shown"),
    *("failed", "model", "voice", "name", "gateway", "worker", "traceparent", "conversation", "format"),
    *("input_format", "output_format", "response_format", "input_audio_format", "output_audio_format"),
    *("modalities", "output_modalities", "overlap_policy", "playback_commit_policy", "tool_choice"),
}
"""Text under these names is never what somebody said, but one of few words, or an id."""

KEPT_WHOLE = {
    *("info", "capabilities", "usage", "turn_detection", "rate_limits"),
    *("metadata", "client_metadata", "tools"),
}
"""What lies under these names nobody said: the model's and the server's own, and what comes with the session."""

SOUND = {"audio", "ref_audio", "data", "memory"}
"""Text or bytes under these names are sound, or what a model made of it."""


def masked(value: Any, name: str = "") -> Any:
    """``value`` with a mask for each text that may be somebody's words, and no bytes."""
    if isinstance(value, dict):
        return {key: part if key in KEPT_WHOLE else masked(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [masked(part, name) for part in value]
    if isinstance(value, bytes):
        return b""
    if isinstance(value, str) and name not in KEPT and value.strip():
        return MASK
    return value


def unsounded(value: Any, name: str = "") -> Any:
    """``value`` without the sound that lies in it as text or bytes."""
    if isinstance(value, dict):
        return {key: unsounded(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [unsounded(part, name) for part in value]
    if name in SOUND and isinstance(value, str | bytes):
        return type(value)()
    return value


def texts_in(value: Any, name: str = "") -> set[str]:
    """The texts in ``value`` that somebody may have said."""
    if isinstance(value, dict):
        parts = ((key, part) for key, part in value.items() if key not in KEPT_WHOLE)
        return {text for key, part in parts for text in texts_in(part, key)}
    if isinstance(value, list):
        return {text for part in value for text in texts_in(part, name)}
    return {value} if isinstance(value, str) and name not in KEPT and value.strip() else set()


def without_texts(value: Any, texts: Collection[str], name: str = "") -> Any:
    """``value`` with a mask for each of these texts."""
    if isinstance(value, dict):
        return {key: without_texts(part, texts, key) for key, part in value.items()}
    if isinstance(value, list):
        return [without_texts(part, texts, name) for part in value]
    return MASK if isinstance(value, str) and name not in KEPT and value in texts else value
