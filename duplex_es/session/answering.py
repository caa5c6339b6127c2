"""The open answer as it grows, and what stays of it: folding the facts of a response into the session.

Source: docs/reference/realtime-api.md, "Response lifecycle".
"""

from __future__ import annotations

from ..model import Generate, Interrupt
from ..protocol import PlaybackLedger, answer_item_id
from .effects import AskModel, Effect
from .events import (
    AudioProduced,
    Fact,
    FunctionCalled,
    Listened,
    ResponseFinished,
    ResponseSpoken,
    ResponseStarted,
    TextProduced,
    TurnBegun,
    TurnEndedEmpty,
)
from .history import history
from .playback import heard_ms, heard_text, remembered_text, settle
from .state import Begun, Item, Response, Session, replace
from .usage import with_usage


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one response fact into the session, and say what the model must be asked.

    Total: a fact of another response than the open one changes nothing. All durations are cumulative per response.
    """
    match fact:
        case ResponseStarted():
            return _started(session, fact)
        case TurnBegun(turn=turn, response_id=response_id):
            return replace(session, begun=Begun(turn, response_id, fact.called, fact.recipe)), ()
        case TurnEndedEmpty():
            return replace(session, begun=None, owed=None, turn_id=session.turn_id + 1), ()
        case ResponseSpoken(turn=turn) if _is_live(session, fact.response_id):
            begun = session.begun
            its = begun if begun is not None and begun.turn == turn else Begun(turn)
            live = replace(_live(session), turn=turn, held=None, recipe=its.recipe, measured=its.measured)
            return replace(session, response=live, owed=None, begun=None), ()
        case AudioProduced() if _is_live(session, fact.response_id):
            return _audio(session, fact), ()
        case TextProduced() if _is_live(session, fact.response_id):
            live, item = _live(session), _item(session)
            parts = live.parts if "text" in live.parts else (*live.parts, "text")
            part = item.part or "text"
            session = session.with_item(replace(item, text=item.text + fact.text, part=part))
            return replace(session, response=replace(live, parts=parts)), ()
        case ResponseFinished() if _is_live(session, fact.response_id):
            return _finished(session, fact)
        case FunctionCalled():
            item = Item(
                id=fact.item_id,
                type="function_call",
                role="assistant",
                call_id=fact.call_id,
                name=fact.name,
                arguments=fact.arguments,
                previous_item_id=session.last_item_id,
                response_id=fact.response_id,
            )
            begun = replace(session.begun, called=True) if session.begun is not None else None
            session = replace(session.with_item(item), begun=begun, owed=None)
            return replace(session, responses_count=session.responses_count + 1), ()
        case Listened():
            return replace(session, owed=None), ()
    return session, ()


def _is_live(session: Session, response_id: str) -> bool:
    live = session.response
    return live is not None and live.id == response_id and session.item(live.item_id) is not None


def _live(session: Session) -> Response:
    assert session.response is not None
    return session.response


def _item(session: Session) -> Item:
    item = session.item(_live(session).item_id)
    assert item is not None
    return item


def _started(session: Session, fact: ResponseStarted) -> tuple[Session, tuple[Effect, ...]]:
    item_id = answer_item_id(fact.response_id)
    item = Item(
        id=item_id,
        role="assistant",
        status="in_progress",
        part="audio" if "audio" in fact.modalities else "text",
        previous_item_id=session.last_item_id,
        response_id=fact.response_id,
        remembered=False,
        apart=fact.conversation == "none",
    )
    live = Response(
        id=fact.response_id,
        item_id=item_id,
        turn_id=session.turn_id,
        turn=fact.turn,
        modalities=fact.modalities,
        output_format=fact.output_format,
        output_rate_hz=fact.output_rate_hz,
        metadata=fact.metadata,
        requested=fact.generate,
        parts=("audio",) if "audio" in fact.modalities else (),
    )
    session = replace(
        session.with_item(item),
        response=live,
        responses_count=session.responses_count + 1,
        last_response_id=fact.response_id,
        turn_state="assistant_generating",
    )
    if not fact.generate:
        return session, ()
    request = Generate(
        epoch=session.epoch,
        response_id=fact.response_id,
        history=(),
        instructions=fact.instructions,
        modalities=fact.modalities,
        temperature=fact.temperature,
        max_output_tokens=fact.max_output_tokens,
        voice=fact.voice,
        tools=fact.tools,
        tool_choice=fact.tool_choice,
    )
    return replace(session, response=replace(live, held=request, asked=request)), ()


def ask_when_heard(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    """Hand a held request to the model once no transcript is outstanding; asked earlier, it would not know the last

    words. Changes nothing where nothing is held.
    """
    live = session.response
    if live is None or live.held is None or session.is_transcribing:
        return session, ()
    request = replace(live.held, epoch=session.epoch, history=history(session))
    return replace(session, response=replace(live, held=None)), (AskModel(request),)


def _audio(session: Session, fact: AudioProduced) -> Session:
    live, item = _live(session), _item(session)
    samples = live.samples + fact.samples
    end_ms = samples * 1000 // fact.rate_hz
    ledger = item.ledger
    transcript = item.transcript + fact.text
    moved = PlaybackLedger(
        generated_ms=max(ledger.generated_ms, end_ms),
        sent_ms=max(ledger.sent_ms, end_ms),
        played_ms=ledger.played_ms,
        committed_ms=ledger.committed_ms,
    )
    marks = (*item.marks, (len(transcript), end_ms)) if fact.text else item.marks
    session = session.with_item(replace(item, transcript=transcript, ledger=moved, marks=marks, part="audio"))
    parts = live.parts if "audio" in live.parts else (*live.parts, "audio")
    return replace(
        session,
        response=replace(live, samples=samples, parts=parts, size=live.size + fact.size, crc=fact.crc),
        turn_state="assistant_playing",
        usage_output_ms=session.usage_output_ms + end_ms - ledger.generated_ms,
    )


def _finished(session: Session, fact: ResponseFinished) -> tuple[Session, tuple[Effect, ...]]:
    live, item = _live(session), _item(session)
    settled = replace(settle(session, item, fact.status), remembered=fact.remembered)
    heard = remembered_text(settled) if settled.remembered else heard_text(settled, heard_ms(settled))
    unheard_ms = max(0, settled.ledger.generated_ms - heard_ms(settled))
    cancelled = fact.status == "cancelled"
    session = replace(
        with_usage(session, fact).with_item(settled),
        response=None,
        begun=session.begun if fact.status == "completed" else None,
        epoch=max(session.epoch, fact.epoch),
        owed=session.owed if fact.status == "completed" else None,
        turn_state="barge_in" if cancelled else "idle",
        turn_id=session.turn_id + (1 if fact.status == "completed" and live.turn is not None else 0),
    )
    if not cancelled or fact.by_model:
        return session, ()
    interrupt = Interrupt(epoch=fact.epoch, response_id=live.id, heard_text=heard, unheard_ms=unheard_ms)
    return session, (AskModel(interrupt),)
