"""Responses: how one assistant utterance is announced, grows, and ends, exactly once.

Source: docs/reference/realtime-api.md, "Response lifecycle" and "Interrupt".
"""

from __future__ import annotations

from ..model import (
    Generate,
    Interrupt,
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
)
from ..protocol import PlaybackLedger, answer_item_id, mint_response_id
from .effects import AskModel, Effect
from .events import (
    AudioProduced,
    CommandRejected,
    EpochAdvanced,
    Fact,
    FunctionCalled,
    FunctionCallMalformed,
    Listened,
    ResponseFinished,
    ResponseSpoken,
    ResponseStarted,
    SessionClosed,
    TextProduced,
)
from .history import history
from .playback import heard_ms, heard_text, remembered_text, settle
from .refusals import known_code
from .state import Item, Response, Session, replace

# -- deciding on what the model reports ----------------------------------------------------------------------------


def next_response_id(session: Session) -> str:
    """The id the next response gets: counted, never drawn, so that a repeated decision repeats the id."""
    return mint_response_id(session.id, session.incarnation, session.responses_count + 1)


def start_response(session: Session, **details: object) -> ResponseStarted:
    """The fact that opens the next response, with the session's modalities unless ``details`` name others."""
    details.setdefault("modalities", session.settings.modalities)
    return ResponseStarted(response_id=next_response_id(session), **details)  # type: ignore[arg-type]


def is_stale(session: Session, epoch: int) -> bool:
    """Whether a signal belongs to work that an interruption has fenced off."""
    return session.state != "open" or epoch != session.epoch


def decide_spoke(session: Session, signal: ModelSpoke, now_ms: int) -> tuple[Fact, ...]:
    """The model takes up an announced response; without one, its decision to speak opens one.

    It takes up any that is announced, even in answer to an earlier request: whatever it says is heard.
    """
    if is_stale(session, signal.epoch):
        return ()
    live = session.response
    if live is None:
        started = start_response(session, turn=signal.turn)
        return started, ResponseSpoken(response_id=started.response_id, turn=signal.turn)
    if live.turn is None:
        return (ResponseSpoken(response_id=live.id, turn=signal.turn),)
    if signal.turn > live.turn:
        # A later model turn closes the open answer before it begins its own.
        done = finish(session, "completed")
        after, _ = apply(session, done)
        return done, *decide_spoke(after, signal, now_ms)
    return ()


def decide_audio(session: Session, signal: ModelProducedAudio, now_ms: int) -> tuple[Fact, ...]:
    """Accept the next piece of speech of the open answer; anything of another turn or epoch is dropped.

    Where only text was asked for, only the words of it are taken.
    """
    live = session.response
    if is_stale(session, signal.epoch) or live is None or live.turn != signal.turn or session.info is None:
        return ()
    if "audio" not in live.modalities:
        return (TextProduced(response_id=live.id, text=signal.text),) if signal.text else ()
    if not signal.pcm and not signal.text:
        return ()
    return (
        AudioProduced(
            response_id=live.id,
            samples=len(signal.pcm) // 2,
            rate_hz=session.info.output_rate_hz,
            text=signal.text,
        ),
    )


def decide_text(session: Session, signal: ModelProducedText, now_ms: int) -> tuple[Fact, ...]:
    """Accept the next piece of a text answer."""
    live = session.response
    if is_stale(session, signal.epoch) or live is None or live.turn != signal.turn or not signal.text:
        return ()
    return (TextProduced(response_id=live.id, text=signal.text),)


def decide_finished(session: Session, signal: ModelFinished, now_ms: int) -> tuple[Fact, ...]:
    """End the open answer as completed."""
    live = session.response
    if is_stale(session, signal.epoch) or live is None or live.turn != signal.turn:
        return ()
    return (finish(session, "completed", input_tokens=signal.input_tokens, output_tokens=signal.output_tokens),)


def decide_interrupted(session: Session, signal: ModelInterrupted, now_ms: int) -> tuple[Fact, ...]:
    """The model cut its own answer: cancelled, and the epoch moves on both sides.

    It moves even if the session knew nothing of that answer: the model has moved on, and would be stale for ever.
    """
    if is_stale(session, signal.epoch):
        return ()
    if session.response is None:
        return (EpochAdvanced(epoch=session.epoch + 1, cleared_input=False),)
    return (finish(session, "cancelled", reason=signal.reason, by_model=True),)


