"""Listening: caller audio in, turns out. Append, commit, clear, and what the model hears by itself.

Source: docs/reference/realtime-api.md, "Input".
"""

from __future__ import annotations

from msgspec import UNSET

from ..model import EndTurn, ModelHeardSpeech, ModelHeardSpeechEnd, ModelHeardTurn, ResetInput
from ..protocol import (
    AppendText,
    ClearInput,
    CommitInput,
    CommitTurn,
    ProtocolError,
    mint_item_id,
)
from .effects import AskModel, Effect, FeedAppended
from .events import (
    AudioAppended,
    CommitRepeated,
    EpochAdvanced,
    Fact,
    InputCleared,
    InputCommitted,
    InputTranscribed,
    Listened,
    ResponseFinished,
    SilenceCommitted,
    SpeechStarted,
    SpeechStopped,
)
from .inputs import AudioArrived
from .refusals import refuse
from .responses import start_response
from .sound import appended_sound, is_speech
from .state import Item, Session, replace

# -- audio in ------------------------------------------------------------------------------------------------------


def decide_append(session: Session, arrived: AudioArrived, now_ms: int) -> tuple[Fact, ...]:
    """Count the audio and note where speech begins; refuse what cannot be understood, with the buffer unchanged."""
    command = arrived.command
    try:
        sound, data = appended_sound(session.settings, command)
    except ProtocolError as error:
        return refuse(command, error.code, error.message, error.param)
    speech = is_speech(session.settings, command, arrived.rms)
    appended = AudioAppended(
        samples=sound.samples(len(data)),
        rate_hz=sound.sample_rate_hz,
        is_speech=speech,
        hinted=command.speech_verdict is not None,
        hint=command.transcript_hint.strip(),
    )
    if _model_ends_turns(session) or not speech or session.input.item_id is not None:
        return (appended,)
    start_ms = command.audio_start_ms if command.audio_start_ms is not UNSET else session.input.clock.ms
    return SpeechStarted(item_id=next_item_id(session), start_ms=max(0, start_ms)), appended


def next_item_id(session: Session) -> str:
    """The id of the next item that is not an answer; counted, never drawn."""
    return mint_item_id(session.id, session.incarnation, session.items_count + 1)


def _model_ends_turns(session: Session) -> bool:
    """Whether the model's own endpointing, not the audio's loudness, says where speech begins and ends."""
    return session.info is not None and session.info.ends_turns


def decide_append_text(session: Session, command: AppendText, now_ms: int) -> tuple[Fact, ...]:
    """Text input belongs to the chat lane; a model-native session refuses it."""
    return refuse(
        command,
        "native_text_append_unsupported",
        "This model takes audio input; send text with conversation.item.create.",
        "type",
    )


# -- turns ---------------------------------------------------------------------------------------------------------


def decide_commit(session: Session, command: CommitInput | CommitTurn, now_ms: int) -> tuple[Fact, ...]:
    """Seal the buffered utterance into a user item, unless the client says that it was silence."""
    heard = session.input
    if command.is_speech is False:
        return _silence(session)
    if heard.item_id is None and heard.model_item_id is not None:
        # The model ended the turn first; what came since, if anything, is the silence after it.
        return (CommitRepeated(item_id=heard.model_item_id),)
    if not heard.has_audio and isinstance(command, CommitInput):
        return refuse(
            command,
            "input_audio_buffer_empty",
            "There is no audio to commit; append some first.",
        )
    if not heard.has_speech and heard.item_id is None:
        return _silence(session)
    return _commit(session, command)


def _silence(session: Session) -> tuple[Fact, ...]:
    """Nothing was said after all; an utterance that had begun is over and forgotten."""
    heard = session.input
    facts: tuple[Fact, ...] = ()
    if heard.item_id is not None and not heard.speech_stopped:
        facts = (SpeechStopped(item_id=heard.item_id, end_ms=heard.clock.ms, kept=False),)
    return *facts, SilenceCommitted(), Listened(reason="silence_or_noise")


def _commit(session: Session, command: CommitInput | CommitTurn) -> tuple[Fact, ...]:
    heard = session.input
    asked = command.response_create if isinstance(command.response_create, bool) else isinstance(command, CommitTurn)
    respond = asked or session.settings.auto_response
    busy = session.in_progress
    item_id = heard.item_id or next_item_id(session)
    facts: list[Fact] = []
    if heard.speech_started and not heard.speech_stopped:
        end_ms = command.audio_end_ms if command.audio_end_ms is not UNSET else heard.clock.ms
        facts.append(SpeechStopped(item_id=item_id, end_ms=max(0, end_ms)))
    facts.append(
        InputCommitted(
            item_id=item_id,
            turn_id=session.turn_id,
            transcript=heard.transcript,
            transcribing=session.info is not None and session.info.transcribes and not heard.transcript,
            respond=respond,
            deferred=busy and respond,
        )
    )
    if asked and not session.settings.auto_response and not busy:
        facts.append(start_response(session))
    return tuple(facts)


def decide_clear(session: Session, command: ClearInput, now_ms: int) -> tuple[Fact, ...]:
    """Drop uncommitted input. Touches neither the epoch nor any response."""
    return (InputCleared(),)


# -- what the model hears by itself --------------------------------------------------------------------------------


def _is_stale_hearing(session: Session, epoch: int) -> bool:
    """Hearing survives an interruption of the answer, but not a clear of the input it belongs to."""
    return session.state != "open" or epoch < session.input_epoch


