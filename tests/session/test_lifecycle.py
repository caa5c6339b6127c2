"""A session opens, answers small things in order, is left and found again, and ends once."""

from __future__ import annotations

import msgspec
import pytest

from duplex_es.model import Generate, Interrupt, ModelFailed, ModelSpoke, OpenModel
from duplex_es.protocol import (
    AcknowledgeEvents,
    AcknowledgePlayback,
    CancelResponse,
    CloseSession,
    ForkSession,
    Heartbeat,
    OpenSession,
    RefuseCommand,
    ResumeSession,
    RetrieveItem,
    SocketAttached,
    SocketDetached,
    StatusDetails,
    UpdateSession,
    frames,
)
from duplex_es.session.effects import AnswerOpening, AskModel, EndSession
from duplex_es.session.events import (
    CommandRejected,
    ExpiryAnnounced,
    ResponseFinished,
    ResponseStarted,
    SessionClosed,
    SessionExpired,
    SessionForked,
    SessionOpened,
    SessionRefused,
    SocketChanged,
)
from duplex_es.session.inputs import Input, ModelLost, OpenAs, TimerFired, WorkerTookOver
from duplex_es.session.lifecycle import (
    DISCONNECT_GRACE_S,
    EXPIRY_TIMER,
    EXPIRY_WARNING_TIMER,
    FORK_GRACE_S,
    GRACE_TIMER,
    IDLE_TIMER,
    IDLE_TTL_LATER_MS,
    IDLE_TTL_TIMER,
    SILENCE_TIMER,
    keeps_alive,
    open_model,
    timers,
)
from duplex_es.session.projection.session_object import session_object
from duplex_es.session.state import Session
from duplex_es.testing.scenario import Scenario
from tests.session.cast import (
    EAGER,
    PATIENT,
    answer,
    append,
    eager,
    finished,
    names,
    patient,
    plain,
    response_id,
    said,
    spoke,
    typed,
)

pytestmark = pytest.mark.unit

ATTACHED = SocketAttached(generation=1, gateway="g1")


def opening(session: dict[str, object] | None = None, **fields: object) -> OpenAs:
    command = OpenSession(session=session or {}, event_id="evt_open", **fields)  # type: ignore[arg-type]
    return OpenAs(command=command, session_id="s1", incarnation=3, model="patient", info=PATIENT)


# -- opening -------------------------------------------------------------------------------------------------------


def test_an_opening_command_opens_the_session_the_model_and_the_gateways_answer() -> None:
    scenario = Scenario().when(opening({"instructions": "be brief"}))
    scenario.then(SessionOpened).shows("session.updated").asks_for(AskModel, AnswerOpening())
    (ask, _) = scenario.effects
    assert isinstance(ask, AskModel)
    assert isinstance(ask.request, OpenModel)
    assert (ask.request.session_id, ask.request.incarnation, ask.request.instructions) == ("s1", 3, "be brief")
    assert scenario.session.state == "open"


def test_a_session_that_started_by_itself_is_not_told_of_an_update() -> None:
    Scenario().when(opening(updated=False)).then(SessionOpened).shows()


def test_an_opening_that_cannot_be_refuses_with_the_field_and_ends_the_session() -> None:
    scenario = Scenario().when(opening({"turn_detection": {"type": "model_native"}}))
    scenario.then(SessionRefused).shows().asks_for(AnswerOpening, EndSession("refused"))
    answered = scenario.effects[0]
    assert isinstance(answered, AnswerOpening)
    assert answered.refusal is not None
    assert (answered.refusal.code, answered.refusal.param) == ("unsupported_turn_detection", "turn_detection")
    assert answered.refusal.event_id == "evt_open"
    assert scenario.session.state == "closed"


def test_a_model_that_cannot_be_opened_refuses_the_opening() -> None:
    lost = ModelLost(code="ref_audio_required", message="no voice", param="session.ref_audio", opening=True)
    refused = RefuseCommand(
        code="ref_audio_required", message="no voice", param="session.ref_audio", event_id="evt_open"
    )
    scenario = Scenario().given(opening()).when(lost)
    scenario.then(SessionRefused).shows().asks_for(AnswerOpening(refusal=refused), EndSession("refused"))


