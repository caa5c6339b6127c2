"""The two dispatch tables, and the verbs over them: ``step`` for hosts, ``fold`` for replays, ``merged`` for both.

``decide`` holds the rules and may look at the clock it is given; ``apply`` only folds and never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from .. import model, protocol
from . import (
    answering,
    appending,
    calls,
    cancelling,
    committing,
    conversation,
    events,
    inputs,
    lifecycle,
    listening,
    measuring,
    overlap,
    playback,
    remembering,
    replies,
    responses,
    takeover,
    waiting,
)
from .effects import Effect
from .events import AudioAppended, Fact, MemoryGrown
from .projection.realtime import project
from .refusals import refuse
from .state import Session

Decide = Callable[[Session, Any, int], tuple[Fact, ...]]
Apply = Callable[[Session, Fact], tuple[Session, tuple[Effect, ...]]]

DECIDE: dict[type, Decide] = {
    inputs.OpenAs: lifecycle.decide_open,
    protocol.UpdateSession: lifecycle.decide_update,
    protocol.Heartbeat: lifecycle.decide_heartbeat,
    protocol.AcknowledgeEvents: lifecycle.decide_acknowledge_events,
    protocol.CloseSession: lifecycle.decide_close,
    protocol.ResumeSession: lifecycle.decide_late_resume,
    protocol.RefuseCommand: lifecycle.decide_refused,
    protocol.SocketAttached: lifecycle.decide_attached,
    protocol.SocketDetached: lifecycle.decide_detached,
    protocol.ForkSession: lifecycle.decide_forked,
    inputs.TimerFired: lifecycle.decide_timer,
    inputs.ModelLost: lifecycle.decide_model_lost,
    inputs.WorkerTookOver: takeover.decide_took_over,
    inputs.AnswerDiverged: takeover.decide_diverged,
    inputs.AudioArrived: appending.decide_append,
    protocol.AppendText: appending.decide_append_text,
    protocol.CommitInput: committing.decide_commit,
    protocol.CommitTurn: committing.decide_commit,
    protocol.ClearInput: committing.decide_clear,
    model.ModelHeardSpeech: listening.decide_heard_speech,
    model.ModelHeardSpeechEnd: listening.decide_heard_speech_end,
    model.ModelHeardTurn: listening.decide_heard_turn,
    model.ModelHeardWords: listening.decide_heard_words,
    protocol.CreateResponse: replies.decide_create,
    protocol.CancelResponse: cancelling.decide_cancel,
    protocol.CancelInput: cancelling.decide_cancel_input,
    protocol.ClearOutput: cancelling.decide_clear_output,
    protocol.BargeIn: cancelling.decide_barge_in,
    protocol.SignalTurn: cancelling.decide_signal,
    protocol.AcknowledgePlayback: playback.decide_acknowledge,
    protocol.TruncateItem: playback.decide_truncate,
    protocol.CreateItem: conversation.decide_create,
    protocol.RetrieveItem: conversation.decide_retrieve,
    protocol.DeleteItem: conversation.decide_delete,
    model.ModelSpoke: responses.decide_spoke,
    model.ModelListened: responses.decide_listened,
    model.ModelProducedAudio: responses.decide_audio,
    inputs.SpeechReady: responses.decide_audio,
    model.ModelProducedText: responses.decide_text,
    model.ModelFinished: responses.decide_finished,
    model.ModelMeasured: measuring.decide_measured,
    model.ModelInterrupted: responses.decide_interrupted,
    model.ModelCalledFunction: responses.decide_function_call,
    model.ModelPassedOn: responses.decide_passed_on,
    model.ModelFailed: responses.decide_failed,
    model.ModelRemembered: remembering.decide_remembered,
    model.ModelDroppedInput: remembering.decide_dropped,
}
"""Input type → the rule that decides on it."""

_FAMILIES: tuple[Apply, ...] = (
    lifecycle.apply,
    answering.apply,
    overlap.apply,
    appending.apply,
    committing.apply,
    cancelling.apply,
    playback.apply,
    conversation.apply,
    calls.apply,
    waiting.apply,
    takeover.apply,
    remembering.apply,
    measuring.apply,
)
"""Applied in this order; a fact that concerns two families (a cancel that clears the input) passes through both."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What one input came to. ``frames`` are in the order the client hears them; ``session`` is the state after all."""

    session: Session
    facts: tuple[Fact, ...] = ()
    frames: tuple[protocol.Frame, ...] = ()
    effects: tuple[Effect, ...] = ()


