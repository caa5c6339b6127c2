"""Every way to stop an answer, what each of them shows, and which of them move the epoch."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.model import Interrupt, ResetInput
from duplex_es.protocol import (
    AcknowledgePlayback,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutput,
    CommitInput,
    CreateResponse,
    SignalTurn,
    frames,
)
from duplex_es.session.effects import AskModel
from duplex_es.session.events import EpochAdvanced, OutputCleared, ResponseFinished, TurnSignalled
from duplex_es.testing.scenario import Scenario
from tests.session.cast import (
    answer,
    answer_id,
    append,
    names,
    patient,
    plain,
    response_id,
    said,
    spoke,
    typed,
)

pytestmark = pytest.mark.unit

TERMINALS = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
]
CLEARED = "input_audio_buffer.cleared"


def talking(**session: Any) -> Scenario:
    """A session in the middle of an answer."""
    return patient(**session).given(spoke(), said("One. "), said("Two. "))


def unheard() -> Scenario:
    """An answer is complete, and the client has confirmed half a second of it."""
    scenario = patient(playback_commit_policy="ack_only").given(*answer("One. ", "Two. "))
    return scenario.given(AcknowledgePlayback(played_ms=500))


def reason(scenario: Scenario) -> str:
    (done,) = (frame for frame in scenario.frames if isinstance(frame, frames.ResponseDone))
    assert done.response.status == "cancelled"
    return done.response.status_details.reason  # type: ignore[union-attr,return-value]


# -- response.cancel -----------------------------------------------------------------------------------------------


def test_cancelling_moves_the_epoch_and_interrupts_the_model() -> None:
    scenario = talking().when(CancelResponse()).then(ResponseFinished)
    scenario.asks_for(AskModel(Interrupt(epoch=1, response_id=response_id(), heard_text="One. Two.")))
    assert names(scenario) == TERMINALS
    assert (scenario.session.epoch, reason(scenario)) == (1, "client_cancelled")


def test_the_model_is_told_how_much_of_its_sound_was_not_heard() -> None:
    scenario = talking().given(AcknowledgePlayback(played_ms=600)).when(CancelResponse())
    (asked,) = (one.request for one in scenario.effects if isinstance(one, AskModel))
    assert isinstance(asked, Interrupt)
    assert asked.unheard_ms == 2_000 - 600


def test_the_terminal_frames_repeat_what_was_generated_and_show_what_was_heard() -> None:
    scenario = talking().given(AcknowledgePlayback(played_ms=1_000)).when(CancelResponse())
    transcript = scenario.frames[1]
    assert isinstance(transcript, frames.ResponseOutputAudioTranscriptDone)
    assert transcript.transcript == "One. Two. "
    part = scenario.frames[2]
    assert isinstance(part, frames.ResponseContentPartDone)
    assert part.part.transcript == "One."
    item = scenario.frames[3].item  # type: ignore[union-attr]
    assert (item.status, item.content[0].transcript) == ("cancelled", "One.")


def test_the_response_may_be_named() -> None:
    talking().when(CancelResponse(response_id=response_id())).then(ResponseFinished)
    talking().when(CancelResponse(response_id="resp_other")).refuses("response_not_active", param="response_id")


def test_cancelling_nothing_is_refused_and_harmless() -> None:
    for scenario in (patient(), patient().given(*answer("One."))):
        for command in (CancelResponse(), CancelResponse(response_id="resp_other"), CancelResponse(response_id="")):
            after = scenario.when(command).refuses("response_not_active").asks_for()
            assert after.session == scenario.session


def test_cancelling_twice_is_refused_the_second_time() -> None:
    talking().given(CancelResponse()).when(CancelResponse()).refuses("response_not_active")
    talking().given(CancelResponse()).when(CancelResponse(response_id=response_id())).refuses("response_not_active")


def test_a_response_that_was_only_announced_can_be_cancelled() -> None:
    scenario = patient().given(typed("hi"), CreateResponse()).when(CancelResponse())
    assert names(scenario) == TERMINALS[2:]


def test_cancelling_keeps_the_callers_input() -> None:
    scenario = talking().given(append()).when(CancelResponse())
    assert CLEARED not in names(scenario)
    assert scenario.session.input.has_audio


def test_the_rest_of_an_answer_that_is_only_played_can_be_cancelled_too() -> None:
    scenario = unheard().when(CancelResponse())
    scenario.then(OutputCleared(response_id=response_id()), EpochAdvanced(epoch=1, cleared_input=False))
    scenario.shows(frames.OutputAudioBufferCleared(response_id=response_id()))
    scenario.asks_for(AskModel(Interrupt(epoch=1)))
    assert scenario.session.item(answer_id()).cap_ms == 500  # type: ignore[union-attr]
    scenario.when(CancelResponse()).refuses("response_not_active")
    unheard().when(CancelResponse(response_id="resp_other")).refuses("response_not_active")


# -- input.cancel and barge_in -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [CancelInput(), BargeIn(), SignalTurn(event="input.cancel"), SignalTurn(event="barge_in")]
)
def test_barging_in_cancels_the_answer_then_clears_the_input(command: CancelInput) -> None:
    scenario = talking().given(append()).when(command).then(ResponseFinished)
    assert names(scenario) == [*TERMINALS, CLEARED]
    assert (scenario.session.epoch, reason(scenario), scenario.session.input.has_audio) == (1, "barge_in", False)
    scenario.asks_for(
        AskModel(Interrupt(epoch=1, response_id=response_id(), heard_text="One. Two.")), AskModel(ResetInput(epoch=1))
    )
    assert scenario.session.turn_state == "barge_in"


def test_barging_in_on_silence_moves_the_epoch_all_the_same() -> None:
    scenario = patient().when(CancelInput()).then(EpochAdvanced(epoch=1)).shows(CLEARED)
    scenario.asks_for(AskModel(ResetInput(epoch=1)), AskModel(Interrupt(epoch=1)))


def test_barging_in_stops_the_playback_of_an_answer_that_is_complete() -> None:
    scenario = unheard().when(CancelInput()).then(OutputCleared(response_id=response_id()), EpochAdvanced(epoch=1))
    scenario.shows("output_audio_buffer.cleared", CLEARED)
    assert not scenario.session.in_progress


def test_a_model_that_cannot_be_interrupted_refuses_a_barge_in_but_not_a_cancel() -> None:
    speaking = plain().given(spoke(), said("One."))
    for command in (BargeIn(event_id="e"), SignalTurn(event="barge_in", event_id="e")):
        after = speaking.when(command).refuses("barge_in_unsupported")
        assert after.decision.facts[0].event_id == "e"  # type: ignore[attr-defined]
        assert after.session == speaking.session
    speaking.when(CancelInput()).then(ResponseFinished)
    speaking.when(CancelResponse()).then(ResponseFinished)


def test_one_barge_in_is_one_end_whatever_follows() -> None:
    scenario = talking().given(CancelInput())
    assert names(scenario.when(CancelInput())) == [CLEARED]
    scenario.when(said("Three.")).then()


# -- output_audio_buffer.clear -------------------------------------------------------------------------------------


def test_clearing_the_output_says_so_and_then_cancels() -> None:
    scenario = talking().when(ClearOutput()).then(ResponseFinished)
    assert names(scenario) == ["output_audio_buffer.cleared", *TERMINALS]
    assert scenario.frames[0] == frames.OutputAudioBufferCleared(response_id=response_id())
    assert (scenario.session.epoch, reason(scenario)) == (1, "output_audio_buffer_clear")


def test_clearing_the_output_of_a_played_answer_moves_the_epoch() -> None:
    scenario = unheard().when(ClearOutput(response_id=response_id()))
    scenario.then(OutputCleared(response_id=response_id()), EpochAdvanced(epoch=1, cleared_input=False))
    scenario.shows("output_audio_buffer.cleared")


def test_clearing_the_output_when_there_is_none_only_says_so() -> None:
    scenario = patient().when(ClearOutput()).then(OutputCleared()).shows(frames.OutputAudioBufferCleared()).asks_for()
    assert scenario.session.epoch == 0
    later = patient().given(*answer("One.")).when(ClearOutput())
    later.shows(frames.OutputAudioBufferCleared(response_id=response_id())).asks_for()
    assert later.session.epoch == 0


def test_clearing_after_all_was_heard_changes_no_history() -> None:
    heard = unheard().given(AcknowledgePlayback(played_ms=2_000))
    after = heard.when(ClearOutput()).then(OutputCleared(response_id=response_id()))
    assert after.session == heard.session


def test_clearing_the_output_of_a_response_that_ended_leaves_the_live_one_alone() -> None:
    scenario = patient().given(*answer("One."), spoke(1), said("Two.", turn=1))
    after = scenario.when(ClearOutput(response_id=response_id(1)))
    after.then(OutputCleared(response_id=response_id(1))).shows("output_audio_buffer.cleared").asks_for()
    assert after.session == scenario.session


# -- which of them move the epoch ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "live", "idle"),
    [
        (CancelResponse(), 1, 0),
        (CancelInput(), 1, 1),
        (BargeIn(), 1, 1),
        (ClearOutput(), 1, 0),
        (ClearInput(), 0, 0),
        (CommitInput(), 0, 0),
        (SignalTurn(event="user_started"), 0, 0),
        (SignalTurn(event="response.cancel"), 1, 0),
    ],
)
def test_the_epoch_moves_exactly_where_the_contract_says(command: CancelInput, live: int, idle: int) -> None:
    assert talking().when(command).session.epoch == live
    assert patient().when(command).session.epoch == idle


# -- turn signals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "turn_state"),
    [
        ("user_started", "user_speaking"),
        ("user_committed", "user_committed"),
        ("assistant_started", "assistant_generating"),
        ("assistant_done", "idle"),
        ("something_else", "idle"),
    ],
)
def test_a_signal_from_outside_is_noted_and_echoed(event: str, turn_state: str) -> None:
    scenario = patient().when(SignalTurn(event=event)).then(TurnSignalled(event=event)).asks_for()
    (frame,) = scenario.frames
    assert isinstance(frame, frames.DuplexTurnEvent)
    assert frame.event == {
        "type": "turn.event",
        "session_id": "s1",
        "event": event,
        "turn_state": turn_state,
        "epoch": 0,
    }


def test_a_cancel_spelled_as_a_signal_names_its_response_on_top_or_in_its_payload() -> None:
    other = {"response_id": "resp_other"}
    talking().when(SignalTurn(event="response.cancel", payload=other)).refuses("response_not_active")
    talking().when(SignalTurn(event="response.cancel", payload=other, response_id=response_id())).then(ResponseFinished)
    refused = talking().when(SignalTurn(event="response.cancel", payload=other, event_id="e")).decision.facts[0]
    assert refused.event_id == "e"  # type: ignore[attr-defined]


def test_a_signal_without_a_name_is_refused() -> None:
    patient().when(SignalTurn(event="")).refuses("bad_event", param="event")