def test_a_code_of_the_plug_ins_own_making_is_said_as_one_of_the_table() -> None:
    scenario = Scenario().given(opening()).when(ModelLost(code="my_fault", message="x", opening=True))
    answered = scenario.effects[0]
    assert isinstance(answered, AnswerOpening)
    assert answered.refusal is not None
    assert answered.refusal.code == "runtime_open_failed"


def test_a_session_opens_once() -> None:
    patient().when(opening()).refuses("bad_event", param="type")


@pytest.mark.parametrize("command", [Heartbeat(event_id="e"), typed("hello"), CloseSession(event_id="e")])
def test_a_command_before_the_opening_is_refused_not_dropped(command: Heartbeat) -> None:
    scenario = Scenario().when(command).refuses("bad_event")
    assert scenario.session == Session()


def test_the_model_is_rebuilt_from_the_conversation_after_a_takeover() -> None:
    scenario = eager().given(typed("hello"), *answer("Good morning."))
    request = open_model(scenario.session)
    assert [(item.role, item.text) for item in request.history] == [("user", "hello"), ("assistant", "Good morning.")]
    assert (request.epoch, request.overlap_policy) == (0, "barge_in_on_speech")


# -- small commands ------------------------------------------------------------------------------------------------


def test_a_heartbeat_is_answered() -> None:
    patient().when(Heartbeat()).shows(frames.SessionHeartbeatAck(session_id="s1")).asks_for()


def test_an_acknowledgement_that_reaches_the_session_names_a_frame_nobody_sent() -> None:
    refused = patient().when(AcknowledgeEvents(server_event_seq=99, event_id="evt_ack"))
    refused.refuses("invalid_event_ack", param="server_event_seq")
    assert refused.decision.facts[0].event_id == "evt_ack"  # type: ignore[attr-defined]


def test_a_socket_that_holds_a_session_cannot_resume_another() -> None:
    resume = ResumeSession(session_id="s2", incarnation=0, resume_token="secret")
    patient().when(resume).refuses("unsupported_session_resume")


def test_a_frame_that_was_no_command_is_answered_in_order() -> None:
    refusal = RefuseCommand(code="bad_audio", message="not base64", param="audio", event_id="evt_7")
    patient().when(refusal).then(
        CommandRejected(code="bad_audio", message="not base64", param="audio", event_id="evt_7")
    ).refuses("bad_audio", param="audio")


# -- sockets and timers --------------------------------------------------------------------------------------------


def test_a_socket_is_noted_once_and_an_older_one_is_not() -> None:
    scenario = patient().given(SocketAttached(generation=2, gateway="g1"))
    scenario.when(SocketAttached(generation=2, gateway="g1")).then()
    scenario.when(SocketAttached(generation=1, gateway="g2")).then()
    scenario.when(SocketAttached(generation=3, gateway="g2")).then(SocketChanged(generation=3, attached=True)).shows()


def test_the_end_of_a_socket_that_was_replaced_changes_nothing() -> None:
    scenario = patient().given(ATTACHED, SocketAttached(generation=2, gateway="g2"))
    scenario.when(SocketDetached(generation=1, reason="closed")).then()


def test_a_session_that_can_be_resumed_goes_on_without_a_socket() -> None:
    scenario = patient().given(ATTACHED, spoke(), said("Are you ")).when(SocketDetached(generation=1, reason="lost"))
    scenario.then(SocketChanged(generation=1, attached=False)).shows().asks_for()
    scenario.when(said("Still here.")).shows("response.output_audio.delta", "response.output_audio_transcript.delta")


