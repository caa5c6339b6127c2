"""Turns of the caller: how buffered input is sealed into an item, dropped, put off, or thrown away.

Source: docs/reference/realtime-api.md, "Commit".
"""

from __future__ import annotations

from msgspec import UNSET

from ..model import EndTurn, ResetInput
from ..protocol import ClearInput, CommitInput, CommitTurn, mint_item_id
from .effects import AskModel, Effect
from .events import (
    CommandRejected,
    CommitRepeated,
    EpochAdvanced,
    Fact,
    InputCleared,
    InputCommitted,
    InputTranscribed,
    Listened,
    ResponseFinished,
    SilenceCommitted,
    SpeechStopped,
)
from .refusals import refuse
from .responses import finish, start_response
from .state import Item, Overlap, Session, Waiting, replace

MAX_PENDING_COMMITS = 4
"""So many committed turns may wait for an answer to end, or for their transcript; one more is refused."""

Commit = CommitInput | CommitTurn

STOCK_LEAST_MS = 100
"""Stock clients are refused a commit of less: they know the rule, and take the error for what it is."""


def next_item_id(session: Session) -> str:
    """The id of the next item that is not an answer; counted, never drawn."""
    return mint_item_id(session.id, session.incarnation, session.items_count + 1)


# -- deciding ------------------------------------------------------------------------------------------------------


def decide_commit(session: Session, command: Commit, now_ms: int) -> tuple[Fact, ...]:
    """Seal the buffered utterance into a user item, unless the client says that it was silence.

    Over an answer, where the session judges that, a short remark is dropped and a longer one waits for its end.
    """
    heard = session.input
    if session.is_chat_lane and session.settings.turn_detection is not None:
        return refuse(
            command,
            "server_vad_manual_commit_unsupported",
            "With server_vad the server ends turns; set turn_detection to null to commit by yourself.",
            "type",
        )
    if command.is_speech is False:
        return _silence(session)
    if heard.item_id is None and heard.model_item_id is not None:
        # The model ended the turn first; what came since, if anything, is the silence after it.
        return (CommitRepeated(item_id=heard.model_item_id),)
    if not heard.has_audio and not heard.text and isinstance(command, CommitInput):
        return refuse(command, "input_audio_buffer_empty", "There is no audio to commit; append some first.")
    if session.asks_for_answers and heard.buffered_ms < STOCK_LEAST_MS and not heard.text:
        message = f"The buffer holds {heard.buffered_ms} ms of audio; commit at least {STOCK_LEAST_MS} ms."
        return refuse(command, "input_audio_buffer_empty", message)
    is_item = heard.has_speech or heard.item_id is not None or bool(heard.text)
    if not is_item and not (command.is_speech is True and heard.has_audio):
        return _silence(session)
    if _pending(session) >= MAX_PENDING_COMMITS:
        message = f"{MAX_PENDING_COMMITS} committed turns are waiting; commit again when one is answered."
        return refuse(command, "input_backpressure", message)
    if session.is_chat_lane:
        return _commit_request(session, command)
    if session.judges_speech and session.in_progress and command.is_speech is not True:
        over_ms = session.overlap.speech_ms
        if 0 < over_ms <= session.settings.overlap_short_ack_ms:
            return *forgotten(session), SilenceCommitted(item_id=_item_id(session), overlap_ack=True)
    return _commit(session, command)


def _pending(session: Session) -> int:
    """How many committed turns are not done with."""
    waiting = 0 if session.waiting is None else session.waiting.count
    return max(waiting, sum(item.transcribing for item in session.items))


def _item_id(session: Session) -> str:
    return session.input.item_id or next_item_id(session)


def forgotten(session: Session) -> tuple[Fact, ...]:
    """An utterance that had begun is over, and nothing comes of it."""
    heard = session.input
    if heard.item_id is None or heard.speech_stopped or not heard.speech_started:
        return ()
    return (SpeechStopped(item_id=heard.item_id, end_ms=heard.clock.ms, kept=False),)


def _silence(session: Session) -> tuple[Fact, ...]:
    """Nothing was said after all. A model that listens all the time goes on listening, and says so."""
    silent = *forgotten(session), SilenceCommitted(item_id=_item_id(session))
    return silent if session.is_chat_lane else (*silent, Listened(reason="silence_or_noise"))


def _is_asked(command: Commit) -> bool:
    """Whether the commit itself asks for an answer; the two commands differ in what they mean by saying nothing."""
    return command.response_create if isinstance(command.response_create, bool) else isinstance(command, CommitTurn)


def _stopped(session: Session, command: Commit) -> tuple[Fact, ...]:
    """The end of an utterance that a commit ends: where the client says it is, else where its audio ends."""
    heard = session.input
    if not heard.speech_started or heard.speech_stopped:
        return ()
    end_ms = command.audio_end_ms if command.audio_end_ms is not UNSET else heard.clock.ms
    return (SpeechStopped(item_id=_item_id(session), end_ms=max(0, end_ms)),)


def _committed(session: Session, **details: object) -> InputCommitted:
    heard = session.input
    transcribes = session.info is not None and session.info.transcribes
    return InputCommitted(
        item_id=_item_id(session),
        turn_id=session.turn_id,
        transcript=heard.transcript,
        transcribing=heard.has_audio and transcribes and not heard.transcript,
        text=heard.text,
        has_audio=heard.has_audio,
        audio_ms=heard.clock.ms - heard.since_ms,
        **details,  # type: ignore[arg-type]
    )


