"""Taking over: what a new owner decides about work that its predecessor left half done.

Source: docs/explanation/architecture.md, "Taking over".
"""

from __future__ import annotations

from .events import CommandRejected, Fact, InputTranscribed, WorkerChanged
from .inputs import WorkerTookOver
from .responses import finish, start_response
from .state import Session


def decide_took_over(session: Session, took: WorkerTookOver, now_ms: int) -> tuple[Fact, ...]:
    """Note the new owner, and end what went with the old one's model, so that nobody waits for it.

    Transcripts still to come stay empty. An answer that was being given ends as failed. One that was only owed is asked
    for again where the model can answer from the words; elsewhere the client is told that it has to ask.
    """
    changed = WorkerChanged(fence=took.fence, at_ms=0 if session.ends_at_ms is None else now_ms)
    if session.state != "open":
        return (changed,)
    lost = [InputTranscribed(item_id=item.id) for item in session.items if item.transcribing]
    if session.response is not None:
        return changed, *lost, finish(session, "failed", reason="worker_lost")
    owed = session.item(session.owed)
    if session.owed is None:
        return changed, *lost
    if owed is not None and owed.transcript and session.info is not None and session.info.takes_text_turns:
        return changed, *lost, start_response(session, generate=True)
    message = "The answer to the last turn was lost with its worker; ask for it with response.create."
    return changed, *lost, CommandRejected(code="worker_lost", message=message)