def test_a_session_that_cannot_be_resumed_ends_with_its_socket() -> None:
    scenario = plain().given(ATTACHED, spoke(), said("One")).when(SocketDetached(generation=1, reason="lost"))
    scenario.then(SocketChanged, ResponseFinished, SessionClosed).asks_for(AskModel, EndSession("disconnect"))
    assert names(scenario)[-3:] == ["response.done", "rate_limits.updated", "session.closed"]


def test_an_attached_client_is_timed_out_by_its_own_setting_an_absent_one_by_the_grace() -> None:
    scenario = patient(idle_timeout_s=2.5)
    assert timers(scenario.session) == {GRACE_TIMER: int(DISCONNECT_GRACE_S * 1000)}
    assert timers(scenario.session, disconnect_grace_s=2.5) == {GRACE_TIMER: 2_500}
    assert timers(scenario.given(ATTACHED).session) == {IDLE_TIMER: 2500}
    assert timers(Session()) == {}
    assert timers(scenario.given(CloseSession()).session) == {}


def test_a_copy_waits_longer_for_its_first_client_and_as_long_as_ever_for_the_next() -> None:
    forked = ForkSession(session_id="original", incarnation=2, seq=40)
    scenario = patient(idle_timeout_s=2.5).given(ATTACHED).when(forked)
    scenario.then(SessionForked(session_id="original", incarnation=2, seq=40)).shows().asks_for()
    assert not scenario.session.attached
    assert timers(scenario.session) == {GRACE_TIMER: int(FORK_GRACE_S * 1000)}
    assert timers(scenario.session, disconnect_grace_s=7_200) == {GRACE_TIMER: 7_200_000}
    generation = scenario.session.generation + 1
    scenario = scenario.when(SocketAttached(generation=generation, gateway="g9"))
    assert timers(scenario.session) == {IDLE_TIMER: 2500}
    scenario = scenario.when(SocketDetached(generation=generation, reason="gone"))
    assert timers(scenario.session) == {GRACE_TIMER: int(DISCONNECT_GRACE_S * 1000)}


def test_no_timeout_is_too_long_for_a_timer() -> None:
    assert timers(patient(idle_timeout_s=1e300).given(ATTACHED).session) == {IDLE_TIMER: 7 * 86_400_000}


def test_the_deployment_lets_no_session_lie_idle_longer_than_it_says_whatever_its_client_asked_for() -> None:
    patient_client = patient(idle_timeout_s=86_400).given(ATTACHED)
    assert timers(patient_client.session, 300.0)[IDLE_TTL_TIMER] == 300_000 + IDLE_TTL_LATER_MS
    assert IDLE_TTL_TIMER in timers(patient().session, 300.0), "an absent client's session, too"
    assert timers(Session(), 300.0) == {}
    patient_client.when(TimerFired(IDLE_TTL_TIMER)).then(SessionExpired(reason="idle_ttl_expired")).shows(
        "session.expired"
    ).asks_for(EndSession("idle_ttl_expired"))


def test_no_session_is_idle_while_something_is_being_done_for_it() -> None:
    answering = patient().given(ATTACHED, spoke(), said("One"))
    answering.when(TimerFired(IDLE_TTL_TIMER)).then()
    assert IDLE_TTL_TIMER in timers(answering.session, 300.0), "asked again later"


def test_reports_readings_and_refusals_keep_no_session_alive() -> None:
    dead = [
        AcknowledgePlayback(item_id="i", played_ms=1, committed_ms=1),
        AcknowledgeEvents(server_event_seq=1),
        RetrieveItem(item_id="i"),
        RefuseCommand(code="bad_event", message="no"),
    ]
    left = SocketDetached(generation=1, reason="lost")
    alive = [Heartbeat(), UpdateSession(session={}), CancelResponse(), ATTACHED, left]
    assert not any(keeps_alive(command) for command in dead)
    assert all(keeps_alive(command) for command in alive)


def test_a_silent_client_is_told_that_it_was_timed_out() -> None:  # V57
    scenario = patient().given(ATTACHED).when(TimerFired(IDLE_TIMER))
    scenario.then(SessionClosed).shows("session.closed").asks_for(EndSession("timeout"))