def decide_heard_speech(session: Session, signal: ModelHeardSpeech, now_ms: int) -> tuple[Fact, ...]:
    """Open the item that this utterance will become; speech that a commit has taken in already opens none."""
    heard = session.input
    if _is_stale_hearing(session, signal.epoch) or heard.item_id is not None or signal.start_ms < heard.since_ms:
        return ()
    return (SpeechStarted(item_id=next_item_id(session), start_ms=max(0, signal.start_ms)),)


def decide_heard_speech_end(session: Session, signal: ModelHeardSpeechEnd, now_ms: int) -> tuple[Fact, ...]:
    """Close the utterance; one that leads to no turn is forgotten."""
    item_id = session.input.item_id
    if _is_stale_hearing(session, signal.epoch) or item_id is None or session.input.speech_stopped:
        return ()
    return (SpeechStopped(item_id=item_id, end_ms=max(0, signal.end_ms), kept=signal.is_turn),)


def decide_heard_turn(session: Session, signal: ModelHeardTurn, now_ms: int) -> tuple[Fact, ...]:
    """Complete a committed item with its transcript, or commit the turn that the model ended by itself."""
    if signal.item_id is not None:
        item = session.item(signal.item_id)
        if session.state != "open" or item is None or not item.transcribing:
            return ()
        return (InputTranscribed(item_id=item.id, transcript=signal.transcript.strip()),)
    if _is_stale_hearing(session, signal.epoch):
        return ()
    heard = session.input
    if heard.item_id is None:
        committed = next((item for item in reversed(session.items) if item.transcribing), None)
        if committed is not None:
            # The client committed while the model was ending the same turn: one turn, one item.
            return (InputTranscribed(item_id=committed.id, transcript=signal.transcript.strip()),)
        if heard.sealed and not heard.has_speech:
            return ()
    item_id = heard.item_id or next_item_id(session)
    facts: list[Fact] = []
    if heard.speech_started and not heard.speech_stopped:
        facts.append(SpeechStopped(item_id=item_id, end_ms=heard.clock.ms))
    facts.append(
        InputCommitted(
            item_id=item_id,
            turn_id=session.turn_id,
            transcript=signal.transcript.strip(),
            by_model=True,
            respond=session.settings.auto_response,
            deferred=session.in_progress and session.settings.auto_response,
        )
    )
    return tuple(facts)


# -- folding -------------------------------------------------------------------------------------------------------


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one listening fact into the session. Total; a fact that no longer fits changes nothing."""
    heard = session.input
    match fact:
        case AudioAppended():
            return _appended(session, fact)
        case SpeechStarted(item_id=item_id):
            heard = replace(heard, item_id=item_id, speech_started=True, speech_stopped=False)
            count = session.items_count + 1
            return replace(session, input=heard, items_count=count, turn_state="user_speaking"), ()
        case SpeechStopped(kept=kept):
            if kept:
                return replace(session, input=replace(heard, speech_stopped=True)), ()
            turn_state = "idle" if session.response is None else session.turn_state
            left = heard.emptied(heard.model_item_id, sealed=heard.sealed)
            return replace(session, input=left, turn_state=turn_state), ()
        case InputCommitted():
            return _committed(session, fact)
        case InputTranscribed(item_id=item_id, transcript=transcript):
            item = session.item(item_id)
            if item is None:
                return session, ()
            item = replace(item, transcript=transcript, transcribing=False, remembered=bool(transcript))
            return session.with_item(item), ()
        case CommitRepeated():
            return replace(session, input=heard.emptied(sealed=True)), ()
        case SilenceCommitted() | InputCleared():
            session = replace(session, input=heard.emptied(sealed=True), turn_state="idle")
            return session, (AskModel(ResetInput(epoch=session.epoch)),)
        case EpochAdvanced(cleared_input=True) | ResponseFinished(cleared_input=True):
            session = replace(session, input=heard.emptied(sealed=True), input_epoch=fact.epoch)
            return session, (AskModel(ResetInput(epoch=fact.epoch)),)
    return session, ()


def _appended(session: Session, fact: AudioAppended) -> tuple[Session, tuple[Effect, ...]]:
    heard = session.input
    clock = heard.clock.after(fact.samples, fact.rate_hz)
    added_ms = clock.ms - heard.clock.ms
    is_new = bool(fact.hint) and fact.hint != heard.last_hint
    heard = replace(
        heard,
        clock=clock,
        has_audio=True,
        has_speech=heard.has_speech or fact.is_speech,
        speech_ms=heard.speech_ms + (added_ms if fact.is_speech else 0),
        transcript=f"{heard.transcript} {fact.hint}".strip() if is_new else heard.transcript,
        last_hint=fact.hint or heard.last_hint,
    )
    session = replace(session, input=heard, usage_input_ms=session.usage_input_ms + added_ms)
    feed = FeedAppended(
        epoch=session.epoch,
        end_ms=clock.ms,
        is_speech=fact.is_speech if fact.hinted else None,
        force_listen=not session.settings.auto_response,
    )
    return session, (feed,)


def _committed(session: Session, fact: InputCommitted) -> tuple[Session, tuple[Effect, ...]]:
    known = session.input.item_id == fact.item_id
    item = Item(
        id=fact.item_id,
        role="user",
        part="audio",
        transcript=fact.transcript,
        previous_item_id=session.last_item_id,
        transcribing=fact.transcribing,
        remembered=bool(fact.transcript),
    )
    session = replace(
        session.with_item(item),
        input=session.input.emptied(fact.item_id if fact.by_model else None, sealed=not fact.by_model),
        items_count=session.items_count + (0 if known else 1),
        turn_state="user_committed",
        owed=fact.item_id if fact.respond else session.owed,
    )
    if fact.by_model:
        return session, ()
    return session, (AskModel(EndTurn(epoch=session.epoch, item_id=fact.item_id, respond=fact.respond)),)
