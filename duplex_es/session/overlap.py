"""Speech over an answer: what it means, for models that leave the decision to the session.

One table, read from the top, first match. A decision that goes on as it was is not told again; what a client asked for
by a hint always is. Source: docs/reference/realtime-api.md, "Overlap".
"""

from __future__ import annotations

import unicodedata

import msgspec

from ..model import ResetInput
from ..protocol import AppendAudio
from .effects import AskModel, Effect
from .events import (
    EpochAdvanced,
    Fact,
    OverlapDecided,
    ResponseFinished,
    ResponseStarted,
)
from .state import Overlap, Session, replace

BARGE_IN, LISTEN, DROP = "barge_in", "listen", "drop"

BARGE_IN_HINTS = frozenset({"barge_in", "interrupt", "cancel"})
LISTEN_HINTS = frozenset({"listen", "continue", "continue_output", "ack"})
DROP_HINTS = frozenset({"drop", "ignore", "silence"})

SHORT_ACKNOWLEDGEMENTS = frozenset(
    [
        "yes",
        "yeah",
        "yep",
        "ok",
        "okay",
        "continue",
        "goon",
        "right",
        "go on",
        "keep going",
        "please continue",
        "嗯",
        "嗯嗯",
        "对",
        "对的",
        "好",
        "好的",
        "继续",
        "继续说",
        "可以",
        "是的",
    ]
)


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One append as the table sees it. ``vad_start`` is a detector's word on whether an utterance began in it."""

    is_speech: bool
    duration_ms: int
    vad_start: bool | None = None


def wants_barge_in(command: AppendAudio) -> bool:
    """Whether the append itself asks for an interruption."""
    return command.force_barge_in is True or _hint(command) in BARGE_IN_HINTS


def is_short_acknowledgement(words: str) -> bool:
    """Whether ``words`` only mean "go on": punctuation and case do not count."""
    plain = "".join(" " if unicodedata.category(char)[0] in "PZ" else char for char in words.lower())
    return " ".join(plain.split()) in SHORT_ACKNOWLEDGEMENTS


def overlap_decision(session: Session, command: AppendAudio, piece: Piece) -> OverlapDecided | None:
    """What this append over an answer means; ``None`` where there is nothing to decide.

    A model that ends turns by itself decides by itself; only what the client asks for outright is decided for it.
    """
    if not session.in_progress or session.is_chat_lane:
        return None
    total_ms = session.overlap.speech_ms + (piece.duration_ms if piece.is_speech else 0)
    said = Told(session=session, command=command, piece=piece, total_ms=total_ms)
    decided = _asked_for(said)
    if decided is None and session.judges_speech:
        decided = _of_itself(said) if session.settings.auto_response else _by_policy(said)
    return decided


def is_told(session: Session, command: AppendAudio, decided: OverlapDecided) -> bool:
    """Whether the client hears of the decision: it is another than the last one, or it asked for it."""
    asked = _hint(command) or command.force_barge_in is True or command.force_listen is True
    return bool(asked) or session.overlap.shown != _name(decided)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """All that a row of the table looks at."""

    session: Session
    command: AppendAudio
    piece: Piece
    total_ms: int

    @property
    def can_barge_in(self) -> bool:
        """Whether the model can be interrupted."""
        info = self.session.info
        return info is not None and info.capabilities.supports_barge_in is True

    @property
    def barges_in(self) -> bool:
        """Whether the policy is to interrupt."""
        return self.session.settings.overlap_policy == "barge_in_on_speech"

    def decided(self, action: str, reason: str, **details: bool | str | None) -> OverlapDecided:
        """The decision, with what it counts."""
        return OverlapDecided(
            policy=self.session.settings.overlap_policy,
            action=action,
            reason=reason,
            overlap_ms=self.total_ms,
            duration_ms=self.piece.duration_ms,
            **details,  # type: ignore[arg-type]
        )

    def barge_in(self, reason: str) -> OverlapDecided:
        """Interrupt."""
        cause = "turn_detected" if self.piece.vad_start is True else "barge_in"
        return self.decided(BARGE_IN, reason, buffer_audio=True, cancel_reason=cause)

    def listen(self, reason: str, *, buffer: bool, resets: bool = False) -> OverlapDecided:
        """Let the answer go on; what is said is kept for the next turn, or forgotten."""
        return self.decided(
            LISTEN,
            reason,
            buffer_audio=buffer,
            defer_runtime_append=True,
            force_listen=True,
            resets=resets,
            forgets=not buffer,
        )


