"""Whether the fleet can take one more session of a model, told from the cards its workers keep in the log."""

from __future__ import annotations

from duplex_es.log.api import SessionLog
from duplex_es.protocol import Plain, ProtocolError

from .gate import again_ms
from .query import Query


def chosen_model(session: Plain, query: Query, default: str) -> tuple[str, str]:
    """The model of a new session, and the name of the field that chose it, as errors call it."""
    named = session.get("model")
    if isinstance(named, str) and named:
        return named, "session.model"
    return (query.model, "model") if query.model else (default, "session.model")


async def admit(log: SessionLog, model: str, param: str) -> None:
    """Return when a worker has room for one more session of ``model``.

    Two calls at once may both see the last slot: the later session then waits for a worker. Raises: ProtocolError
    ``invalid_request_error`` for a model nobody serves, ``duplex_session_busy`` when all slots are taken or no worker
    lives.
    """
    cards = await log.fleet()
    serving = [card for card in cards if model in card.models]
    if cards and not serving:
        served = ", ".join(sorted({name for card in cards for name in card.models}))
        raise ProtocolError("invalid_request_error", f"Model {model!r} is not served here; served: {served}.", param)
    slots = sum(card.slots for card in serving)
    free = slots - sum(card.used for card in serving)
    if free > 0 and free - await log.waiting(model) > 0:
        return
    why = "all slots are taken" if cards else "no worker is running"
    message = f"No free slot for {model!r}: {why} (max_sessions={slots}); retry soon."
    raise ProtocolError("duplex_session_busy", message, retry_after_ms=again_ms())