def step(session: Session, said: inputs.Input, now_ms: int) -> Decision:
    """Decide on one input: the facts to record, the frames to show, the effects to perform once they are recorded.

    Pure: the same session, input and time give the same decision. Before it opens, a session takes only what can open
    or end it and refuses every command; once closed, it takes nothing and says nothing: its last word is said.
    """
    audio, start = _sound_of(said), session
    frames: list[protocol.Frame] = []
    effects: list[Effect] = []
    facts = due = _decide(session, said, now_ms)
    while due:
        for fact in due:
            before = session
            session, asked = apply(session, fact)
            frames += project(before, fact, session, audio)
            effects += asked
        due = waiting.what_follows(start, session, due)
        facts, start = (*facts, *due), session
    return Decision(session=session, facts=facts, frames=tuple(frames), effects=tuple(effects))


def _sound_of(said: inputs.Input) -> bytes:
    """The audio that lies beside what is decided on ``said``."""
    if isinstance(said, inputs.SpeechReady):
        return said.audio
    return said.pcm if isinstance(said, model.ModelProducedAudio) else b""


def _decide(session: Session, said: inputs.Input, now_ms: int) -> tuple[Fact, ...]:
    if session.state == "closed":
        return ()
    if isinstance(said, protocol.AppendAudio):
        said = inputs.AudioArrived(command=said)
    if session.state == "new" and isinstance(said, protocol.ClientEvent | inputs.AudioArrived):
        command = said.command if isinstance(said, inputs.AudioArrived) else said
        return refuse(command, "bad_event", "The session is not open yet; send session.update first.", "type")
    rule = DECIDE.get(type(said))
    return rule(session, said, now_ms) if rule else ()


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one recorded fact into the session, and say what the host must do next. Total: never raises."""
    effects: tuple[Effect, ...] = ()
    for family in _FAMILIES:
        session, asked = family(session, fact)
        effects += asked
    session, asked = answering.ask_when_heard(session)
    return session, (*effects, *asked)


def fold(facts: Iterable[Fact], session: Session | None = None) -> Session:
    """The state after ``facts``, from ``session`` or from nothing. Effects are not performed again."""
    folded = Session() if session is None else session
    for fact in facts:
        folded, _ = apply(folded, fact)
    return folded


def reproject(facts: Iterable[Fact], session: Session, audio: bytes = b"") -> tuple[Session, list[protocol.Frame]]:
    """The frames of ``facts`` made again from the state before them, and the state after."""
    frames: list[protocol.Frame] = []
    for fact in facts:
        before = session
        session, _ = apply(session, fact)
        frames += project(before, fact, session, audio)
    return session, frames


def merged(earlier: Fact, later: Fact) -> Fact | None:
    """One fact that folds to the same state as the two in a row, or ``None`` if there is none.

    Keeps a minute of listening from becoming thousands of facts.
    """
    if isinstance(earlier, MemoryGrown) and isinstance(later, MemoryGrown):
        return remembering.merged(earlier, later)
    if not isinstance(earlier, AudioAppended) or not isinstance(later, AudioAppended) or later.hint:
        return None
    if later.counted or later.part is not None or _manner(earlier) != _manner(later):
        return None
    return msgspec.structs.replace(earlier, samples=earlier.samples + later.samples)


def _manner(fact: AudioAppended) -> tuple[object, ...]:
    """All that two appends must have in common to be one."""
    return fact.rate_hz, fact.is_speech, fact.overlaps, fact.dropped, fact.counted


__all__ = ["DECIDE", "Decision", "apply", "events", "fold", "merged", "reproject", "step"]