def _asked_for(said: Told) -> OverlapDecided | None:
    """Rows for what the client asks for: an interruption, to go on, to drop it."""
    hint, piece = _hint(said.command), said.piece
    short_ms = said.session.settings.overlap_short_ack_ms
    if wants_barge_in(said.command):
        if not said.can_barge_in:
            return said.listen("barge_in_unsupported", buffer=piece.is_speech)
        return said.barge_in("client_overlap_action" if hint in BARGE_IN_HINTS else "client_force_barge_in")
    if hint in LISTEN_HINTS:
        keeps = hint == "listen" and piece.is_speech and piece.duration_ms > short_ms
        return said.listen("client_overlap_action", buffer=keeps, resets=True)
    if hint in DROP_HINTS:
        return said.decided(DROP, "client_overlap_action", buffer_audio=False, resets=True, forgets=True)
    return None


def _of_itself(said: Told) -> OverlapDecided | None:
    """Rows for a model that decides by itself when to speak: its audio flows on, unless the policy interrupts."""
    piece = said.piece
    if not piece.is_speech:
        return None
    if said.barges_in and said.can_barge_in and piece.vad_start is not False:
        return said.barge_in("server_vad_speech_started" if piece.vad_start else "barge_in_on_speech")
    return said.decided(
        LISTEN,
        "auto_response_continuous",
        buffer_audio=True,
        defer_runtime_append=False,
        force_listen=said.command.force_listen is True,
        preserve_realtime_input=True,
    )


def _by_policy(said: Told) -> OverlapDecided:
    """Rows for a client that commits by itself."""
    piece, settings = said.piece, said.session.settings
    if said.command.force_listen is True:
        return said.listen("client_force_listen", buffer=piece.is_speech, resets=True)
    if not piece.is_speech:
        return said.decided(DROP, "silence_or_noise", buffer_audio=False)
    if is_short_acknowledgement(said.command.transcript_hint):
        return said.listen("short_ack_transcript", buffer=False, resets=True)
    if not said.barges_in:
        if said.total_ms <= settings.overlap_short_ack_ms:
            return said.listen("short_ack", buffer=True)
        is_long = said.total_ms >= settings.overlap_barge_in_ms
        return said.listen("long_overlap_speech" if is_long else "accumulating_overlap_speech", buffer=True)
    if not said.can_barge_in:
        return said.listen("barge_in_unsupported", buffer=True)
    if piece.vad_start is False:
        return said.decided(
            LISTEN,
            "server_vad_utterance_active",
            buffer_audio=True,
            defer_runtime_append=False,
            force_listen=True,
            preserve_realtime_input=True,
        )
    return said.barge_in("server_vad_speech_started" if piece.vad_start else "policy_barge_in_on_speech")


def _hint(command: AppendAudio) -> str:
    return command.overlap_action.strip().lower() if isinstance(command.overlap_action, str) else ""


def _name(decided: OverlapDecided) -> str:
    return f"{decided.action} {decided.reason}"


# -- what a model decides by itself --------------------------------------------------------------------------------


def model_decision(session: Session, action: str, reason: str, *, buffer: bool) -> tuple[Fact, ...]:
    """How a model that ends turns by itself takes speech over its answer, told in the same words; nothing otherwise."""
    if not session.in_progress or session.info is None or not session.info.ends_turns:
        return ()
    decided = OverlapDecided(
        policy=session.settings.overlap_policy,
        action=action,
        reason=reason,
        overlap_ms=session.overlap.speech_ms,
        buffer_audio=buffer,
        cancel_reason="barge_in" if action == BARGE_IN else None,
        resets=not buffer,
    )
    return (decided,) if session.overlap.shown != _name(decided) else ()


# -- folding -------------------------------------------------------------------------------------------------------


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one fact as far as it is about speech over an answer. Total. Every answer begins with none."""
    match fact:
        case OverlapDecided():
            speech_ms = 0 if fact.resets or fact.forgets else session.overlap.speech_ms
            session = replace(session, overlap=Overlap(speech_ms, _name(fact)))
            if not fact.forgets:
                return session, ()
            heard = session.input
            left = heard.emptied(heard.model_item_id, sealed=heard.sealed)
            return replace(session, input=left), (AskModel(ResetInput(epoch=session.epoch)),)
        case ResponseStarted() | ResponseFinished() | EpochAdvanced():
            return replace(session, overlap=Overlap()), ()
    return session, ()