def _commit(session: Session, command: Commit) -> tuple[Fact, ...]:
    """For a model that listens all the time: it is told where the turn ends, and answers by its own decision."""
    asked = _is_asked(command)
    respond = asked or session.settings.auto_response
    busy = session.in_progress
    said_ms, short_ms = session.overlap.speech_ms, session.settings.overlap_short_ack_ms
    over = session.judges_speech and session.response is not None and said_ms > short_ms
    committed = _committed(
        session, respond=respond, deferred=busy and respond, overlap_deferred=over, asked=asked and over
    )
    facts = [*_stopped(session, command), committed]
    if asked and not session.settings.auto_response and not busy:
        facts.append(start_response(session))
    return tuple(facts)


def _commit_request(session: Session, command: Commit) -> tuple[Fact, ...]:
    """For a turn-based model: the turn becomes a message, and a request if one is wanted.

    A request ends the one that is being answered: its client has moved on.
    """
    respond = _is_asked(command) or session.settings.auto_response
    stopped = _stopped(session, command)
    committed = _committed(session, respond=False)
    if not respond:
        return *stopped, committed
    ended = () if session.response is None else (finish(session, "cancelled", reason="new_response"),)
    return *ended, *stopped, committed, start_response(session, generate=True)


def commit_detected(session: Session, *, end_ms: int, audio_ms: int) -> tuple[Fact, ...]:
    """The turn that a detector ended, for a turn-based model.

    It is answered if the detector is to ask for answers; during an answer one such turn may wait, the next is lost.
    """
    heard, detector = session.input, session.settings.turn_detection or {}
    item_id = _item_id(session)
    if session.response is not None and session.waiting is not None:
        message = "One turn is waiting for the answer to end; this one is dropped."
        lost = SpeechStopped(item_id=item_id, end_ms=end_ms, kept=False)
        return lost, CommandRejected(code="input_backpressure", message=message), InputCleared()
    respond = detector.get("create_response") is not False
    waits = session.response is not None
    committed = InputCommitted(
        item_id=item_id,
        turn_id=session.turn_id,
        transcript=heard.transcript,
        transcribing=session.info is not None and session.info.transcribes and not heard.transcript,
        respond=respond and waits,
        deferred=respond and waits,
        waits=waits,
        text=heard.text,
        audio_ms=audio_ms,
        audio_start_ms=heard.start_ms,
    )
    stopped = SpeechStopped(item_id=item_id, end_ms=end_ms)
    if not respond or waits:
        return stopped, committed
    return stopped, committed, start_response(session, generate=True)


def decide_clear(session: Session, command: ClearInput, now_ms: int) -> tuple[Fact, ...]:
    """Drop uncommitted input. Touches neither the epoch nor any response."""
    return (InputCleared(),)


# -- folding -------------------------------------------------------------------------------------------------------


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one fact about the end of a turn into the session. Total; one that no longer fits changes nothing."""
    heard = session.input
    match fact:
        case InputCommitted():
            return _sealed(session, fact)
        case InputTranscribed(item_id=item_id, transcript=transcript):
            item = session.item(item_id)
            if item is None:
                return session, ()
            remembered = bool(transcript or item.text)
            item = replace(item, transcript=transcript, transcribing=False, remembered=remembered)
            return session.with_item(item), ()
        case CommitRepeated():
            return replace(session, input=heard.emptied(sealed=True)), ()
        case SilenceCommitted() | InputCleared():
            counted = isinstance(fact, SilenceCommitted) and fact.item_id is not None and heard.item_id is None
            session = replace(
                session,
                input=heard.emptied(sealed=True),
                turn_state="idle" if session.response is None else session.turn_state,
                items_count=session.items_count + (1 if counted else 0),
                overlap=Overlap(shown=session.overlap.shown),
            )
            return session, (AskModel(ResetInput(epoch=session.epoch)),)
        case EpochAdvanced(cleared_input=True) | ResponseFinished(cleared_input=True):
            session = replace(session, input=heard.emptied(sealed=True), input_epoch=fact.epoch)
            return session, (AskModel(ResetInput(epoch=fact.epoch)),)
    return session, ()


def _sealed(session: Session, fact: InputCommitted) -> tuple[Session, tuple[Effect, ...]]:
    known = session.input.item_id == fact.item_id
    item = Item(
        id=fact.item_id,
        role="user",
        part="audio" if fact.has_audio else "text",
        text=fact.text,
        transcript=fact.transcript,
        previous_item_id=fact.previous_item_id if fact.created else session.last_item_id,
        transcribing=fact.transcribing,
        remembered=bool(fact.transcript or fact.text),
        audio_ms=fact.audio_ms or 0,
    )
    waits = fact.overlap_deferred or fact.waits
    session = replace(
        session.with_item(item),
        input=session.input.emptied(fact.item_id if fact.by_model else None, sealed=not fact.by_model),
        items_count=session.items_count + (0 if known else 1),
        turn_state="user_committed",
        owed=fact.item_id if fact.respond and not waits else session.owed,
        waiting=_put_off(session.waiting, fact) if waits else session.waiting,
        overlap=Overlap(shown=session.overlap.shown),
    )
    if fact.by_model or fact.overlap_deferred or not fact.has_audio:
        return session, ()
    end = EndTurn(
        epoch=session.epoch,
        item_id=fact.item_id,
        respond=fact.respond and not fact.waits,
        audio_start_ms=fact.audio_start_ms,
    )
    return session, (AskModel(end),)


def _put_off(waiting: Waiting | None, fact: InputCommitted) -> Waiting:
    """What waits, with one more commit: one turn of them all."""
    before = waiting or Waiting(item_id=fact.item_id, count=0)
    return Waiting(
        item_id=fact.item_id,
        count=before.count + 1,
        respond=before.respond or fact.respond,
        asked=before.asked or fact.asked,
        untold=before.untold or fact.overlap_deferred,
    )
