"""What a recorded fact can have come from: the inputs that no log holds, made again from what they led to.

Commands stand in the log; what the model reported, what the host measured and which timer ran out do not. A fact names
its cause almost wholly. Where two causes are possible both are offered, the likelier first; whoever asks decides on
each and keeps the one that gives the recorded facts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET

from ... import model
from ...protocol import AppendAudio, ClearInput, ProtocolError
from ...protocol.records import OpenSession, RefuseCommand, SocketDetached
from ...session import events, lifecycle
from ...session.events import Fact
from ...session.inputs import (
    AnswerDiverged,
    AudioArrived,
    Input,
    ModelLost,
    OpenAs,
    SpeechReady,
    TimerFired,
    VadVerdict,
    WorkerTookOver,
)
from ...session.sound import appended_sound
from ...session.state import Session, replace
from ...session.step import step
from .recording import Heard, Recorded

TIMERS = (
    lifecycle.IDLE_TIMER,
    lifecycle.GRACE_TIMER,
    lifecycle.SILENCE_TIMER,
    lifecycle.EXPIRY_WARNING_TIMER,
    lifecycle.EXPIRY_TIMER,
    lifecycle.IDLE_TTL_TIMER,
)
MOST_PIECES = 4
NO_TURN = 2**31
"""The number of a turn that is nobody's."""

Parts = tuple[Input, ...]
"""What one thing is taken apart into: decided on one after the other, all as one."""


class Left(NamedTuple):
    """The facts that are still to come of one decision, the first of them perhaps only in part.

    ``told`` pieces of its sound were accounted for already.
    """

    facts: tuple[Fact, ...]
    decision: Recorded
    told: int = 0

    def first(self, kind: type[Fact], within: int = 6) -> Fact | None:
        """The first of this kind among the next facts."""
        return next((fact for fact in self.facts[:within] if isinstance(fact, kind)), None)


# -- from a command ------------------------------------------------------------------------------------------------


def ways_in(session: Session, heard: Heard, left: Left, model_name: str) -> Iterator[Parts]:
    """The ways in which the host may have taken in the next entry of the input, the likelier first."""
    said = heard.said
    if isinstance(said, OpenSession):
        yield from _openings(said, left, model_name)
        return
    if isinstance(said, AppendAudio):
        yield from _appends(session, said, left)
    else:
        yield (said,)
    rejected = left.facts[0] if left.facts else None
    if isinstance(rejected, events.CommandRejected) and not isinstance(said, RefuseCommand):
        refusal = RefuseCommand(
            code=rejected.code, message=rejected.message, param=rejected.param, event_id=rejected.event_id
        )
        yield (refusal,)
        if isinstance(said, AppendAudio):
            yield refusal, ClearInput()


def _openings(said: OpenSession, left: Left, model_name: str) -> Iterator[Parts]:
    opened = left.first(events.SessionOpened)
    if isinstance(opened, events.SessionOpened):
        lasts_ms = None if opened.ends_at_ms is None else opened.ends_at_ms - opened.opened_at_ms
        named = opened.settings.model or model_name
        for name in dict.fromkeys((model_name, named)):
            yield (
                OpenAs(
                    command=said,
                    session_id=opened.session_id,
                    incarnation=opened.incarnation,
                    model=name,
                    info=opened.info,
                    max_session_s=None if lasts_ms is None else lasts_ms / 1000,
                ),
            )
    refused = left.first(events.SessionRefused)
    if isinstance(refused, events.SessionRefused):
        # Whatever card it was refused by is not in the log.
        yield (ModelLost(code=refused.code, message=refused.message, param=refused.param, opening=True),)


