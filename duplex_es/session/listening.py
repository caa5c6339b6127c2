"""What the model hears by itself: where speech begins and ends, and turns that it ends without being told.

Source: docs/reference/realtime-api.md, "Input".
"""

from __future__ import annotations

from ..model import ModelHeardSpeech, ModelHeardSpeechEnd, ModelHeardTurn, ModelHeardWords
from .committing import next_item_id
from .events import Fact, InputCommitted, InputTranscribed, SpeechStarted, SpeechStopped, TranscriptGrown
from .overlap import LISTEN, model_decision
from .state import Session


def _is_stale_hearing(session: Session, epoch: int) -> bool:
    """Hearing survives an interruption of the answer, but not a clear of the input it belongs to."""
    return session.state != "open" or epoch < session.input_epoch


def decide_heard_speech(session: Session, signal: ModelHeardSpeech, now_ms: int) -> tuple[Fact, ...]:
    """Open the item that this utterance will become; speech that a commit has taken in already opens none."""
    heard = session.input
    if _is_stale_hearing(session, signal.epoch) or heard.item_id is not None or signal.start_ms < heard.since_ms:
        return ()
    started = SpeechStarted(item_id=next_item_id(session), start_ms=max(0, signal.start_ms))
    return *model_decision(session, LISTEN, "accumulating_overlap_speech", buffer=True), started


def decide_heard_speech_end(session: Session, signal: ModelHeardSpeechEnd, now_ms: int) -> tuple[Fact, ...]:
    """Close the utterance; one that leads to no turn is forgotten."""
    item_id = session.input.item_id
    if _is_stale_hearing(session, signal.epoch) or item_id is None or session.input.speech_stopped:
        return ()
    decided = () if signal.is_turn else model_decision(session, LISTEN, "short_ack", buffer=False)
    return *decided, SpeechStopped(item_id=item_id, end_ms=max(0, signal.end_ms), kept=signal.is_turn)


def decide_heard_turn(session: Session, signal: ModelHeardTurn, now_ms: int) -> tuple[Fact, ...]:
    """Complete a committed item with its transcript, or commit the turn that the model ended by itself."""
    if signal.item_id is not None:
        item = session.item(signal.item_id)
        if session.state != "open" or item is None or not item.transcribing:
            return ()
        return (InputTranscribed(item_id=item.id, transcript=signal.transcript.strip(), failed=signal.failed),)
    if _is_stale_hearing(session, signal.epoch):
        return ()
    heard = session.input
    if heard.item_id is None:
        committed = next((item for item in reversed(session.items) if item.transcribing), None)
        if committed is not None:
            # The client committed while the model was ending the same turn: one turn, one item.
            words = signal.transcript.strip()
            return (InputTranscribed(item_id=committed.id, transcript=words, failed=signal.failed),)
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
            audio_ms=max(0, signal.audio_ms),
        )
    )
    return tuple(facts)


def decide_heard_words(session: Session, signal: ModelHeardWords, now_ms: int) -> tuple[Fact, ...]:
    """Show words of a transcript that is still to come; of any other they say nothing new."""
    waiting = [item for item in session.items if item.transcribing and signal.item_id in (None, item.id)]
    if session.state != "open" or not waiting or not signal.text:
        return ()
    return (TranscriptGrown(item_id=waiting[-1].id, text=signal.text),)