def test_a_session_nobody_came_back_for_expires_and_its_answer_with_it() -> None:
    gone = patient().given(ATTACHED, spoke(), said("One"), SocketDetached(generation=1, reason="lost"))
    scenario = gone.when(TimerFired(GRACE_TIMER)).then(
        ResponseFinished, SessionExpired(reason="disconnect_grace_expired")
    )
    assert scenario.frames[-1] == frames.SessionExpired(
        session_id="s1", incarnation=0, reason="disconnect_grace_expired"
    )
    assert scenario.effects[-1] == EndSession("disconnect_grace_expired")


@pytest.mark.parametrize("name", [IDLE_TIMER, GRACE_TIMER, "unknown"])
def test_a_timer_that_no_longer_fits_changes_nothing(name: str) -> None:
    attached = patient().given(ATTACHED)
    fits = {IDLE_TIMER: attached, GRACE_TIMER: patient()}.get(name)
    for scenario in (attached, patient()):
        if scenario != fits:
            scenario.when(TimerFired(name)).then()


# -- ends ----------------------------------------------------------------------------------------------------------


def test_closing_says_so_last() -> None:
    totals = {
        "input_audio_seconds": 0.0,
        "output_audio_seconds": 0.0,
        "input_tokens": 0,
        "output_tokens": 0,
        "total_tokens": 0,
        "responses": 0,
    }
    patient().when(CloseSession()).then(SessionClosed(reason="session_close", usage=totals)).shows(
        frames.SessionClosed(
            session_id="s1",
            reason="session_close",
            event={"type": "session.closed", "session_id": "s1", "reason": "session_close", "usage": totals},
        )
    )


def test_closing_with_a_live_response_cancels_it_first() -> None:
    scenario = patient().given(spoke(), said("One moment")).when(CloseSession())
    scenario.asks_for(
        AskModel(Interrupt(epoch=1, response_id=response_id(), heard_text="One moment")), EndSession("session_close")
    )
    assert names(scenario)[-3:] == ["response.done", "rate_limits.updated", "session.closed"]
    done = scenario.frames[-3]
    assert isinstance(done, frames.ResponseDone)
    assert done.response.status == "cancelled"
    assert done.response.status_details == StatusDetails(type="cancelled", reason="session_close")


def test_a_closed_session_takes_nothing_and_says_nothing() -> None:
    closed = patient().given(CloseSession())
    for late in (
        Heartbeat(),
        UpdateSession(session={}),
        ModelSpoke(epoch=0, turn=0),
        TimerFired(IDLE_TIMER),
        opening(),
    ):
        after = closed.when(late).then().shows().asks_for()
        assert after.session == closed.session


def test_a_lost_model_ends_the_session_with_an_error_and_a_failed_answer() -> None:
    scenario = patient().given(spoke(), said("One")).when(ModelLost(code="runtime_open_failed", message="gone"))
    scenario.then(CommandRejected, ResponseFinished, SessionClosed).asks_for(EndSession("runtime_open_failed"))
    assert names(scenario)[0] == "error"
    assert names(scenario)[-1] == "session.closed"


def test_an_answer_begun_before_the_opening_failed_still_ends() -> None:
    """A worker decides on a batch before it opens the model; what it showed until then must be well-formed."""
    scenario = patient().given(spoke(), said("One")).when(ModelLost(code="internal_error", message="x", opening=True))
    scenario.then(ResponseFinished, SessionRefused)
    assert names(scenario)[-2:] == ["response.done", "rate_limits.updated"]


def test_a_fatal_fault_of_the_model_is_told_before_the_session_ends() -> None:
    scenario = patient().when(ModelFailed(epoch=0, code="context_exhausted", message="too long", fatal=True))
    scenario.then(CommandRejected, SessionClosed).shows("error", "session.closed")
    scenario.asks_for(EndSession("context_exhausted"))


def test_an_open_session_of_a_model_keeps_that_models_card() -> None:
    assert eager().session.info == EAGER


