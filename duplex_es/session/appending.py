"""Caller audio and typed text on their way in: what an append is, where speech begins, what the model is fed.

Source: docs/reference/realtime-api.md, "Input".
"""

from __future__ import annotations

from msgspec import UNSET

from ..protocol import AppendAudio, AppendText, ProtocolError
from .cancelling import interruption
from .committing import commit_detected, next_item_id
from .effects import Effect, FeedAppended
from .events import (
    AudioAppended,
    Fact,
    OverlapDecided,
    ResponseFinished,
    SpeechStarted,
    SpeechStopped,
    TextAppended,
    TurnEndedEmpty,
)
from .inputs import AudioArrived, VadVerdict
from .overlap import BARGE_IN, Piece, is_told, overlap_decision, wants_barge_in
from .refusals import refuse
from .sound import appended_sound, check_detectable, is_speech
from .state import Overlap, Session, replace

MAX_PENDING_BYTES = 16 * 1024 * 1024
"""How much sound, as 32 bit samples, may wait for its turn to end where a model takes whole turns."""

# -- deciding ------------------------------------------------------------------------------------------------------


def decide_append(session: Session, arrived: AudioArrived, now_ms: int) -> tuple[Fact, ...]:
    """Count the audio, note where speech begins and what it means over an answer, and end the turn a detector ended.

    Refused with the buffer unchanged is only what cannot be understood, and what is more than may wait. A wish to
    interrupt a model that cannot be is refused too, but the audio is taken all the same.
    """
    command = arrived.command
    try:
        sound, data = appended_sound(session.settings, command)
        if arrived.vad is not None and session.is_chat_lane:
            check_detectable(sound, session.input)
    except ProtocolError as error:
        return refuse(command, error.code, error.message, error.param)
    samples = sound.samples(len(data))
    pending_samples = _pending_ms(session, arrived.vad) * sound.sample_rate_hz // 1000
    if pending_samples and (pending_samples + samples) * 4 > MAX_PENDING_BYTES:
        rule = f"{pending_samples / sound.sample_rate_hz:.0f} s of audio wait for the turn to end; commit or clear them"
        return refuse(command, "input_backpressure", f"audio: {rule}, then append.", "audio")
    speech = arrived.vad.is_speech if arrived.vad else is_speech(session.settings, command, arrived.rms)
    counted = session.forced < _forced_appends(session)
    appended = AudioAppended(
        samples=samples,
        rate_hz=sound.sample_rate_hz,
        is_speech=speech,
        hinted=arrived.vad is not None or command.speech_verdict is not None,
        hint=command.transcript_hint.strip(),
        overlaps=session.in_progress and not session.is_chat_lane,
        forced=counted or command.force_listen is True or (arrived.vad is not None and arrived.vad.speech_active),
        counted=counted,
    )
    piece = Piece(
        is_speech=speech,
        duration_ms=_duration_ms(command, samples, sound.sample_rate_hz),
        vad_start=_vad_start(command, arrived.vad),
    )
    facts = _taken(session, arrived, appended, overlap_decision(session, command, piece))
    if wants_barge_in(command) and not _can_barge_in(session):
        message = "This model cannot be interrupted (capabilities.supports_barge_in is false); the audio is taken."
        facts = *refuse(command, "barge_in_unsupported", message), *facts
    return facts


def _pending_ms(session: Session, vad: VadVerdict | None) -> int:
    """How much audio waits for a turn-based model; with a detector, of the utterance that it does not hear end here."""
    heard = session.input
    if not session.is_chat_lane:
        return 0  # hears what is said as it comes
    if vad is None:
        return heard.buffered_ms
    goes_on = heard.start_ms is not None and not heard.speech_stopped and not vad.speech_stopped
    return max(0, heard.clock.ms - (heard.start_ms or 0)) if goes_on else 0


def _taken(
    session: Session, arrived: AudioArrived, appended: AudioAppended, decided: OverlapDecided | None
) -> tuple[Fact, ...]:
    """The facts of an append that was understood, in the order they happened."""
    command, heard, vad = arrived.command, session.input, arrived.vad
    if decided is not None and decided.buffer_audio is False:
        return _not_kept(session, arrived, appended, decided)
    facts: list[Fact] = []
    if decided is not None:
        if is_told(session, command, decided):
            facts.append(decided)
        if decided.resets or decided.action == BARGE_IN:
            appended = replace(appended, overlaps=False)
    hears = appended.is_speech and not _model_ends_turns(session)
    begins = hears if vad is None else vad.speech_started
    if begins and (heard.item_id is None or (vad is not None and heard.speech_stopped)):
        facts.append(_started(session, command, vad))
    if decided is not None and decided.action == BARGE_IN:
        facts += interruption(session, decided.cancel_reason or BARGE_IN)
    return *facts, appended, *_detected_end(session, appended, vad)


def _not_kept(
    session: Session, arrived: AudioArrived, appended: AudioAppended, decided: OverlapDecided
) -> tuple[Fact, ...]:
    """Audio that is not kept for the next turn. What was said before it is, unless the decision is to forget that."""
    heard = session.input
    facts: list[Fact] = [decided] if is_told(session, arrived.command, decided) else []
    if decided.forgets and heard.item_id is not None and not heard.speech_stopped:
        facts.append(SpeechStopped(item_id=heard.item_id, end_ms=heard.clock.ms, kept=False))
    keeps = not decided.forgets and heard.item_id is not None
    appended = replace(appended, dropped=not keeps, overlaps=False)
    return *facts, appended, *(_detected_end(session, appended, arrived.vad) if keeps else ())


