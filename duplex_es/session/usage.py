"""What a session cost: sound in and out always, tokens where the model counts them; every second and token once.

Source: docs/reference/realtime-api.md, "Usage".
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ..protocol import Usage
from .events import ResponseFinished, SessionClosed
from .state import Session, replace


def closed(session: Session, reason: str) -> SessionClosed:
    """The fact that ends the session, with what it cost in all."""
    totals = {
        "input_audio_seconds": session.usage_input_ms / 1000,
        "output_audio_seconds": session.usage_output_ms / 1000,
        "input_tokens": session.input_tokens,
        "output_tokens": session.output_tokens,
        "total_tokens": session.input_tokens + session.output_tokens,
        "responses": session.responses_count,
    }
    return SessionClosed(reason=reason, usage=totals)


def response_usage(fact: ResponseFinished) -> Usage | UnsetType:
    """What one response cost; ``UNSET`` for one of which nothing is known."""
    usage = Usage()
    if fact.input_ms is not None and fact.output_ms is not None:
        usage = Usage(
            input_token_details={"audio_seconds": fact.input_ms / 1000},
            output_token_details={"audio_seconds": fact.output_ms / 1000},
        )
    elif fact.input_tokens is None and fact.output_tokens is None:
        return UNSET
    if fact.input_tokens is None and fact.output_tokens is None:
        return usage
    read, made = fact.input_tokens or 0, fact.output_tokens or 0
    usage = replace(usage, total_tokens=read + made, input_tokens=read, output_tokens=made)
    if fact.cached_tokens is None:
        return usage
    known = {} if usage.input_token_details is UNSET else usage.input_token_details
    return replace(usage, input_token_details={**known, "cached_tokens": fact.cached_tokens})


def with_usage(session: Session, fact: ResponseFinished) -> Session:
    """The session once the response is counted."""
    return replace(
        session,
        usage_told_ms=session.usage_told_ms + (fact.input_ms or 0),
        input_tokens=session.input_tokens + max(0, fact.input_tokens or 0),
        output_tokens=session.output_tokens + max(0, fact.output_tokens or 0),
    )
