"""Responses as stock clients validate them: their words for how one ends, their metadata untouched, always a usage."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ..errors import ERRORS
from ..objects import Plain, ResponseObject, StatusDetails, Usage, given
from .items import stock_item

_STATUSES = frozenset({"in_progress", "completed", "cancelled", "failed", "incomplete"})
_INCOMPLETE_REASONS = frozenset({"max_output_tokens", "content_filter"})
_BY_CLIENT = frozenset(
    {"client_cancelled", "output_audio_buffer_clear", "session_close", "disconnect", "disconnect_grace_expired"}
)
"""Reasons of a cancel that somebody asked for; every other is speech over the answer."""

CLIENT_METADATA = "client_metadata"
"""Where a frame says which of its metadata the client gave, in case names collide."""
VENDOR_METADATA = frozenset(
    {
        "duplex_event",
        CLIENT_METADATA,
        "type",
        "session_id",
        "response_id",
        "request_id",
        "call_id",
        "epoch",
        "turn_id",
        "modalities",
        "committed",
        "playback",
        "status",
        "status_details",
        "vllm_omni",
    }
)
"""Keys of the runtime's own event, which the canonical metadata mixes with the client's."""


def stock_response(response: ResponseObject, *, beta: bool = False, ended: bool = False) -> Plain:
    """``response`` whole. ``ended`` adds the usage, which is all zeros where nobody counted."""
    status = response.status if response.status in _STATUSES else "incomplete" if ended else "in_progress"
    shown: Plain = {
        "object": "realtime.response",
        "id": given(response.id, ""),
        "status": status,
        "output": [stock_item(item, beta=beta) for item in given(response.output, [])],
    }
    if details := _status_details(str(status), response.status_details):
        shown["status_details"] = details
    if isinstance(response.conversation_id, str):
        shown["conversation_id"] = response.conversation_id
    shown.update(_modalities(response, beta=beta))
    if metadata := client_metadata(response.metadata, created=not ended):
        shown["metadata"] = metadata
    if ended:
        shown["usage"] = token_usage(response.usage)
    return shown


def client_metadata(metadata: Plain | UnsetType | None, *, created: bool) -> dict[str, str]:
    """The strings the client itself attached, and nothing of the runtime's.

    On ``response.created`` the runtime keeps to one key of its own; at the end its keys lie among the client's.
    """
    if metadata is UNSET or metadata is None:
        return {}
    told = metadata.get(CLIENT_METADATA)
    if isinstance(told, dict):
        metadata, vendor = told, frozenset[str]()
    else:
        vendor = frozenset({"duplex_event"}) if created else VENDOR_METADATA
    return {key: value for key, value in metadata.items() if key not in vendor and isinstance(value, str)}


def token_usage(usage: Usage | UnsetType | None) -> Plain:
    """What a response cost, in tokens; details beyond those known are kept."""
    told = Usage() if usage is UNSET or usage is None else usage
    spent, made = given(told.input_tokens, 0), given(told.output_tokens, 0)
    return {
        "total_tokens": given(told.total_tokens, spent + made),
        "input_tokens": spent,
        "output_tokens": made,
        "input_token_details": {
            "text_tokens": 0,
            "audio_tokens": 0,
            "cached_tokens": 0,
            **given(told.input_token_details, {}),
        },
        "output_token_details": {"text_tokens": 0, "audio_tokens": 0, **given(told.output_token_details, {})},
    }


def transcription_usage(usage: Usage | UnsetType) -> Plain:
    """What a transcription cost: tokens where they were counted, else the seconds of sound."""
    if usage is UNSET:
        return {"type": "duration", "seconds": 0}
    if usage.type == "tokens" or (usage.type is UNSET and usage.total_tokens is not UNSET):
        counted = token_usage(usage)
        details = counted["input_token_details"]
        assert isinstance(details, dict)
        kept = {key: details[key] for key in ("text_tokens", "audio_tokens")}
        totals = {key: counted[key] for key in ("total_tokens", "input_tokens", "output_tokens")}
        return {"type": "tokens", **totals, "input_token_details": kept}
    return {"type": "duration", "seconds": given(usage.seconds, 0.0)}


def _status_details(status: str, details: StatusDetails | UnsetType | None) -> Plain | None:
    """Why it ended otherwise than by completing, in the few words that clients know."""
    told = given(details, StatusDetails(type=status))
    reason = given(told.reason, "")
    if status == "cancelled":
        return {"type": status, "reason": "client_cancelled" if reason in _BY_CLIENT else "turn_detected"}
    if status == "incomplete":
        return {"type": status, "reason": reason if reason in _INCOMPLETE_REASONS else "content_filter"}
    if status != "failed":
        return None
    code = reason or "response_error"
    entry = ERRORS.get(code)
    error: Plain = {"type": entry.type if entry else "server_error", "code": code}
    message = given(told.error, {}).get("message")
    if isinstance(message, str):
        error["message"] = message
    return {"type": status, "error": error}


def _modalities(response: ResponseObject, *, beta: bool) -> Plain:
    told = given(response.modalities, given(response.output_modalities, []))
    if not told:
        return {}
    if beta:
        return {"modalities": told}
    # An answer with sound always has its transcript; the two are never both named.
    return {"output_modalities": output_modalities(told)}


def output_modalities(modalities: list[str]) -> list[str]:
    """The one kind of output that is named: sound where there is any."""
    return ["audio"] if "audio" in modalities or not modalities else ["text"]