def decide_failed(session: Session, signal: ModelFailed, now_ms: int) -> tuple[Fact, ...]:
    """Tell the client, and end the open answer as failed; a fatal fault ends the session too."""
    if session.state != "open" or (signal.epoch < session.epoch and not signal.fatal):
        return ()
    code = known_code(signal.code, "runtime_data_plane_stream_failed" if signal.fatal else "response_error")
    facts: tuple[Fact, ...] = (CommandRejected(code=code, message=signal.message),)
    if session.response is not None:
        facts = (*facts, finish(session, "failed", reason=signal.code))
    return (*facts, SessionClosed(reason=signal.code)) if signal.fatal else facts


def decide_listened(session: Session, signal: ModelListened, now_ms: int) -> tuple[Fact, ...]:
    """The model keeps listening; if a response was announced for it, that one ends without output.

    A response that the model was asked for ends only by its id: between two turns it may say often that it listens.
    """
    if is_stale(session, signal.epoch):
        return ()
    live = session.response
    unnamed = None if live is None or live.requested else live.id
    if live is not None and live.turn is None and live.id == (signal.response_id or unnamed):
        return Listened(reason=signal.reason, response_id=live.id), finish(session, "completed")
    return (Listened(reason=signal.reason),)


def decide_function_call(session: Session, signal: ModelCalledFunction, now_ms: int) -> tuple[Fact, ...]:
    """A tool call becomes an item and a response of its own; the speech response, if any, stays active."""
    if is_stale(session, signal.epoch):
        return ()
    if not signal.call_id or not signal.name:
        return (FunctionCallMalformed(call_id=signal.call_id, name=signal.name, arguments=signal.arguments),)
    response_id = next_response_id(session)
    return (
        FunctionCalled(
            response_id=response_id,
            item_id=answer_item_id(response_id),
            call_id=signal.call_id,
            name=signal.name,
            arguments=signal.arguments,
        ),
    )


def finish(session: Session, status: str, *, reason: str | None = None, **details: object) -> ResponseFinished:
    """The fact that ends the open response. A cancelled one takes the epoch with it; its audio in flight is stale.

    The caller has checked that a response is open.
    """
    live = session.response
    if live is None:
        raise AssertionError("finish needs an open response")
    item = session.item(live.item_id)
    settled = settle(session, item, status) if item is not None else None
    return ResponseFinished(
        response_id=live.id,
        status=status,
        reason=reason,
        epoch=session.epoch + (1 if status == "cancelled" else 0),
        remembered=settled is not None and settled.remembered,
        **details,  # type: ignore[arg-type]
    )


# -- folding -------------------------------------------------------------------------------------------------------


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one response fact into the session, and say what the model must be asked.

    Total: a fact of another response than the open one changes nothing. All durations are cumulative per response.
    """
    match fact:
        case ResponseStarted():
            return _started(session, fact)
        case ResponseSpoken(turn=turn) if _is_live(session, fact.response_id):
            return replace(session, response=replace(_live(session), turn=turn, held=None), owed=None), ()
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
            session = session.with_item(item)
            return replace(session, responses_count=session.responses_count + 1, owed=None), ()
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
    )
    return replace(session, response=replace(live, held=request)), ()


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
        response=replace(live, samples=samples, parts=parts),
        turn_state="assistant_playing",
        usage_output_ms=session.usage_output_ms + end_ms - ledger.generated_ms,
    )


def _finished(session: Session, fact: ResponseFinished) -> tuple[Session, tuple[Effect, ...]]:
    live, item = _live(session), _item(session)
    settled = replace(settle(session, item, fact.status), remembered=fact.remembered)
    heard = remembered_text(settled) if settled.remembered else heard_text(settled, heard_ms(settled))
    cancelled = fact.status == "cancelled"
    session = replace(
        session.with_item(settled),
        response=None,
        epoch=max(session.epoch, fact.epoch),
        owed=session.owed if fact.status == "completed" else None,
        turn_state="barge_in" if cancelled else "idle",
        turn_id=session.turn_id + (1 if fact.status == "completed" and live.turn is not None else 0),
    )
    if not cancelled or fact.by_model:
        return session, ()
    return session, (AskModel(Interrupt(epoch=fact.epoch, response_id=live.id, heard_text=heard)),)