# -- a caller who says nothing -------------------------------------------------------------------------------------

PROMPTED = {"type": "server_vad", "idle_timeout_ms": 6_000}


def test_a_caller_who_says_nothing_after_an_answer_is_spoken_to_again_once() -> None:
    scenario = patient(turn_detection=PROMPTED).given(ATTACHED)
    assert SILENCE_TIMER not in timers(scenario.session)
    answered = scenario.given(typed("hi"), *answer("Hello."))
    assert timers(answered.session)[SILENCE_TIMER] == 6_000
    again = answered.when(TimerFired(SILENCE_TIMER)).then(ResponseStarted)
    assert isinstance(again.effects[0].request, Generate)  # type: ignore[union-attr]
    again = again.given(spoke(1, response_id=response_id(2)), said("Are you there?", turn=1), finished(1))
    assert SILENCE_TIMER not in timers(again.session)
    again.when(TimerFired(SILENCE_TIMER)).then()


@pytest.mark.parametrize("speaks", [append(), spoke(1), SocketDetached(generation=1, reason="lost")])
def test_nobody_is_prompted_who_speaks_is_answered_or_is_gone(speaks: Input) -> None:
    answered = patient(turn_detection=PROMPTED).given(ATTACHED, typed("hi"), *answer("Hello."))
    assert SILENCE_TIMER not in timers(answered.given(speaks).session)
    assert SILENCE_TIMER not in timers(patient().given(ATTACHED, typed("hi"), *answer("Hello.")).session)


# -- a session that may last only so long --------------------------------------------------------------------------


def limited(max_session_s: float) -> Scenario:
    """A session that opened at 1,000,000 ms."""
    return Scenario().when(msgspec.structs.replace(opening(), max_session_s=max_session_s), now_ms=1_000_000)


def test_a_session_may_last_only_so_long_and_its_client_is_told_before() -> None:  # V50
    scenario = limited(600.0)
    updated = scenario.frames[0]
    assert isinstance(updated, frames.SessionUpdated)
    assert updated.session["expires_at"] == 1_600
    scenario = scenario.given(ATTACHED, spoke(), said("One."))
    wanted = timers(scenario.session)
    assert (wanted[EXPIRY_WARNING_TIMER], wanted[EXPIRY_TIMER]) == (570_000, 600_000)
    scenario = scenario.when(TimerFired(EXPIRY_WARNING_TIMER), now_ms=1_570_000).then(ExpiryAnnounced(grace_ms=30_000))
    scenario.shows(frames.SessionGoingAway(session_id="s1", reason="max_session_duration", grace_ms=30_000))
    assert EXPIRY_WARNING_TIMER not in timers(scenario.session)
    scenario.when(TimerFired(EXPIRY_WARNING_TIMER)).then()
    scenario = scenario.when(TimerFired(EXPIRY_TIMER), now_ms=1_600_000).then(ResponseFinished, SessionExpired)
    assert names(scenario)[-1] == "session.expired"
    scenario.asks_for(AskModel, EndSession("max_session_duration"))


def test_a_short_session_is_announced_half_way() -> None:
    assert timers(limited(3.0).given(ATTACHED).session)[EXPIRY_WARNING_TIMER] == 1_500


def test_a_new_owner_waits_for_what_is_left() -> None:
    taken = limited(600.0).given(ATTACHED).when(WorkerTookOver(fence=2), now_ms=1_400_000)
    assert timers(taken.session)[EXPIRY_TIMER] == 200_000
    gone = taken.given(SocketDetached(generation=1, reason="lost"))
    assert timers(gone.session)[EXPIRY_TIMER] == 200_000


def test_a_session_without_a_limit_has_no_such_timer() -> None:
    scenario = patient().given(ATTACHED)
    assert set(timers(scenario.session)) == {IDLE_TIMER}
    scenario.when(TimerFired(EXPIRY_TIMER)).then()
    assert "expires_at" not in session_object(scenario.session)
