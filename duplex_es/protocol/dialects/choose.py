"""Which dialect a socket speaks: decided from its upgrade request, else from the first thing it says.

Source: docs/reference/dialects.md, "Choosing".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..commands import (
    AcknowledgeEvents,
    AcknowledgePlayback,
    AppendText,
    BargeIn,
    CancelInput,
    CloseSession,
    Command,
    CommitTurn,
    Heartbeat,
    ResumeSession,
    SignalTurn,
    UpdateSession,
)
from ..errors import ProtocolError
from .names import BETA, DIALECTS, DUPLEX, GA, NATIVE

SUBPROTOCOL = "realtime"
"""The one subprotocol that is ever agreed to."""

_NATIVE_ROUTE = "/v1/duplex"
_BETA_HEADER = ("openai-beta", "realtime=v1")
_BETA_SUBPROTOCOL = "openai-beta.realtime-v1"
_KEY_SUBPROTOCOL = "openai-insecure-api-key."
_DUPLEX_ON = frozenset({"1", "true", "on"})
_SEED_PARAMETERS = ("autostart", "resume", "native_duplex", "minicpmo45_native_duplex")

SEED_FIELDS = frozenset(
    {
        "session_id",
        "ref_audio",
        "overlap_policy",
        "overlap_short_ack_ms",
        "overlap_barge_in_ms",
        "overlap_silence_rms",
        "playback_commit_policy",
        "idle_timeout_s",
        "extra_body",
        "response_format",
        "sample_rate_hz",
        "sample_rate",
        # The flat spellings: current OpenAI clients do not use them, and those that do announce the beta.
        "modalities",
        "input_audio_format",
        "output_audio_format",
        "input_audio_transcription",
        "input_audio_noise_reduction",
        "turn_detection",
        "max_response_output_tokens",
        "max_tokens",
    }
)
"""Settings only a client of the published duplex contract writes."""

_SEED_COMMANDS = (
    ResumeSession,
    Heartbeat,
    AcknowledgeEvents,
    CloseSession,
    CommitTurn,
    CancelInput,
    AppendText,
    BargeIn,
    SignalTurn,
    AcknowledgePlayback,
)


def choose_dialect(
    path: str, query: Mapping[str, str], headers: Mapping[str, str], subprotocols: Iterable[str] = ()
) -> str | None:
    """The dialect an upgrade request asks for; ``None`` when only the first event can tell (``dialect_of``).

    ``headers`` are looked up by lower-case names. A session that begins before the client says anything begins in
    ``ga`` when this is ``None``. Raises: ProtocolError ``unsupported`` for a ``dialect`` nobody speaks.
    """
    asked = query.get("dialect")
    if asked:
        return _named(asked)
    if path.rstrip("/") == _NATIVE_ROUTE:
        return NATIVE
    duplex = query.get("duplex")
    if duplex is not None and duplex.strip().lower() not in _DUPLEX_ON:
        return BETA if _is_beta(headers, subprotocols) else GA
    if duplex is not None or any(name in query for name in _SEED_PARAMETERS):
        return DUPLEX
    return BETA if _is_beta(headers, subprotocols) else None


def dialect_of(first: Command) -> str:
    """The dialect of a client whose first event is ``first``, when its upgrade request did not say."""
    if isinstance(first, _SEED_COMMANDS):
        return DUPLEX
    if isinstance(first, UpdateSession):
        extensions = first.session.get("extensions")
        asked = isinstance(extensions, list) and DUPLEX in extensions
        if asked or not SEED_FIELDS.isdisjoint(first.session):
            return DUPLEX
    return GA


def agreed_subprotocol(offered: Iterable[str]) -> str | None:
    """What the upgrade answers: ``realtime`` where it is offered, never one that carries a key."""
    return SUBPROTOCOL if SUBPROTOCOL in set(offered) else None


def key_of_subprotocols(offered: Iterable[str]) -> str | None:
    """The API key a browser puts among its subprotocols, because it cannot set a header; ``None`` without one."""
    for name in offered:
        if name.startswith(_KEY_SUBPROTOCOL) and len(name) > len(_KEY_SUBPROTOCOL):
            return name.removeprefix(_KEY_SUBPROTOCOL)
    return None


def _named(asked: str) -> str:
    name = asked.strip().lower()
    if name not in DIALECTS:
        shown = name if len(name) <= 40 else f"{name[:37]}..."
        raise ProtocolError("unsupported", f"dialect={shown} is not one of {', '.join(DIALECTS)}.", "dialect")
    return name


def _is_beta(headers: Mapping[str, str], subprotocols: Iterable[str]) -> bool:
    name, value = _BETA_HEADER
    said = headers.get(name) or ""
    return value in (part.strip().lower() for part in said.split(",")) or _BETA_SUBPROTOCOL in set(subprotocols)