def _appends(session: Session, said: AppendAudio, left: Left) -> Iterator[Parts]:
    info, detects = session.info, session.settings.turn_detection is not None
    if info is None or info.ends_turns or not detects:
        for rms in (None,) if said.speech_verdict is not None else _loudness(left):
            yield (AudioArrived(command=said, rms=rms),)
        return
    try:
        sound, data = appended_sound(session.settings, said)
    except ProtocolError:
        yield (AudioArrived(command=said),)
        return
    samples, rate_hz = sound.samples(len(data)), sound.sample_rate_hz
    for pieces in _cuts(samples, rate_hz, left.facts):
        for verdicts in itertools.product(*(tuple(_verdicts(left.facts, piece)) for piece in pieces)):
            if len(pieces) == 1:
                yield (AudioArrived(command=said, vad=verdicts[0]),)
                continue
            unit, begin, cut = sound.bytes_per_sample, 0, []
            for piece, verdict in zip(pieces, verdicts, strict=True):
                command = _piece(said, sound.encoding, rate_hz, is_first=not begin)
                end = begin + piece.samples
                cut.append(AudioArrived(command=replace(command, audio=data[begin * unit : end * unit]), vad=verdict))
                begin = end
            yield tuple(cut)


def _loudness(left: Left) -> tuple[float, ...]:
    """As loud as it can be, or silence: which of them the fact tells."""
    appended = left.first(events.AudioAppended)
    is_loud = isinstance(appended, events.AudioAppended) and appended.is_speech
    return (1.0, 0.0) if is_loud else (0.0, 1.0)


class Piece(NamedTuple):
    """A part of an append between two verdicts: its fact stands at ``at``, of which it is the beginning, the end or

    both: two pieces with nothing between them are recorded as one.
    """

    at: int
    samples: int
    begins: bool = True
    ends: bool = True


