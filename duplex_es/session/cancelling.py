"""Cancelling: every way a client stops an answer, and which of them move the epoch.

Source: docs/reference/realtime-api.md, "Interrupt".
"""

from __future__ import annotations

from msgspec import UNSET

from ..model import Interrupt
from ..protocol import BargeIn, CancelInput, CancelResponse, ClearOutput, SignalTurn
from .effects import AskModel, Effect
from .events import EpochAdvanced, Fact, OutputCleared, TurnSignalled
from .refusals import refuse
from .responses import finish
from .state import Session, replace

TURN_STATES = {
    "user_started": "user_speaking",
    "user_committed": "user_committed",
    "assistant_started": "assistant_generating",
    "assistant_done": "idle",
}
"""Turn signals that only move ``turn_state``; other names change nothing."""


def decide_cancel(session: Session, command: CancelResponse, now_ms: int) -> tuple[Fact, ...]:
    """Cancel the open answer, or stop the playback of one that was not heard to its end."""
    live, unheard = session.response, session.unheard
    named = command.response_id if isinstance(command.response_id, str) else None
    active = live.id if live else unheard.response_id if unheard else None
    if active is None or named not in (None, active):
        what = f"Response {named!r} is not active" if named else "No response is active"
        return refuse(command, "response_not_active", f"Cancellation failed: {what}.", "response_id")
    if live is not None:
        return (finish(session, "cancelled", reason="client_cancelled"),)
    return OutputCleared(response_id=active), EpochAdvanced(epoch=session.epoch + 1, cleared_input=False)


def decide_cancel_input(session: Session, command: CancelInput, now_ms: int) -> tuple[Fact, ...]:
    """Drop pending input and stop the answer, if any; the epoch always moves."""
    return _barge_in(session)


def _barge_in(session: Session) -> tuple[Fact, ...]:
    if session.response is not None:
        return (finish(session, "cancelled", reason="barge_in", cleared_input=True),)
    advanced = EpochAdvanced(epoch=session.epoch + 1)
    if session.unheard is not None:
        return OutputCleared(response_id=session.unheard.response_id), advanced
    return (advanced,)


def interruption(session: Session, reason: str) -> tuple[Fact, ...]:
    """The facts that stop an answer for speech over it; what was said over it is kept."""
    if session.response is not None:
        return (finish(session, "cancelled", reason=reason),)
    advanced = EpochAdvanced(epoch=session.epoch + 1, cleared_input=False)
    unheard = session.unheard
    return (OutputCleared(response_id=unheard.response_id), advanced) if unheard is not None else (advanced,)


def decide_barge_in(session: Session, command: BargeIn | SignalTurn, now_ms: int) -> tuple[Fact, ...]:
    """As ``input.cancel``, for models that can be interrupted."""
    if session.info is None or session.info.capabilities.supports_barge_in is not True:
        return refuse(
            command,
            "barge_in_unsupported",
            "This model cannot be interrupted (capabilities.supports_barge_in is false); use response.cancel.",
        )
    return _barge_in(session)


def decide_clear_output(session: Session, command: ClearOutput, now_ms: int) -> tuple[Fact, ...]:
    """Discard queued output; a live answer is cancelled with it, an idle session only says so."""
    named = command.response_id if isinstance(command.response_id, str) else None
    live, unheard = session.response, session.unheard
    if live is not None and named in (None, live.id):
        return (finish(session, "cancelled", reason="output_audio_buffer_clear", cleared_output=True),)
    if live is None and unheard is not None and named in (None, unheard.response_id):
        cleared = OutputCleared(response_id=unheard.response_id)
        return cleared, EpochAdvanced(epoch=session.epoch + 1, cleared_input=False)
    return (OutputCleared(response_id=named or session.last_response_id),)


def decide_signal(session: Session, command: SignalTurn, now_ms: int) -> tuple[Fact, ...]:
    """Carry out a cancel spelled as a signal; note any other."""
    event = command.event if isinstance(command.event, str) else ""
    if not event:
        return refuse(command, "bad_event", "turn.signal needs event, a string.", "event")
    match event:
        case "barge_in":
            return decide_barge_in(session, command, now_ms)
        case "input.cancel":
            return _barge_in(session)
        case "response.cancel":
            named = command.named_response_id
            cancel = CancelResponse(event_id=command.event_id, response_id=UNSET if named is None else named)
            return decide_cancel(session, cancel, now_ms)
    return (TurnSignalled(event=event),)


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one cancelling fact. Total; the epoch never goes down."""
    match fact:
        case EpochAdvanced(epoch=epoch):
            session = replace(session, epoch=max(session.epoch, epoch), turn_state="barge_in", owed=None, begun=None)
            return session, (AskModel(Interrupt(epoch=session.epoch)),)
        case OutputCleared(response_id=response_id):
            item = next((one for one in session.answers() if one.response_id == response_id), None)
            if item is None or item.status == "in_progress":
                return session, ()
            # What was not heard by now never will be.
            cap_ms = item.ledger.committed_ms if session.unheard is item else item.cap_ms
            return session.with_item(replace(item, cap_ms=cap_ms)), ()
        case TurnSignalled(event=event):
            return replace(session, turn_state=TURN_STATES.get(event, session.turn_state)), ()
    return session, ()