def _started(session: Session, command: AppendAudio, vad: VadVerdict | None) -> SpeechStarted:
    if vad is not None:
        start_ms = session.input.clock.ms if vad.start_ms is None else vad.start_ms
        start_ms = max(start_ms, session.input.since_ms)
    else:
        start_ms = command.audio_start_ms if command.audio_start_ms is not UNSET else session.input.clock.ms
    item_id = session.input.item_id or next_item_id(session)
    return SpeechStarted(item_id=item_id, start_ms=max(0, start_ms), detected=vad is not None)


def _detected_end(session: Session, appended: AudioAppended, vad: VadVerdict | None) -> tuple[Fact, ...]:
    """What follows if a detector heard the utterance end in it: with a turn-based model that ends the turn."""
    heard = session.input
    if vad is None or not vad.speech_stopped or heard.item_id is None or heard.speech_stopped:
        return ()
    clock = heard.clock.after(appended.samples, appended.rate_hz)
    end_ms = max(0, clock.ms if vad.end_ms is None else vad.end_ms)
    if session.is_chat_lane:
        return commit_detected(session, end_ms=end_ms, audio_ms=max(0, clock.ms - (heard.start_ms or heard.since_ms)))
    return (SpeechStopped(item_id=heard.item_id, end_ms=end_ms),)


def _vad_start(command: AppendAudio, vad: VadVerdict | None) -> bool | None:
    """Whether an utterance began in this append; ``None`` where no detector, the client's included, says."""
    if vad is not None:
        return vad.speech_started
    if command.vad is not UNSET and command.vad.speech_started is not UNSET:
        return command.vad.speech_started
    return None


def _duration_ms(command: AppendAudio, samples: int, rate_hz: int) -> int:
    said = command.duration_ms
    return max(0, said) if isinstance(said, int) else samples * 1000 // rate_hz


def _forced_appends(session: Session) -> int:
    """How many appends at the start of every turn the client wants the model to only listen to."""
    count = session.settings.extra_body.get("force_listen_count")
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def _can_barge_in(session: Session) -> bool:
    return session.info is not None and session.info.capabilities.supports_barge_in is True


def _model_ends_turns(session: Session) -> bool:
    """Whether the model's own endpointing, not the audio's loudness, says where speech begins and ends."""
    return session.info is not None and session.info.ends_turns


def decide_append_text(session: Session, command: AppendText, now_ms: int) -> tuple[Fact, ...]:
    """Add typed text to the open input item of a turn-based model; one that listens all the time refuses it."""
    if session.is_chat_lane:
        return (TextAppended(text=command.text),)
    return refuse(
        command,
        "native_text_append_unsupported",
        "This model takes audio input; send text with conversation.item.create.",
        "type",
    )


# -- folding -------------------------------------------------------------------------------------------------------


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one fact about uncommitted input. Total; a fact that no longer fits changes nothing."""
    heard = session.input
    match fact:
        case AudioAppended():
            return _appended(session, fact)
        case TextAppended(text=text):
            return replace(session, input=replace(heard, text=heard.text + text), turn_state="user_speaking"), ()
        case SpeechStarted(item_id=item_id):
            count = session.items_count + (0 if heard.item_id == item_id else 1)
            if fact.detected:
                start_ms = fact.start_ms if heard.start_ms is None else heard.start_ms
                heard = replace(heard, start_ms=start_ms)
            heard = replace(heard, item_id=item_id, speech_started=True, speech_stopped=False)
            return replace(session, input=heard, items_count=count, turn_state="user_speaking"), ()
        case SpeechStopped(kept=kept):
            if kept:
                return replace(session, input=replace(heard, speech_stopped=True)), ()
            turn_state = "idle" if session.response is None else session.turn_state
            left = heard.emptied(heard.model_item_id, sealed=heard.sealed)
            return replace(session, input=left, turn_state=turn_state), ()
        case ResponseFinished() | TurnEndedEmpty():
            return (replace(session, forced=0), ()) if session.forced else (session, ())
    return session, ()


def _appended(session: Session, fact: AudioAppended) -> tuple[Session, tuple[Effect, ...]]:
    heard = session.input
    clock = heard.clock.after(fact.samples, fact.rate_hz)
    added_ms = clock.ms - heard.clock.ms
    session = replace(
        session,
        usage_input_ms=session.usage_input_ms + added_ms,
        forced=session.forced + (1 if fact.counted else 0),
    )
    if fact.dropped:
        return replace(session, input=replace(heard, clock=clock)), ()
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
    over = session.overlap
    if fact.overlaps and fact.is_speech:
        over = Overlap(over.speech_ms + added_ms, over.shown)
    session = replace(session, input=heard, overlap=over)
    feed = FeedAppended(
        epoch=session.epoch,
        end_ms=clock.ms,
        is_speech=fact.is_speech if fact.hinted else None,
        force_listen=fact.forced or not session.settings.auto_response,
        part=fact.part,
    )
    return session, (feed,)
