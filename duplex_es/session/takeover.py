"""Taking over: what a new owner decides about work that its predecessor left half done.

Source: docs/explanation/architecture.md, "Taking over".
"""

from __future__ import annotations

from ..model import ContinueAnswer, EndTurn, Generate, Recipe
from .effects import AskModel, Effect, HearAgain, RestartModel
from .events import (
    AnswerAskedAgain,
    AnswerContinued,
    AnswerPutOff,
    CommandRejected,
    Fact,
    InputTranscribed,
    ModelRestarted,
    TurnBegun,
    TurnHeardAgain,
    WorkerChanged,
)
from .inputs import AnswerDiverged, WorkerTookOver
from .lifecycle import open_model
from .responses import finish, start_response
from .state import Item, Session, replace

LOST = "worker_lost"


def decide_took_over(session: Session, took: WorkerTookOver, now_ms: int) -> tuple[Fact, ...]:
    """Note the new owner, and settle what went with the old one's model, so that nobody waits for it.

    An answer that was being given goes on where the new model can give it again, else it ends as failed. Turns that
    nobody has understood or answered yet are heard again where their sound is there; else transcripts stay empty. An
    answer of which nothing was said is asked for again where the model can answer from the words; where it can not, it
    fails, or, if it was not announced, the client is told that it has to ask.
    A model with memory is where the lost one was: nothing of it is lost. If it is one that is asked, it is asked again
    for what is open, and ignores what it has been asked already.
    """
    changed = WorkerChanged(fence=took.fence, at_ms=0 if session.ends_at_ms is None else now_ms)
    if session.state != "open":
        return (changed,)
    heard = _heard_again(session, took)
    unknown = {item.id for item in session.items if item.transcribing} - {turn.item_id for turn in heard}
    if session.memory:
        return changed, *_remembered_answer(session), *heard
    lost = [InputTranscribed(item_id=item.id) for item in session.items if item.id in unknown]
    answers = _answers(session, took.can_rebuild, is_lost=bool(unknown), is_coming=any(turn.respond for turn in heard))
    return changed, *lost, *answers, *heard


def _heard_again(session: Session, took: WorkerTookOver) -> tuple[TurnHeardAgain, ...]:
    """The turns that the new model hears again; not for the answer that it has begun already."""
    transcribes = session.info is not None and session.info.transcribes
    if (session.memory and not transcribes) or (session.is_chat_lane and not session.memory):
        return ()
    begun = session.begun
    has_begun = begun is not None and (begun.called or (took.can_rebuild and begun.recipe is not None))
    owed = None if has_begun else session.owed
    return tuple(
        TurnHeardAgain(item_id=item.id, respond=item.id == owed)
        for item in session.items
        if item.id in took.sounding and (item.transcribing or (item.id == owed and not item.transcript))
    )


def _remembered_answer(session: Session) -> tuple[Fact, ...]:
    """The answer of a model that knows where it was; one of which nothing was said yet may not have been asked for."""
    live = session.response
    if live is None:
        return ()
    if live.turn is not None:
        return (AnswerContinued(turn=live.turn, response_id=live.id),)
    return (AnswerAskedAgain(response_id=live.id),) if live.asked is not None else ()


def _answers(session: Session, can_rebuild: bool, *, is_lost: bool, is_coming: bool) -> tuple[Fact, ...]:
    """What becomes of the answer that was being given, and of the one that was owed.

    ``is_lost``: some words nobody will ever know. ``is_coming``: the one that is owed comes of what is heard again.
    """
    live, begun = session.response, session.begun
    if live is not None and live.turn is not None:
        if not can_rebuild or live.recipe is None:
            return (finish(session, "failed", reason=LOST),)
        return AnswerContinued(turn=live.turn, response_id=live.id), *(() if is_coming else _put_off(session))
    if begun is not None and can_rebuild and begun.recipe is not None:
        # The change of workers has ended the turn: it begins again.
        kept = TurnBegun(turn=begun.turn, response_id=begun.response_id, recipe=begun.recipe, called=begun.called)
        response_id = begun.response_id if live is None else live.id
        return kept, AnswerContinued(turn=begun.turn, response_id=response_id)
    if is_coming:
        return ()
    if live is not None:
        if not is_lost and _can_ask_again(session):
            return (AnswerAskedAgain(response_id=live.id),)
        return (finish(session, "failed", reason=LOST),)
    return _owed(session)


