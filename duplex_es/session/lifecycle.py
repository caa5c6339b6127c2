"""Lifecycle: a session opens, is reconfigured, is attached and left, and ends.

Source: docs/reference/realtime-api.md, "Session lifecycle".
"""

from __future__ import annotations

from ..model import OpenModel
from ..protocol import (
    AcknowledgeEvents,
    AcknowledgePlayback,
    CloseSession,
    ForkSession,
    Heartbeat,
    ProtocolError,
    RefuseCommand,
    ResumeSession,
    RetrieveItem,
    SocketAttached,
    SocketDetached,
    UpdateSession,
)
from .configuring import model_settings, opening_settings, reconfigure_model, updated_settings
from .effects import AnswerOpening, AskModel, Effect, EndSession
from .events import (
    CommandRejected,
    ExpiryAnnounced,
    Fact,
    HeartbeatAnswered,
    SessionClosed,
    SessionExpired,
    SessionForked,
    SessionOpened,
    SessionReconfigured,
    SessionRefused,
    SocketChanged,
    WorkerChanged,
)
from .history import history
from .inputs import Input, ModelLost, OpenAs, TimerFired
from .refusals import known_code, refuse
from .responses import finish, start_response
from .state import Session, replace
from .usage import closed

DISCONNECT_GRACE_S = 30.0
FORK_GRACE_S = 600.0
"""A copy of a session waits so long for its first client, who may be a person with a ticket to paste."""
MAX_IDLE_S = 7 * 86_400.0
"""The longest silence a client can ask for; no timer runs longer."""
IDLE_TIMER = "idle"
IDLE_TTL_TIMER = "idle_ttl"
IDLE_TTL_LATER_MS = 1_000
"""It ends a session later than a client's own timer of the same length, which has more to say."""
GRACE_TIMER = "disconnect_grace"
SILENCE_TIMER = "caller_silence"
EXPIRY_TIMER = "session_expiry"
EXPIRY_WARNING_TIMER = "session_expiry_warning"
EXPIRY_WARNING_MS = 30_000
"""So long before its end the client of a session that may last only so long is told; of a short one, half of it."""
EXPIRY_REASON = "max_session_duration"


def timers(
    session: Session, idle_ttl_s: float | None = None, disconnect_grace_s: float = DISCONNECT_GRACE_S
) -> dict[str, int]:
    """The timers this state asks for, name to milliseconds. A silent client is timed out, an absent one waited for.

    A caller who says nothing after an answer is spoken to again, once, where the client asks for that. The deployment
    lets a session lie idle for ``idle_ttl_s``, whatever silence its client asked for, and waits ``disconnect_grace_s``
    for a client that is gone; longer for the first one of a copy.
    """
    if session.state != "open":
        return {}
    expiry = _expiry_timers(session)
    if idle_ttl_s is not None:
        expiry[IDLE_TTL_TIMER] = int(min(idle_ttl_s, MAX_IDLE_S) * 1000) + IDLE_TTL_LATER_MS
    if not session.attached:
        grace_s = max(disconnect_grace_s, FORK_GRACE_S) if session.awaits_first else disconnect_grace_s
        return {GRACE_TIMER: int(min(grace_s, MAX_IDLE_S) * 1000), **expiry}
    wanted = {**expiry, IDLE_TIMER: int(min(session.settings.idle_timeout_s, MAX_IDLE_S) * 1000)}
    silence_ms = (session.settings.turn_detection or {}).get("idle_timeout_ms")
    if isinstance(silence_ms, int) and _awaits_caller(session):
        wanted[SILENCE_TIMER] = min(silence_ms, int(MAX_IDLE_S * 1000))
    return wanted


