"""Playback truth: how far the caller heard each answer, and what of it stays in the history.

Source: docs/reference/realtime-api.md, "Playback".
"""

from __future__ import annotations

from ..protocol import AcknowledgePlayback, PlaybackLedger, TruncateItem, wire_name
from .effects import Effect
from .events import Fact, ItemTruncated, PlaybackAcknowledged
from .refusals import refuse
from .state import Item, Session, replace


def kept_characters(item: Item, position_ms: int) -> int:
    """How many characters of the transcript were heard at ``position_ms`` of the answer's audio.

    Interpolates between the marks that tie text to audio; without marks, proportionally to the duration. Monotone in
    ``position_ms``, 0 at 0, the whole length at or after the end.
    """
    length, end_ms = len(item.transcript), max(item.ledger.sent_ms, item.ledger.generated_ms)
    if position_ms <= 0 or length == 0:
        return 0
    if not item.marks:
        return min(length, length * position_ms // max(1, end_ms))
    chars_before, ms_before = 0, 0
    final_ms = max(end_ms, max(ms for _, ms in item.marks))
    if position_ms >= final_ms:
        return length
    points = [*sorted(item.marks, key=lambda mark: mark[1]), (length, final_ms)]
    for chars, at_ms in points:
        chars, at_ms = min(max(chars, chars_before), length), max(at_ms, ms_before)
        if at_ms >= position_ms:
            span_ms = max(1, at_ms - ms_before)
            return chars_before + (chars - chars_before) * (position_ms - ms_before) // span_ms
        chars_before, ms_before = chars, at_ms
    return length


def heard_text(item: Item, position_ms: int) -> str:
    """The transcript as far as it was heard at ``position_ms``, trailing space removed."""
    return item.transcript[: kept_characters(item, position_ms)].rstrip()


def heard_ms(item: Item) -> int:
    """How far the caller is known to have heard a finished answer: what it confirmed, or, where it never reports
    playback, what was sent."""
    return item.ledger.committed_ms if item.acked else item.ledger.sent_ms


def remembered_text(item: Item) -> str:
    """What the history holds of an assistant item: all of it, the heard part, and never beyond a truncation."""
    if item.part == "text":
        return item.text
    limit_ms = heard_ms(item) if item.heard_only else None
    if item.cap_ms is not None:
        limit_ms = item.cap_ms if limit_ms is None else min(limit_ms, item.cap_ms)
    spoken = item.transcript if limit_ms is None else heard_text(item, limit_ms)
    return " ".join(part for part in (spoken.strip(), item.text) if part)


def settle(session: Session, item: Item, status: str) -> Item:
    """``item`` as it enters the history when its answer ends with ``status``.

    A completed answer is remembered whole unless the client confirmed only a part of it; an answer that was cut short
    and, under ``ack_only``, every answer is remembered as far as it was heard.
    """
    ledger = item.ledger
    ack_only = session.settings.playback_commit_policy == "ack_only"
    partly = 0 < ledger.committed_ms < ledger.sent_ms
    whole = status == "completed" and not ack_only
    item = replace(
        item,
        status=status,
        heard_only=ledger.sent_ms > 0 and (partly or not whole),
        acked=item.acked or session.acks_playback or ack_only,
    )
    return replace(item, remembered=is_remembered(item))


def is_remembered(item: Item) -> bool:
    """Whether a finished answer has a place in the history; one that failed or was given apart never has."""
    return not item.apart and item.status != "failed" and bool(remembered_text(item))


def decide_acknowledge(session: Session, command: AcknowledgePlayback, now_ms: int) -> tuple[Fact, ...]:
    """Move the ledger of the named answer; both positions are cumulative for that answer and never negative."""
    item = _target(session, command)
    if isinstance(item, str):
        named = (
            "response_id and item_id name different answers"
            if item == "playback_item_mismatch"
            else ("no answer of this session has this id; use the ids of response.created")
        )
        return refuse(command, item, f"playback.ack: {named}.", "item_id")
    played_ms = max(0, command.played_ms if isinstance(command.played_ms, int) else 0)
    committed_ms = max(0, command.committed_ms if isinstance(command.committed_ms, int) else played_ms)
    truncate = command.truncate is True
    if truncate and not _may_truncate(session):
        return refuse(command, "bad_event", "playback.ack: this model cannot truncate answers.", "truncate")
    after = _acknowledged(item, played_ms, committed_ms, truncate)
    before_text = remembered_text(item) if item.remembered else ""
    after_text = remembered_text(after) if after.remembered else ""
    return (
        PlaybackAcknowledged(
            item_id=item.id,
            ledger=after.ledger,
            cap_ms=after.cap_ms,
            remembered=after.remembered,
            played_ms=played_ms,
            committed_ms=committed_ms,
            truncate=truncate,
            history_committed=after_text != before_text,
        ),
    )


def _may_truncate(session: Session) -> bool:
    return session.info is not None and session.info.capabilities.supports_audio_truncate is True


def _target(session: Session, command: AcknowledgePlayback) -> Item | str:
    """The answer meant by an acknowledgement, or the code that says why there is none."""
    response_id = command.response_id if isinstance(command.response_id, str) else None
    item_id = command.item_id if isinstance(command.item_id, str) else None
    if response_id and item_id:
        item = session.item(item_id)
        if item is not None and item.response_id != response_id:
            return "playback_item_mismatch"
    elif response_id:
        item = next((one for one in session.answers() if one.response_id == response_id), None)
    elif item_id:
        item = session.item(item_id)
    elif session.response is not None:
        item = session.item(session.response.item_id)
    else:
        item = next(session.answers(), None)
    if item is None or item.role != "assistant" or item.response_id is None:
        return "playback_item_not_found"
    return item


def _acknowledged(item: Item, played_ms: int, committed_ms: int, truncate: bool) -> Item:
    """``item`` after a report; an answer that is still being given enters the history only when it ends."""
    ledger = item.ledger
    reached_ms = max(ledger.sent_ms, ledger.generated_ms)
    cap_ms = item.cap_ms
    if truncate:
        committed_ms = min(committed_ms, reached_ms)
        cap_ms = committed_ms if cap_ms is None else min(cap_ms, committed_ms)
    else:
        committed_ms = max(ledger.committed_ms, committed_ms)
    moved = PlaybackLedger(
        generated_ms=ledger.generated_ms,
        sent_ms=ledger.sent_ms,
        played_ms=max(ledger.played_ms, played_ms),
        committed_ms=committed_ms,
    )
    item = replace(item, ledger=moved, cap_ms=cap_ms, acked=True)
    return item if item.status == "in_progress" else replace(item, remembered=is_remembered(item))


def decide_truncate(session: Session, command: TruncateItem, now_ms: int) -> tuple[Fact, ...]:
    """Cut an assistant item at ``audio_end_ms``; a position beyond the audio means its end, 0 is allowed."""
    if not isinstance(command.item_id, str) or not command.item_id:
        return refuse(command, "missing_item_id", "conversation.item.truncate needs item_id.", "item_id")
    end_ms = command.audio_end_ms
    if not isinstance(end_ms, int):
        return refuse(command, "bad_event", "audio_end_ms must be a number of milliseconds, 0 or more.", "audio_end_ms")
    item = session.item(command.item_id)
    if item is None:
        message = f"{wire_name(command)}: There is no item {command.item_id!r}."
        return refuse(command, "item_not_found", message, "item_id")
    if item.response_id is None or item.type != "message" or item.part == "text":
        return refuse(command, "bad_event", "Only spoken assistant items can be truncated.", "item_id")
    if end_ms < 0:
        return refuse(command, "bad_event", "audio_end_ms must be 0 or more.", "audio_end_ms")
    index = command.content_index if isinstance(command.content_index, int) else 0
    if index != 0:
        return refuse(command, "bad_event", "content_index must be 0, the audio part.", "content_index")
    if not _may_truncate(session):
        return refuse(command, "bad_event", "This model cannot truncate answers (supports_audio_truncate).", "item_id")
    cut_ms = min(end_ms, max(item.ledger.sent_ms, item.ledger.generated_ms))
    after = _acknowledged(item, item.ledger.played_ms, cut_ms, True)
    return (
        ItemTruncated(
            item_id=item.id,
            content_index=index,
            audio_end_ms=cut_ms,
            ledger=after.ledger,
            cap_ms=after.cap_ms,
            remembered=after.remembered,
        ),
    )


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold a playback fact into the session. Total: an item that is gone changes nothing."""
    if not isinstance(fact, PlaybackAcknowledged | ItemTruncated):
        return session, ()
    item = session.item(fact.item_id)
    if item is None:
        return session, ()
    known = replace(item, ledger=fact.ledger, cap_ms=fact.cap_ms, remembered=fact.remembered, acked=True)
    session = session.with_item(known)
    if isinstance(fact, PlaybackAcknowledged):
        session = replace(session, acks_playback=True)
    return session, ()
