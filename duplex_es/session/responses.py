"""Responses: how one assistant utterance is announced, grows, and ends, exactly once.

Source: docs/reference/realtime-api.md, "Response lifecycle" and "Interrupt".
"""

from __future__ import annotations

from zlib import crc32

from ..model import (
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelListened,
    ModelPassedOn,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
)
from ..protocol import answer_item_id, mint_response_id
from .calls import known_call
from .events import (
    AudioProduced,
    CommandRejected,
    EpochAdvanced,
    Fact,
    FunctionCalled,
    FunctionCallMalformed,
    Listened,
    MessagePassedOn,
    ResponseFinished,
    ResponseSpoken,
    ResponseStarted,
    TextProduced,
    TurnBegun,
    TurnEndedEmpty,
)
from .inputs import SpeechReady
from .overlap import BARGE_IN, model_decision
from .playback import settle
from .refusals import known_code
from .state import Session, replace
from .usage import closed

WITHOUT_OUTPUT = "model_turn_completed_without_output"
"""Why the model is said to listen when a turn of it ended before anything was to be heard."""

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
    """Remember silently that the model is in a turn; only what is to be heard of it makes it a response.

    A later turn of the model ends the answer that is still open.
    """
    if is_stale(session, signal.epoch):
        return ()
    live, begun = session.response, session.begun
    known = [one for one in (live.turn if live else None, begun.turn if begun else None) if one is not None]
    if known and signal.turn <= max(known):
        return ()
    turn = TurnBegun(turn=signal.turn, response_id=signal.response_id, recipe=signal.recipe)
    if live is not None and live.turn is not None:
        return finish(session, "completed"), turn
    return (turn,)


def _shown(session: Session, turn: int) -> tuple[Fact, ...] | None:
    """The facts that put the model's turn before the client: none where that is done, ``None`` if it is not its turn.

    A response that is announced is taken up, even one in answer to another request: whatever the model says is heard.
    """
    live, begun = session.response, session.begun
    if live is not None and live.turn == turn:
        return ()
    if begun is None or begun.turn != turn:
        return None
    if live is not None:
        return (ResponseSpoken(response_id=live.id, turn=turn),)
    started = start_response(session, turn=turn)
    return started, ResponseSpoken(response_id=started.response_id, turn=turn)


def _live_id(session: Session) -> str:
    """The id of the response that what the model says belongs to: the open one, else the next."""
    return session.response.id if session.response is not None else next_response_id(session)


def _is_truncated(session: Session) -> bool:
    """Whether the client has cut the open answer: it wants to hear no more of it."""
    item = session.item(session.response.item_id) if session.response is not None else None
    return item is not None and item.cap_ms is not None


def decide_audio(session: Session, signal: ModelProducedAudio | SpeechReady, now_ms: int) -> tuple[Fact, ...]:
    """Accept the next piece of speech of the model's turn; anything of another turn or epoch is dropped.

    Where only text was asked for, only the words of it are taken. Of an answer that the client has truncated nothing
    is taken any more.
    """
    shown = None if is_stale(session, signal.epoch) or session.info is None else _shown(session, signal.turn)
    if shown is None or session.info is None:
        return ()
    if _is_truncated(session):
        return shown
    response_id = _live_id(session)
    modalities = session.response.modalities if session.response is not None else session.settings.modalities
    if "audio" not in modalities:
        return (*shown, TextProduced(response_id=response_id, text=signal.text)) if signal.text else ()
    if isinstance(signal, SpeechReady):
        # The rest of a converter may stand for no sample of the model's, but only after some that it did stand for.
        sounded = signal.samples > 0 or (session.response is not None and session.response.samples > 0)
        if not signal.text and not (sounded and (signal.audio or signal.samples)):
            return ()
        produced = AudioProduced(
            response_id=response_id,
            samples=max(0, signal.samples),
            rate_hz=signal.model_rate_hz,
            text=signal.text,
            format=signal.format,
            sent_rate_hz=signal.rate_hz,
        )
        return *shown, _checked(session, produced, signal.audio)
    samples = len(signal.pcm) // 2
    if not samples and not signal.text:
        return ()
    rate_hz = session.info.output_rate_hz if signal.rate_hz is None else signal.rate_hz
    produced = AudioProduced(response_id=response_id, samples=samples, rate_hz=rate_hz, text=signal.text)
    return *shown, _checked(session, produced, signal.pcm)


def _checked(session: Session, produced: AudioProduced, audio: bytes) -> AudioProduced:
    """The fact with the size and the running checksum of the answer's audio, if the answer can be given again."""
    live, begun = session.response, session.begun
    recipe = begun.recipe if begun is not None else live.recipe if live is not None else None
    if recipe is None:
        return produced
    return replace(produced, size=len(audio), crc=crc32(audio, 0 if live is None else live.crc))


