"""Speech over an answer: one decision per append, told before its effects, and told again only when it changes."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.model import Interrupt, ModelHeardSpeech, ModelHeardSpeechEnd, ModelInterrupted, ResetInput
from duplex_es.protocol import CancelInput, VadHints, frames
from duplex_es.session.effects import AskModel, FeedAppended
from duplex_es.session.events import (
    AudioAppended,
    CommandRejected,
    EpochAdvanced,
    OutputCleared,
    OverlapDecided,
    ResponseFinished,
    SpeechStarted,
    SpeechStopped,
)
from duplex_es.session.overlap import is_short_acknowledgement
from duplex_es.testing.scenario import Scenario
from tests.session.cast import (
    answer,
    append,
    chat,
    detected,
    eager,
    item_id,
    names,
    native,
    patient,
    plain,
    response_id,
    said,
    silence,
    spoke,
    typed,
)

pytestmark = pytest.mark.unit

INTERRUPTS: dict[str, Any] = {"turn_detection": {"type": "server_vad"}}


def speaking(scenario: Scenario) -> Scenario:
    """The model is in the middle of an answer."""
    return scenario.given(spoke(), said("It is sunny, "))


def decision(scenario: Scenario) -> OverlapDecided:
    """The decision that was told last."""
    (decided,) = [fact for fact in scenario.decision.facts if isinstance(fact, OverlapDecided)]
    return decided


def told(scenario: Scenario) -> tuple[str, str]:
    decided = decision(scenario)
    return decided.action, decided.reason


# -- the table, for clients that commit by themselves --------------------------------------------------------------


def test_speech_over_an_answer_is_an_acknowledgement_then_grows_then_is_long() -> None:
    scenario = speaking(patient()).when(append(300))
    scenario.then(OverlapDecided, SpeechStarted, AudioAppended)
    assert told(scenario) == ("listen", "short_ack")
    scenario = scenario.when(append(300)).then(AudioAppended).shows()
    scenario = scenario.when(append(300))
    assert told(scenario) == ("listen", "accumulating_overlap_speech")
    scenario = scenario.when(append(500))
    assert names(scenario) == ["overlap.decision"]
    frame = scenario.frames[0]
    assert isinstance(frame, frames.OverlapDecision)
    assert (frame.policy, frame.action, frame.reason) == ("listen_only", "listen", "long_overlap_speech")
    assert (frame.session_id, frame.epoch, frame.overlap_ms) == ("s1", 0, 1_400)
    assert (frame.buffer_audio, frame.defer_runtime_append, frame.force_listen) == (True, True, True)
    assert frame.metadata == {
        "overlap_speech_ms": 1_400,
        "duration_ms": 500,
        "buffer_audio": True,
        "defer_runtime_append": True,
        "force_listen": True,
    }
    assert scenario.session.response is not None, "the answer goes on"


def test_the_thresholds_are_the_clients() -> None:
    scenario = speaking(patient(overlap_short_ack_ms=100, overlap_barge_in_ms=400))
    assert told(scenario.when(append(100)))[1] == "short_ack"
    assert told(scenario.when(append(200)))[1] == "accumulating_overlap_speech"
    assert told(scenario.when(append(400)))[1] == "long_overlap_speech"


def test_silence_over_an_answer_is_dropped_and_never_reaches_the_model() -> None:
    scenario = speaking(patient()).when(silence(200)).then(OverlapDecided, AudioAppended).asks_for()
    assert told(scenario) == ("drop", "silence_or_noise")
    assert (scenario.session.input.has_audio, scenario.session.input.clock.ms) == (False, 200)
    scenario.when(silence(200)).then(AudioAppended).shows()


def test_a_pause_between_two_words_is_kept_with_them() -> None:
    scenario = speaking(patient()).given(append(300)).when(silence(200))
    scenario.then(OverlapDecided, AudioAppended).asks_for(FeedAppended)
    assert scenario.session.input.item_id == item_id()
    assert scenario.session.overlap.speech_ms == 300


@pytest.mark.parametrize("words", ["Okay.", "GO ON!", "yes", "goon", "嗯嗯。", "继续说", "keep  going…"])
def test_words_that_only_mean_go_on_are_not_kept(words: str) -> None:
    scenario = speaking(patient()).when(append(300, transcript=words)).then(OverlapDecided, AudioAppended)
    assert told(scenario) == ("listen", "short_ack_transcript")
    assert (scenario.session.input.has_audio, scenario.session.overlap.speech_ms) == (False, 0)


def test_other_words_are_no_acknowledgement() -> None:
    assert not is_short_acknowledgement("okay but stop")
    assert not is_short_acknowledgement("")
    assert told(speaking(patient()).when(append(300, transcript="stop"))) == ("listen", "short_ack")


def test_an_acknowledgement_ends_the_utterance_it_began_as() -> None:
    scenario = speaking(patient()).given(append(300)).when(append(300, transcript="ok"))
    scenario.then(OverlapDecided, SpeechStopped(item_id=item_id(), end_ms=300, kept=False), AudioAppended)
    assert names(scenario) == ["overlap.decision", "input_audio_buffer.speech_stopped"]
    scenario.asks_for(AskModel(ResetInput(epoch=0)))
    assert scenario.session.input.item_id is None


@pytest.mark.parametrize("policy", ["policy", "vad", "utterance"])
def test_a_policy_to_interrupt_interrupts_at_the_onset_of_speech(policy: str) -> None:
    scenario = speaking(patient(**INTERRUPTS))
    match policy:
        case "policy":
            scenario = scenario.when(append(200))
            assert told(scenario) == ("barge_in", "policy_barge_in_on_speech")
            assert decision(scenario).cancel_reason == "barge_in"
        case "vad":
            scenario = scenario.when(detected(started=True))
            assert told(scenario) == ("barge_in", "server_vad_speech_started")
            assert decision(scenario).cancel_reason == "turn_detected"
        case "utterance":
            scenario = scenario.when(detected())
            assert told(scenario) == ("listen", "server_vad_utterance_active")
            assert scenario.session.response is not None
            return
    scenario.then(OverlapDecided, SpeechStarted, ResponseFinished, AudioAppended)
    ended = [frame for frame in scenario.frames if isinstance(frame, frames.ResponseDone)]
    assert [one.response.status for one in ended] == ["cancelled"]
    assert ended[0].response.status_details.reason == decision(scenario).cancel_reason  # type: ignore[union-attr]
    assert names(scenario)[:2] == ["overlap.decision", "input_audio_buffer.speech_started"]


def test_the_interrupting_audio_is_heard_under_the_new_epoch() -> None:
    scenario = speaking(patient(**INTERRUPTS)).when(append(200))
    interrupt, feed = scenario.effects
    assert isinstance(interrupt, AskModel)
    assert isinstance(interrupt.request, Interrupt)
    assert feed == FeedAppended(epoch=1, end_ms=200, force_listen=True)
    assert (scenario.session.epoch, scenario.session.input.item_id) == (1, item_id())


def test_loud_speech_interrupts_once() -> None:
    scenario = speaking(patient(**INTERRUPTS)).given(append(200))
    for _ in range(5):
        scenario = scenario.when(append(200)).then(AudioAppended).shows()
    scenario.when(said("and ")).then()


# -- what the client asks for --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"overlap_action": "barge_in"}, "client_overlap_action"),
        ({"overlap_action": " Interrupt "}, "client_overlap_action"),
        ({"overlap_action": "cancel"}, "client_overlap_action"),
        ({"force_barge_in": True}, "client_force_barge_in"),
    ],
)
def test_an_append_may_ask_for_an_interruption(fields: dict[str, Any], reason: str) -> None:
    for scenario in (patient(), native(), eager()):
        scenario = speaking(scenario).when(append(200, **fields))
        assert told(scenario) == ("barge_in", reason)
        assert scenario.session.response is None
    patient().when(append(200, **fields)).then(SpeechStarted, AudioAppended)


def test_a_wish_to_interrupt_a_model_that_cannot_be_is_refused_and_the_audio_taken() -> None:
    scenario = plain().when(append(200, force_barge_in=True, event_id="evt_1"))
    scenario.then(CommandRejected, SpeechStarted, AudioAppended)
    error = scenario.frames[0]
    assert isinstance(error, frames.Error)
    assert (error.error.code, error.error.event_id) == ("barge_in_unsupported", "evt_1")
    scenario = speaking(plain()).when(append(200, overlap_action="barge_in"))
    scenario.then(CommandRejected, OverlapDecided, SpeechStarted, AudioAppended)
    assert told(scenario) == ("listen", "barge_in_unsupported")


def test_an_answer_not_heard_to_its_end_is_interrupted_too() -> None:
    scenario = patient(playback_commit_policy="ack_only").given(*answer("It is sunny."))
    scenario = scenario.when(append(200, force_barge_in=True))
    scenario.then(OverlapDecided, SpeechStarted, OutputCleared, EpochAdvanced, AudioAppended)
    assert scenario.session.epoch == 1
    assert scenario.session.input.has_audio


@pytest.mark.parametrize("hint", ["listen", "continue", "continue_output", "ack"])
def test_an_append_may_ask_to_be_listened_to(hint: str) -> None:
    scenario = speaking(patient())
    assert told(scenario.when(append(300, overlap_action=hint))) == ("listen", "client_overlap_action")
    assert not scenario.when(append(300, overlap_action=hint)).session.input.has_audio
    kept = scenario.when(append(800, overlap_action=hint)).session.input.has_audio
    assert kept is (hint == "listen")


@pytest.mark.parametrize("hint", ["drop", "ignore", "silence"])
def test_an_append_may_ask_to_be_dropped(hint: str) -> None:
    scenario = speaking(patient()).given(append(300)).when(append(300, overlap_action=hint))
    scenario.then(OverlapDecided, SpeechStopped, AudioAppended)
    assert told(scenario) == ("drop", "client_overlap_action")
    assert (scenario.session.input.has_audio, scenario.session.overlap.speech_ms) == (False, 0)


def test_an_append_may_forbid_the_model_to_answer_it() -> None:
    scenario = speaking(patient()).when(append(300, force_listen=True))
    assert told(scenario) == ("listen", "client_force_listen")
    assert scenario.session.input.has_audio
    assert told(speaking(patient()).when(silence(300, force_listen=True)))[1] == "client_force_listen"
    native().when(append(200, force_listen=True)).asks_for(
        FeedAppended(epoch=0, end_ms=200, is_speech=None, force_listen=True)
    )


def test_a_hint_is_answered_every_time_it_is_given() -> None:
    scenario = speaking(patient()).given(append(300, overlap_action="drop"))
    scenario.when(append(300, overlap_action="drop")).shows("overlap.decision")


# -- models that decide by themselves ------------------------------------------------------------------------------


def test_what_a_model_hears_while_it_speaks_by_itself_flows_on() -> None:
    scenario = speaking(native()).when(append(300)).then(OverlapDecided, SpeechStarted, AudioAppended)
    assert told(scenario) == ("listen", "auto_response_continuous")
    decided = decision(scenario)
    assert (decided.defer_runtime_append, decided.preserve_realtime_input) == (False, True)
    scenario.when(append(2_000)).then(AudioAppended).shows()
    speaking(native()).when(silence(300)).then(AudioAppended).shows()


def test_a_policy_to_interrupt_holds_for_it_too() -> None:
    scenario = speaking(native(**INTERRUPTS))
    assert told(scenario.when(append(200))) == ("barge_in", "barge_in_on_speech")
    assert told(scenario.when(detected(started=True))) == ("barge_in", "server_vad_speech_started")
    assert told(scenario.when(append(200, vad=VadHints(speech_started=True)))) == (
        "barge_in",
        "server_vad_speech_started",
    )
    assert told(scenario.when(detected())) == ("listen", "auto_response_continuous")


def test_a_model_that_hears_turns_tells_itself_what_it_makes_of_speech() -> None:
    scenario = speaking(eager()).when(append(400)).then(AudioAppended).shows()
    scenario = scenario.when(ModelHeardSpeech(epoch=0, start_ms=10)).then(OverlapDecided, SpeechStarted)
    assert told(scenario) == ("listen", "accumulating_overlap_speech")
    assert decision(scenario).overlap_ms == 400
    noise = scenario.when(ModelHeardSpeechEnd(epoch=0, end_ms=300, is_turn=False)).then(OverlapDecided, SpeechStopped)
    assert told(noise) == ("listen", "short_ack")
    scenario.when(ModelHeardSpeechEnd(epoch=0, end_ms=300)).then(SpeechStopped)
    cut = scenario.when(ModelInterrupted(epoch=0, turn=0)).then(OverlapDecided, ResponseFinished)
    assert told(cut) == ("barge_in", "policy_barge_in_on_speech")
    assert cut.session.overlap.speech_ms == 0


def test_nothing_is_decided_where_no_answer_is_given() -> None:
    for scenario in (patient(), native(), eager(), patient().given(spoke())):
        scenario = scenario.when(append(300))
        assert not [fact for fact in scenario.decision.facts if isinstance(fact, OverlapDecided)]
    eager().when(ModelHeardSpeech(epoch=0, start_ms=10)).then(SpeechStarted)


def test_a_turn_based_model_knows_no_overlap() -> None:
    scenario = chat().given(typed("hi"), *answer("Hello.")[:-1]).when(append(300, overlap_action="barge_in"))
    scenario.then(SpeechStarted, AudioAppended)


def test_every_answer_begins_with_no_speech_over_it() -> None:
    scenario = speaking(patient()).given(append(300), CancelInput())
    assert scenario.session.overlap.speech_ms == 0
    again = scenario.given(spoke(1, epoch=1), said("Two.", turn=1, epoch=1))
    assert told(again.when(append(300)))[1] == "short_ack"


def test_the_response_that_is_interrupted_is_the_one_that_is_named() -> None:
    scenario = speaking(patient()).when(append(200, force_barge_in=True))
    done = next(frame for frame in scenario.frames if isinstance(frame, frames.ResponseDone))
    assert done.response_id == response_id()
