"""Taking over: what a new owner decides about work that its predecessor left half done.

Source: docs/explanation/architecture.md, "Taking over".
"""

from __future__ import annotations

from .events import Fact, WorkerChanged
from .inputs import WorkerTookOver
from .responses import finish
from .state import Session


def decide_took_over(session: Session, took: WorkerTookOver, now_ms: int) -> tuple[Fact, ...]:
    """Note the new owner. An answer that was being given ends as failed: its sound is lost with its model."""
    changed = WorkerChanged(fence=took.fence)
    if session.state != "open" or session.response is None:
        return (changed,)
    return changed, finish(session, "failed", reason="worker_lost")