def _cuts(samples: int, rate_hz: int, facts: Sequence[Fact]) -> Iterator[list[Piece]]:
    """Where the detector may have cut an append: where facts of it begin, and where an interruption counted it."""
    found: list[Piece] = []
    rest = samples
    for at, fact in enumerate(facts):
        if isinstance(fact, events.AudioAppended) and rest > 0 and len(found) < MOST_PIECES:
            found.append(Piece(at, min(rest, fact.samples)))
            rest -= found[-1].samples
    if not found or rest:
        yield [Piece(len(facts), samples)]
        return
    yield found
    for number, piece in enumerate(found):
        decided = next((facts[n] for n in range(piece.at) if isinstance(facts[n], events.OverlapDecided)), None)
        told_ms = decided.duration_ms if isinstance(decided, events.OverlapDecided) else None
        until = 0 if told_ms is None else -(told_ms * rate_hz // -1_000)
        if 0 < until < piece.samples:
            halves = [Piece(piece.at, until, ends=False), Piece(piece.at, piece.samples - until, begins=False)]
            yield [*found[:number], *halves, *found[number + 1 :]]


def _verdicts(facts: Sequence[Fact], piece: Piece) -> Iterator[VadVerdict]:
    """What the detector may have found in one piece."""
    at = piece.at
    appended = facts[at] if at < len(facts) else None
    if not isinstance(appended, events.AudioAppended):
        yield VadVerdict(is_speech=False, speech_active=False)
        return
    before = next((n for n in range(at - 1, -1, -1) if isinstance(facts[n], events.AudioAppended)), -1)
    after = next((n for n in range(at + 1, len(facts)) if isinstance(facts[n], events.AudioAppended)), len(facts))
    told = facts[before + 1 : at] if piece.begins else ()
    started = [fact for fact in told if isinstance(fact, events.SpeechStarted) and fact.detected]
    told = facts[at + 1 : after] if piece.ends else ()
    stopped = [fact for fact in told if isinstance(fact, events.SpeechStopped)]
    for stop, active in itertools.product((stopped[:1], []) if stopped else ([],), (appended.forced, True, False)):
        yield VadVerdict(
            is_speech=appended.is_speech,
            speech_active=active and not stop,
            speech_started=bool(started),
            speech_stopped=bool(stop),
            start_ms=started[0].start_ms if started else None,
            end_ms=stop[0].end_ms if stop else None,
        )


def _piece(said: AppendAudio, encoding: str, rate_hz: int, *, is_first: bool) -> AppendAudio:
    """The append without its sound, as one piece of it has it: what the client said of all of it is on the first."""
    piece = replace(
        said, format=encoding, input_audio_format=UNSET, sample_rate_hz=rate_hz, channels=UNSET, duration_ms=UNSET
    )
    if is_first:
        return piece
    return replace(
        piece, force_barge_in=UNSET, text=UNSET, transcript=UNSET, hints=UNSET, video_frames=UNSET
    )


# -- from the model, the clock and the fleet -----------------------------------------------------------------------


def ways_out(session: Session, left: Left) -> Iterator[Parts]:
    """What, of all that no log holds, the next facts can have come from; the likelier first."""
    yield from _chains(session, left)
    for name in TIMERS:
        yield (TimerFired(name),)


def _chains(session: Session, left: Left) -> Iterator[Parts]:
    """One report of the model, or the several that the host made of one: the last sound of an answer and its end."""
    for cause in _causes(session, left):
        yield (cause,)
        if not isinstance(cause, SpeechReady | model.ModelProducedAudio):
            continue
        made = step(session, cause, left.decision.at_ms)
        following = left.facts[len(made.facts) :]
        if made.facts and following:
            for chain in _chains(made.session, Left(following, left.decision, left.told + 1)):
                yield (cause, *chain)


def _causes(session: Session, left: Left) -> Iterator[Input]:
    first, epoch = left.facts[0], session.epoch
    turn = _turn(session)
    match first:
        case events.TurnBegun():
            yield model.ModelSpoke(
                epoch=epoch, turn=first.turn, response_id=first.response_id, recipe=first.recipe
            )
        case events.TurnEndedEmpty():
            yield model.ModelFinished(epoch=epoch, turn=first.turn)
        case events.StagesMeasured():
            yield model.ModelMeasured(epoch=epoch, turn=first.turn, stages=first.stages)
        case events.MemoryGrown():
            yield model.ModelRemembered(epoch=epoch, data=first.data, anew=first.anew)
        case events.InputSkipped():
            yield model.ModelDroppedInput(epoch=epoch, duration_ms=first.duration_ms)
        case events.TranscriptGrown():
            yield model.ModelHeardWords(epoch=epoch, text=first.text, item_id=first.item_id)
        case events.InputTranscribed():
            for item_id in (first.item_id, None):
                yield model.ModelHeardTurn(
                    epoch=epoch, transcript=first.transcript, failed=first.failed, item_id=item_id
                )
        case events.FunctionCalled() | events.FunctionCallMalformed():
            yield model.ModelCalledFunction(
                epoch=epoch, turn=turn, call_id=first.call_id, name=first.name, arguments=first.arguments
            )
        case events.MessagePassedOn():
            yield model.ModelPassedOn(
                epoch=epoch, turn=NO_TURN if first.response_id is None else turn, message=first.message
            )
        case events.Listened():
            yield model.ModelListened(epoch=epoch, reason=first.reason, response_id=first.response_id)
            yield model.ModelListened(epoch=epoch, reason=first.reason)
        case events.EpochAdvanced():
            yield model.ModelInterrupted(epoch=epoch, turn=turn)
        case events.WorkerChanged():
            again = tuple(one.item_id for one in left.facts if isinstance(one, events.TurnHeardAgain))
            for can_rebuild in (True, False):
                yield WorkerTookOver(first.fence, can_rebuild, again)
        case events.SocketChanged():
            yield SocketDetached(generation=first.generation, reason="gateway_lost")
        case events.CommandRejected():
            yield from _faults(session, first, left)
        case events.ResponseFinished():
            yield from _ends(session, first, left)
    yield from _hearing(session, left)
    yield from _speech(session, left)


def _turn(session: Session) -> int:
    """The model's turn that what it says belongs to."""
    live, begun = session.response, session.begun
    if begun is not None:
        return begun.turn
    return live.turn if live is not None and live.turn is not None else 0


_HEARD = events.OverlapDecided | events.SpeechStarted | events.SpeechStopped | events.InputCommitted


def _hearing(session: Session, left: Left) -> Iterator[Input]:
    """What the model heard by itself."""
    first, epoch = left.facts[0], session.epoch
    if not isinstance(first, _HEARD):
        return
    committed = left.first(events.InputCommitted, 3)
    if isinstance(committed, events.InputCommitted) and committed.by_model:
        words, audio_ms = committed.transcript, committed.audio_ms or 0
        yield model.ModelHeardTurn(epoch=epoch, transcript=words, audio_ms=audio_ms)
    started, stopped = left.first(events.SpeechStarted, 2), left.first(events.SpeechStopped, 2)
    if isinstance(started, events.SpeechStarted):
        yield model.ModelHeardSpeech(epoch=epoch, start_ms=started.start_ms)
    if isinstance(stopped, events.SpeechStopped):
        yield model.ModelHeardSpeechEnd(epoch=epoch, end_ms=stopped.end_ms, is_turn=stopped.kept)
    finished = left.first(events.ResponseFinished, 2)
    if isinstance(finished, events.ResponseFinished) and finished.by_model:
        yield model.ModelInterrupted(epoch=epoch, turn=_turn(session), reason=finished.reason or "barge_in")


def _ends(session: Session, first: events.ResponseFinished, left: Left) -> Iterator[Input]:
    """How an answer may have ended."""
    live, epoch = session.response, session.epoch
    turn = live.turn if live is not None and live.turn is not None else _turn(session)
    begun = left.facts[1] if len(left.facts) > 1 else None
    if isinstance(begun, events.TurnBegun):
        yield model.ModelSpoke(epoch=epoch, turn=begun.turn, response_id=begun.response_id, recipe=begun.recipe)
    yield model.ModelFinished(
        epoch=epoch,
        turn=turn,
        input_tokens=first.input_tokens,
        output_tokens=first.output_tokens,
        cached_tokens=first.cached_tokens,
    )
    if first.by_model:
        yield model.ModelInterrupted(epoch=epoch, turn=turn, reason=first.reason or "barge_in")
    if left.first(events.ModelRestarted) is not None:
        yield AnswerDiverged(first.response_id)
    refused = left.first(events.SessionRefused)
    if isinstance(refused, events.SessionRefused):
        yield ModelLost(code=refused.code, message=refused.message, param=refused.param, opening=True)


def _faults(session: Session, first: events.CommandRejected, left: Left) -> Iterator[Input]:
    """What may have failed. The fact holds a code of the wire, the end of the answer or of the session the model's."""
    finished, closed = left.first(events.ResponseFinished), left.first(events.SessionClosed)
    codes = [first.code]
    if isinstance(finished, events.ResponseFinished) and finished.reason:
        codes.insert(0, finished.reason)
    if isinstance(closed, events.SessionClosed):
        codes.insert(0, closed.reason)
    for code in dict.fromkeys(codes):
        for fatal in (closed is not None, closed is None):
            yield model.ModelFailed(epoch=session.epoch, code=code, message=first.message, fatal=fatal)
        yield ModelLost(code=code, message=first.message, param=first.param)


def _speech(session: Session, left: Left) -> Iterator[Input]:
    """The next piece of an answer; its sound lies beside the frame."""
    first, epoch, turn = left.facts[0], session.epoch, _turn(session)
    kinds = events.ResponseStarted | events.ResponseSpoken | events.AudioProduced | events.TextProduced
    if not isinstance(first, kinds):
        return
    said = left.first(events.AudioProduced, 3)
    if isinstance(said, events.AudioProduced):
        sounds = left.decision.sounds
        sound = sounds[left.told] if left.told < len(sounds) else b""
        if not sound and left.decision.is_silenced:
            sound = bytes(said.size or 2 * said.samples)
        if said.sent_rate_hz is None:
            rate_hz = said.rate_hz
            yield model.ModelProducedAudio(epoch=epoch, turn=turn, pcm=sound, text=said.text, rate_hz=rate_hz)
            return
        yield SpeechReady(
            epoch=epoch,
            turn=turn,
            samples=said.samples,
            model_rate_hz=said.rate_hz,
            audio=sound,
            format=said.format,
            rate_hz=said.sent_rate_hz,
            text=said.text,
        )
        return
    text = left.first(events.TextProduced, 3)
    words = text.text if isinstance(text, events.TextProduced) else "?"
    yield model.ModelProducedText(epoch=epoch, turn=turn, text=words)
    yield model.ModelProducedAudio(epoch=epoch, turn=turn, pcm=b"\0\0", text=words)