def _can_ask_again(session: Session) -> bool:
    """Whether the open response, of which nothing was said, can be had from the words that are known."""
    live, called = session.response, session.begun is not None and session.begun.called
    if live is None or called or not _answers_words(session):
        return False
    return live.asked is not None or _has_words(session.item(session.owed))


def _answers_words(session: Session) -> bool:
    info = session.info
    return info is not None and info.takes_text_turns and not info.keeps_audio


def _has_words(item: Item | None) -> bool:
    return item is not None and bool(item.transcript)


def _put_off(session: Session) -> tuple[Fact, ...]:
    """The next answer, if one is owed behind the one that goes on."""
    if session.owed is not None and _answers_words(session) and _has_words(session.item(session.owed)):
        return (AnswerPutOff(item_id=session.owed),)
    return _untold(session)


def _owed(session: Session) -> tuple[Fact, ...]:
    takes_words = session.info is not None and session.info.takes_text_turns
    if takes_words and _has_words(session.item(session.owed)):
        return (start_response(session, generate=True),)
    return _untold(session)


def _untold(session: Session) -> tuple[Fact, ...]:
    """Tell the client of an answer that is owed and cannot be had."""
    if session.owed is None:
        return ()
    message = "The answer to the last turn was lost with its worker; ask for it with response.create."
    return (CommandRejected(code=LOST, message=message),)


def decide_diverged(session: Session, diverged: AnswerDiverged, now_ms: int) -> tuple[Fact, ...]:
    """End the answer as failed, as if it could not have been continued, and be rid of what the model says instead."""
    if session.response is None or session.response.id != diverged.response_id:
        return ()
    return finish(session, "failed", reason=LOST), ModelRestarted()


# -- folding -------------------------------------------------------------------------------------------------------


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one fact about an answer that goes on, or does not. Total."""
    match fact:
        case AnswerContinued(turn=turn, response_id=response_id):
            request = _continuation(session, turn, response_id)
            if request is None:
                return session, ()
            if session.response is not None:  # It is measured again, from its beginning.
                session = replace(session, response=replace(session.response, measured={}))
            return session, (AskModel(request),)
        case AnswerAskedAgain(response_id=response_id):
            live = session.response
            if live is None or live.id != response_id:
                return session, ()
            asked = live.asked or Generate(
                epoch=session.epoch, response_id=live.id, history=(), modalities=live.modalities
            )
            # It is handed over as any other request is, once no transcript is outstanding.
            return replace(session, response=replace(live, held=asked, asked=asked, requested=True)), ()
        case TurnHeardAgain(item_id=item_id, respond=respond):
            session = replace(session, owed=item_id if respond else session.owed)
            return session, (HearAgain(EndTurn(epoch=session.epoch, item_id=item_id, respond=respond)),)
        case ModelRestarted():
            return session, (RestartModel(open_model(session)),)
    return session, ()


def _continuation(session: Session, turn: int, response_id: str | None) -> ContinueAnswer | None:
    live, begun = session.response, session.begun
    said_samples = said_chars = 0
    recipe: Recipe | None = None
    if live is not None and live.turn == turn:
        item = session.item(live.item_id)
        recipe, said_samples = live.recipe, live.samples
        said_chars = 0 if item is None else len(item.transcript) + len(item.text)
    elif begun is not None and begun.turn == turn:
        recipe = begun.recipe
    if recipe is None:
        return None
    return ContinueAnswer(
        epoch=session.epoch,
        turn=turn,
        recipe=recipe,
        response_id=response_id,
        said_samples=said_samples,
        said_chars=said_chars,
    )