def _expiry_timers(session: Session) -> dict[str, int]:
    """When the session is over, and when its client is told so."""
    if session.ends_at_ms is None:
        return {}
    left_ms = max(0, session.ends_at_ms - session.timed_from_ms)
    if session.expiry_told:
        return {EXPIRY_TIMER: left_ms}
    return {EXPIRY_TIMER: left_ms, EXPIRY_WARNING_TIMER: left_ms - min(EXPIRY_WARNING_MS, left_ms // 2)}


def keeps_alive(said: Input) -> bool:
    """Whether the session is not idle while this comes: not where the client only reports, reads, or is refused."""
    return not isinstance(said, AcknowledgePlayback | AcknowledgeEvents | RetrieveItem | RefuseCommand)


def _is_working(session: Session) -> bool:
    """Whether something is being done that the session must not be taken away from."""
    busy = (session.response, session.begun, session.owed, session.waiting)
    return session.is_transcribing or any(one is not None for one in busy)


def _awaits_caller(session: Session) -> bool:
    """Whether the caller was answered and has not said anything since."""
    busy = (session.response, session.begun, session.owed, session.waiting, session.input.item_id)
    if session.input.has_speech or any(one is not None for one in busy) or len(session.items) < 2:
        return False
    before, newest = session.items[-2:]
    answered = newest.response_id is not None and newest.type == "message" and newest.status == "completed"
    return answered and before.response_id is None and session.info is not None and session.info.takes_text_turns


def open_model(session: Session) -> OpenModel:
    """The request that begins the session's model, or rebuilds it from the history after a takeover."""
    return OpenModel(
        session_id=session.id,
        incarnation=session.incarnation,
        epoch=session.epoch,
        history=history(session),
        resumed=bool(session.items) or session.begun is not None,
        memory=session.memory,
        open_turn=session.response.turn if session.memory and session.response else None,
        **model_settings(session.settings),
    )


# -- opening and settings ------------------------------------------------------------------------------------------


def decide_open(session: Session, opening: OpenAs, now_ms: int) -> tuple[Fact, ...]:
    """Open with the client's settings, or refuse with the field that cannot be."""
    if session.state != "new":
        return refuse(opening.command, "bad_event", "The session is open already.", "type")
    command = opening.command
    try:
        settings = opening_settings(command.session, opening.info, opening.model)
    except ProtocolError as error:
        event_id = command.event_id if isinstance(command.event_id, str) else None
        return (SessionRefused(code=error.code, message=error.message, param=error.param, event_id=event_id),)
    return (
        SessionOpened(
            session_id=opening.session_id,
            incarnation=opening.incarnation,
            info=opening.info,
            settings=settings,
            updated=command.updated,
            event_id=command.event_id if isinstance(command.event_id, str) else None,
            dialect=command.dialect,
            opened_at_ms=0 if opening.max_session_s is None else now_ms,
            ends_at_ms=None if opening.max_session_s is None else now_ms + int(opening.max_session_s * 1000),
        ),
    )


def decide_update(session: Session, command: UpdateSession, now_ms: int) -> tuple[Fact, ...]:
    """Replace the settings, or refuse and keep every one of the old."""
    try:
        settings = updated_settings(session, command.session)
    except ProtocolError as error:
        return refuse(command, error.code, error.message, error.param)
    return (SessionReconfigured(settings=settings),)


# -- small commands ------------------------------------------------------------------------------------------------


def decide_heartbeat(session: Session, command: Heartbeat, now_ms: int) -> tuple[Fact, ...]:
    """Answer a heartbeat."""
    return (HeartbeatAnswered(),)


def decide_acknowledge_events(session: Session, command: AcknowledgeEvents, now_ms: int) -> tuple[Fact, ...]:
    """Only acknowledgements that name a frame nobody sent come this far; the gateway takes the others."""
    return refuse(
        command,
        "invalid_event_ack",
        f"server_event_seq {command.server_event_seq} was never sent; acknowledge the last one you received.",
        "server_event_seq",
    )


def decide_late_resume(session: Session, command: ResumeSession, now_ms: int) -> tuple[Fact, ...]:
    """A socket that holds a session cannot take up another."""
    return refuse(command, "unsupported_session_resume", "session.resume must be the first event on a socket.", "type")


def decide_refused(session: Session, refusal: RefuseCommand, now_ms: int) -> tuple[Fact, ...]:
    """Answer, in order, for a frame that was no command."""
    return refuse(refusal, refusal.code, refusal.message, refusal.param)


# -- sockets -------------------------------------------------------------------------------------------------------


def decide_attached(session: Session, attached: SocketAttached, now_ms: int) -> tuple[Fact, ...]:
    """Note which socket holds the session now."""
    if attached.generation <= session.generation:
        return ()
    return (SocketChanged(generation=attached.generation, attached=True, dialect=attached.dialect),)


def decide_detached(session: Session, detached: SocketDetached, now_ms: int) -> tuple[Fact, ...]:
    """The current socket is gone: wait for a resume, or end the session if its model cannot be resumed."""
    if detached.generation != session.generation or not session.attached:
        return ()
    left = SocketChanged(generation=detached.generation, attached=False, dialect=session.dialect)
    resumable = session.info is not None and session.info.capabilities.supports_session_resume is True
    if session.state == "open" and not resumable:
        return left, *_ended(session, "disconnect")
    return (left,)


def decide_forked(session: Session, forked: ForkSession, now_ms: int) -> tuple[Fact, ...]:
    """Note where the session was copied from; the socket that held it then is the original's."""
    return (SessionForked(session_id=forked.session_id, incarnation=forked.incarnation, seq=forked.seq),)


# -- ends ----------------------------------------------------------------------------------------------------------


def decide_close(session: Session, command: CloseSession, now_ms: int) -> tuple[Fact, ...]:
    """End the session; a live answer is cancelled first."""
    return _ended(session, "session_close")


def _ended(session: Session, reason: str) -> tuple[Fact, ...]:
    if session.response is None:
        return (closed(session, reason),)
    return finish(session, "cancelled", reason=reason), closed(session, reason)


def decide_timer(session: Session, fired: TimerFired, now_ms: int) -> tuple[Fact, ...]:
    """End a session whose client fell silent or did not come back, or that has lasted as long as it may."""
    if fired.name == IDLE_TIMER and session.attached:
        return _ended(session, "timeout")
    if fired.name == SILENCE_TIMER and SILENCE_TIMER in timers(session):
        return (start_response(session, generate=True),)
    if fired.name == EXPIRY_WARNING_TIMER and fired.name in timers(session):
        left_ms = 0 if session.ends_at_ms is None else session.ends_at_ms - now_ms
        return (ExpiryAnnounced(grace_ms=max(0, left_ms)),)
    if fired.name == EXPIRY_TIMER and session.ends_at_ms is not None:
        return _expired(session, EXPIRY_REASON)
    if fired.name == IDLE_TTL_TIMER and not _is_working(session):
        return _expired(session, "idle_ttl_expired")
    if fired.name == GRACE_TIMER and not session.attached:
        return _expired(session, "disconnect_grace_expired")
    return ()


def _expired(session: Session, reason: str) -> tuple[Fact, ...]:
    expired = SessionExpired(reason=reason)
    return (expired,) if session.response is None else (finish(session, "cancelled", reason=reason), expired)


def decide_model_lost(session: Session, lost: ModelLost, now_ms: int) -> tuple[Fact, ...]:
    """Without a model there is no session: refuse the opening, or end what was open with an error before it."""
    code = known_code(lost.code, "runtime_open_failed")
    # What came right after the opening may have been decided already: even then a response has its end.
    ended = () if session.response is None else (finish(session, "failed", reason=code),)
    if lost.opening:
        return *ended, SessionRefused(code=code, message=lost.message, param=lost.param, event_id=session.opened_by)
    rejected = CommandRejected(code=code, message=lost.message, param=lost.param)
    return rejected, *ended, closed(session, code)


# -- folding -------------------------------------------------------------------------------------------------------


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one lifecycle fact. Total."""
    match fact:
        case SessionOpened():
            opened = replace(
                session,
                id=fact.session_id,
                incarnation=fact.incarnation,
                state="open",
                info=fact.info,
                settings=fact.settings,
                opened_by=fact.event_id,
                dialect=fact.dialect,
                ends_at_ms=fact.ends_at_ms,
                timed_from_ms=fact.opened_at_ms,
            )
            return opened, (AskModel(open_model(opened)), AnswerOpening())
        case SessionRefused():
            refusal = RefuseCommand(code=fact.code, message=fact.message, param=fact.param, event_id=fact.event_id)
            return replace(session, state="closed"), (AnswerOpening(refusal=refusal), EndSession("refused"))
        case SessionReconfigured(settings=settings):
            return replace(session, settings=settings), (AskModel(reconfigure_model(settings)),)
        case SocketChanged(generation=generation, attached=attached, dialect=dialect):
            generation = max(generation, session.generation)
            awaits = session.awaits_first and not attached
            return replace(
                session, generation=generation, attached=attached, dialect=dialect, awaits_first=awaits
            ), ()
        case SessionForked():
            return replace(session, attached=False, awaits_first=True), ()
        case SessionClosed(reason=reason) | SessionExpired(reason=reason):
            return replace(session, state="closed", response=None), (EndSession(reason),)
        case WorkerChanged():
            return replace(session, owed=None, begun=None, timed_from_ms=fact.at_ms), ()
        case ExpiryAnnounced():
            return replace(session, expiry_told=True), ()
    return session, ()