def decide_text(session: Session, signal: ModelProducedText, now_ms: int) -> tuple[Fact, ...]:
    """Accept the next piece of a text answer."""
    shown = None if is_stale(session, signal.epoch) else _shown(session, signal.turn)
    if shown is None or not signal.text:
        return ()
    if _is_truncated(session):
        return shown
    return *shown, TextProduced(response_id=_live_id(session), text=signal.text)


def decide_finished(session: Session, signal: ModelFinished, now_ms: int) -> tuple[Fact, ...]:
    """End the open answer as completed; a turn of which nothing was to be heard ends without one."""
    live, begun = session.response, session.begun
    if is_stale(session, signal.epoch):
        return ()
    if live is not None and live.turn == signal.turn:
        tokens = {name: getattr(signal, name) for name in ("input_tokens", "output_tokens", "cached_tokens")}
        return (finish(session, "completed", **tokens),)
    if begun is None or begun.turn != signal.turn:
        return ()
    ended = TurnEndedEmpty(turn=begun.turn)
    if live is not None and (not live.requested or begun.response_id == live.id):
        return ended, Listened(reason=WITHOUT_OUTPUT, response_id=live.id), finish(session, "completed")
    if session.settings.auto_response and not begun.called:
        return ended, Listened(reason=WITHOUT_OUTPUT)
    return (ended,)


def decide_passed_on(session: Session, signal: ModelPassedOn, now_ms: int) -> tuple[Fact, ...]:
    """Show the client what a model's server said that has no place in an answer."""
    if is_stale(session, signal.epoch):
        return ()
    live = session.response
    of = live.id if live is not None and live.turn in (None, signal.turn) else None
    return (MessagePassedOn(message=signal.message, response_id=of),)


def decide_interrupted(session: Session, signal: ModelInterrupted, now_ms: int) -> tuple[Fact, ...]:
    """The model cut its own answer: cancelled, and the epoch moves on both sides.

    It moves even if the session knew nothing of that answer: the model has moved on, and would be stale for ever.
    """
    if is_stale(session, signal.epoch):
        return ()
    if session.response is None:
        return (EpochAdvanced(epoch=session.epoch + 1, cleared_input=False),)
    decided = model_decision(session, BARGE_IN, "policy_barge_in_on_speech", buffer=True)
    return *decided, finish(session, "cancelled", reason=signal.reason, by_model=True)


def decide_failed(session: Session, signal: ModelFailed, now_ms: int) -> tuple[Fact, ...]:
    """Tell the client, and end the open answer as failed; a fatal fault ends the session too."""
    if session.state != "open" or (signal.epoch < session.epoch and not signal.fatal):
        return ()
    code = known_code(signal.code, "runtime_data_plane_stream_failed" if signal.fatal else "response_error")
    facts: tuple[Fact, ...] = (CommandRejected(code=code, message=signal.message),)
    if session.begun is not None:
        facts = (*facts, TurnEndedEmpty(turn=session.begun.turn))
    if session.response is not None:
        facts = (*facts, finish(session, "failed", reason=signal.code))
    return (*facts, closed(session, signal.code)) if signal.fatal else facts


def decide_listened(session: Session, signal: ModelListened, now_ms: int) -> tuple[Fact, ...]:
    """The model keeps listening; if a response was announced for it, that one ends without output.

    A response that the model was asked for ends only by its id: between two turns it may say often that it listens.
    """
    if is_stale(session, signal.epoch):
        return ()
    live = session.response
    unnamed = None if live is None or live.requested or session.begun is not None else live.id
    if live is not None and live.turn is None and live.id == (signal.response_id or unnamed):
        return Listened(reason=signal.reason, response_id=live.id), finish(session, "completed")
    return (Listened(reason=signal.reason),)


def decide_function_call(session: Session, signal: ModelCalledFunction, now_ms: int) -> tuple[Fact, ...]:
    """A tool call becomes an item and a response of its own; the speech response, if any, stays active.

    One that cannot be answered, because it lacks its id or name or has the id of another, is shown as it came.
    """
    if is_stale(session, signal.epoch):
        return ()
    if not signal.call_id or not signal.name or known_call(session, signal.call_id) is not None:
        return (FunctionCallMalformed(call_id=signal.call_id, name=signal.name, arguments=signal.arguments),)
    response_id = next_response_id(session)
    called = FunctionCalled(
        response_id=response_id,
        item_id=answer_item_id(response_id),
        call_id=signal.call_id,
        name=signal.name,
        arguments=signal.arguments,
    )
    live = session.response
    if session.asks_for_answers and live is not None and live.turn is None and session.begun is None:
        # The call is all of the answer; its client will ask for the next one, and could not while this is open.
        return called, finish(session, "completed")
    return (called,)


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
        input_ms=session.usage_input_ms - session.usage_told_ms,
        output_ms=0 if item is None else item.ledger.generated_ms,
        **details,  # type: ignore[arg-type]
    )
