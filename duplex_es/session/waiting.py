"""Turns that wait behind an answer: whose turn it is once the answer is over, and what becomes of them otherwise.

After every decision the session is asked here what follows from it; what follows is recorded like anything else.
Source: docs/reference/realtime-api.md, "Commit".
"""

from __future__ import annotations

from ..model import EndTurn, ResetInput
from .effects import AskModel, Effect
from .events import (
    AnswerPutOff,
    EpochAdvanced,
    Fact,
    InputCommitted,
    InputTranscribed,
    ItemDeleted,
    ResponseFinished,
    TurnPromoted,
    WorkerChanged,
)
from .responses import start_response
from .state import Session, Waiting, replace


def what_follows(before: Session, after: Session, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """The facts that ``facts`` have made due: the next turn's, or the transcript of one that will not have any."""
    if after.state != "open":
        return ()
    if after.waiting is not None and _is_due(after, after.waiting):
        return promoted(after, after.waiting)
    gone = before.waiting
    if gone is None or not gone.untold or (after.waiting is not None and after.waiting.item_id == gone.item_id):
        return ()
    item = after.item(gone.item_id)
    told = any(isinstance(fact, TurnPromoted) for fact in facts)
    return (InputTranscribed(item_id=gone.item_id),) if item is not None and item.transcribing and not told else ()


def _is_due(session: Session, waiting: Waiting) -> bool:
    """Whether nothing is in the way: no answer, and nobody in the middle of a sentence.

    An answer that was given but not heard to its end is not in the way: its client may report that only much later.
    """
    return session.response is None and not waiting.failed and session.input.item_id is None


def promoted(session: Session, waiting: Waiting) -> tuple[Fact, ...]:
    """It is the turn of what waited. An answer that the client asked for itself is announced at once."""
    turn = TurnPromoted(item_id=waiting.item_id, respond=waiting.respond)
    if session.is_chat_lane or waiting.again:
        return (turn, start_response(session, generate=True)) if waiting.respond else (turn,)
    if waiting.asked and not session.settings.auto_response:
        return turn, start_response(session)
    return (turn,)


# -- folding -------------------------------------------------------------------------------------------------------


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one fact as far as it is about a turn that waits. Total.

    A cancel gives up what waits; after a failure it stays, but only the client can ask for it.
    """
    waiting = session.waiting
    if isinstance(fact, AnswerPutOff):
        return replace(session, waiting=Waiting(item_id=fact.item_id, respond=True, again=True)), ()
    if waiting is None:
        return session, ()
    match fact:
        case TurnPromoted():
            return _promote(session, waiting, fact)
        case ResponseFinished(status="failed"):
            return replace(session, waiting=replace(waiting, failed=not session.is_chat_lane)), ()
        case ResponseFinished(status="cancelled") | EpochAdvanced():
            return replace(session, waiting=None), _forget(session, waiting)
        case InputCommitted(overlap_deferred=False, by_model=False) if waiting.untold:
            # The model takes the sound of both for one turn, this one.
            return replace(session, waiting=None), ()
        case ItemDeleted(item_id=item_id) if item_id == waiting.item_id:
            return replace(session, waiting=None), _forget(session, waiting)
        case WorkerChanged() if not session.is_chat_lane:
            # The sound of it went with the old worker's model.
            return replace(session, waiting=None), ()
    return session, ()


def _promote(session: Session, waiting: Waiting, fact: TurnPromoted) -> tuple[Session, tuple[Effect, ...]]:
    is_asked = session.is_chat_lane or waiting.again
    owed = fact.item_id if fact.respond and not is_asked else session.owed
    session = replace(session, waiting=None, owed=owed)
    if not waiting.untold:
        return session, ()
    return session, (AskModel(EndTurn(epoch=session.epoch, item_id=fact.item_id, respond=fact.respond)),)


def _forget(session: Session, waiting: Waiting) -> tuple[Effect, ...]:
    """The model drops the sound of a commit that it was never told of."""
    return (AskModel(ResetInput(epoch=session.epoch)),) if waiting.untold else ()
