"""One answer at a time: announced, spoken, ended exactly once, in the one order the API allows."""

from __future__ import annotations

import pytest

from duplex_es.model import (
    Generate,
    ModelCalledFunction,
    ModelFailed,
    ModelHeardTurn,
    ModelInterrupted,
    ModelListened,
    ModelPassedOn,
    ModelProducedAudio,
    ModelProducedText,
)
from duplex_es.protocol import (
    CancelInput,
    CancelResponse,
    CommitInput,
    CommitTurn,
    CreateResponse,
    TruncateItem,
    Usage,
    frames,
)
from duplex_es.session.effects import AskModel
from duplex_es.session.events import (
    AudioProduced,
    CommandRejected,
    EpochAdvanced,
    FunctionCalled,
    FunctionCallMalformed,
    Listened,
    MessagePassedOn,
    OverlapDecided,
    ResponseFinished,
    ResponseSpoken,
    ResponseStarted,
    TextProduced,
    TurnBegun,
    TurnEndedEmpty,
)
from duplex_es.session.inputs import SpeechReady
from duplex_es.testing.scenario import Scenario
from tests.session.cast import (
    HZ,
    answer,
    answer_id,
    append,
    eager,
    finished,
    item_id,
    names,
    patient,
    response_id,
    said,
    spoke,
    typed,
)
from tests.support.ordering import check_order

pytestmark = pytest.mark.unit

OPENING = [
    "response.created",
    "conversation.item.added",
    "conversation.item.created",
    "response.output_item.added",
    "response.content_part.added",
]
PAIR = ["response.output_audio.delta", "response.output_audio_transcript.delta"]
ENDING = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
]


def heard(scenario: Scenario, *inputs: object) -> list[frames.Frame]:
    """Everything the client hears while these inputs arrive."""
    told: list[frames.Frame] = []
    for one in inputs:
        scenario = scenario.when(one)  # type: ignore[arg-type]
        told += scenario.frames
    return told


def types(told: list[frames.Frame]) -> list[str]:
    return [str(frame.__struct_config__.tag) for frame in told]


def done(scenario: Scenario) -> frames.ResponseDone:
    (frame,) = (frame for frame in scenario.frames if isinstance(frame, frames.ResponseDone))
    return frame


# -- the order -----------------------------------------------------------------------------------------------------


def test_a_spoken_answer_is_heard_in_the_order_of_the_contract() -> None:
    told = heard(patient(), *answer("It is sunny, ", "24 degrees."))
    assert types(told) == [*OPENING, "response.speak", *PAIR, *PAIR, *ENDING]
    check_order(told).ended()


def test_everything_of_a_response_names_it_and_its_item() -> None:
    told = heard(patient(), *answer("Hello."))
    assert {frame.response_id for frame in told if hasattr(frame, "response_id")} == {response_id()}
    assert {frame.item_id for frame in told if hasattr(frame, "item_id")} == {answer_id()}
    assert {frame.item.id for frame in told if hasattr(frame, "item")} == {answer_id()}


def test_an_audio_delta_carries_the_sound_its_rate_and_how_far_it_is() -> None:
    scenario = (
        patient()
        .given(spoke(), said("It is sunny, "))
        .when(ModelProducedAudio(epoch=0, turn=0, pcm=b"\1\0" * HZ, text="24 degrees."))
    )
    scenario.then(AudioProduced(response_id=response_id(), samples=HZ, rate_hz=HZ, text="24 degrees."))
    delta, words = scenario.frames
    assert isinstance(delta, frames.ResponseOutputAudioDelta)
    assert (delta.delta, delta.format, delta.sample_rate_hz) == (b"\1\0" * HZ, "pcm16", HZ)
    metadata = delta.metadata
    assert isinstance(metadata, frames.OutputMetadata)
    assert (metadata.epoch, metadata.model_speak, metadata.end_of_turn) == (0, True, False)
    assert metadata.audio_duration_ms == 2_000
    assert [(mark.text_chars, mark.audio_end_ms) for mark in metadata.audio_text_marks] == [(24, 2_000)]  # type: ignore[union-attr]
    assert (metadata.playback.generated_ms, metadata.playback.sent_ms) == (2_000, 2_000)  # type: ignore[union-attr]
    assert words.delta == "24 degrees."  # type: ignore[union-attr]


def test_durations_are_of_all_samples_so_far_not_sums_of_rounded_ones() -> None:
    pieces = [ModelProducedAudio(epoch=0, turn=0, pcm=bytes(2 * 25)) for _ in range(960)]
    scenario = patient().given(spoke(), *pieces)
    assert scenario.session.items[-1].ledger.generated_ms == 1_000
    assert scenario.session.usage_output_ms == 1_000


def test_sound_without_words_and_words_without_sound_are_pairs_too() -> None:
    told = heard(patient(), spoke(), said("", 100), said("Hm.", 0), finished())
    assert types(told) == [*OPENING, "response.speak", *PAIR, *PAIR, *ENDING]


def test_a_piece_of_nothing_is_nothing() -> None:
    patient().given(spoke()).when(said("", 0)).then()


def test_an_answer_without_words_has_no_transcript_to_be_done() -> None:
    told = heard(patient(), spoke(), said("", 100), finished())
    assert types(told)[-7:] == ["response.output_audio_transcript.delta", "response.output_audio.done", *ENDING[2:]]


def test_a_response_begins_with_the_first_thing_there_is_to_hear_of_it() -> None:
    scenario = patient().when(spoke()).then(TurnBegun(turn=0)).shows().asks_for()
    assert scenario.session.response is None
    scenario = scenario.when(said("Yes."))
    scenario.then(ResponseStarted, ResponseSpoken(response_id=response_id(), turn=0), AudioProduced)
    assert names(scenario) == [*OPENING, "response.speak", *PAIR]
    assert scenario.session.begun is None
    written = patient(modalities=["text"]).given(spoke()).when(ModelProducedText(epoch=0, turn=0, text="Yes."))
    written.then(ResponseStarted, ResponseSpoken, TextProduced)


def test_an_empty_turn_is_no_response() -> None:
    scenario = patient().given(spoke()).when(finished()).then(TurnEndedEmpty(turn=0)).shows()
    assert (scenario.session.turn_id, scenario.session.begun) == (1, None)
    scenario.when(said("late")).then()


def test_an_empty_turn_of_a_model_that_decides_by_itself_is_a_decision_to_listen() -> None:
    scenario = eager().given(append(), CommitInput(), spoke()).when(finished())
    scenario.then(TurnEndedEmpty(turn=0), Listened(reason="model_turn_completed_without_output"))
    scenario.shows("response.listen")
    assert scenario.session.owed is None


def test_a_turn_in_which_a_function_was_called_is_not_called_empty() -> None:
    eager().given(spoke(), CALL).when(finished()).then(TurnEndedEmpty).shows()


def test_an_announced_response_whose_turn_is_empty_ends_by_listening() -> None:
    scenario = patient().given(append(), CommitTurn(), spoke()).when(finished())
    reason = "model_turn_completed_without_output"
    scenario.then(TurnEndedEmpty, Listened(reason=reason, response_id=response_id()), ResponseFinished)
    assert names(scenario) == ["response.listen", *ENDING[2:]]
    assert done(scenario).response.metadata["committed"] is False  # type: ignore[index]
    assert scenario.session.turn_id == 1


def test_an_empty_turn_does_not_end_a_request_that_it_does_not_answer() -> None:
    scenario = eager().given(typed("hi"), CreateResponse(), spoke()).when(finished())
    scenario.then(TurnEndedEmpty, Listened(reason="model_turn_completed_without_output"))
    scenario.given(spoke(1, response_id=response_id())).when(finished(1)).then(
        TurnEndedEmpty, Listened, ResponseFinished
    )


def test_a_turn_that_fails_before_it_is_heard_is_told_and_over() -> None:
    scenario = patient().given(spoke()).when(ModelFailed(epoch=0, code="response_error", message="x"))
    scenario.then(CommandRejected, TurnEndedEmpty).shows("error")


def test_an_interruption_ends_a_turn_that_was_not_heard_yet() -> None:
    scenario = patient().given(spoke()).when(CancelInput()).then(EpochAdvanced)
    assert scenario.session.begun is None
    scenario.when(said("late")).then()


def test_of_an_answer_the_client_has_cut_nothing_more_is_heard() -> None:
    cut = patient().given(spoke(), said("One, "), TruncateItem(item_id=answer_id(), audio_end_ms=500))
    cut.when(said("two.")).then()
    cut.when(ModelProducedText(epoch=0, turn=0, text="two")).then()
    assert done(cut.when(finished())).response.status == "completed"


def test_sound_in_the_clients_own_format_is_sent_as_it_is_and_counted_as_the_models() -> None:
    ready = SpeechReady(
        epoch=0,
        turn=0,
        samples=HZ,
        model_rate_hz=HZ,
        audio=b"\x7f" * 8_000,
        format="g711_ulaw",
        rate_hz=8_000,
        text="One second.",
    )
    scenario = patient().given(spoke()).when(ready).then(ResponseStarted, ResponseSpoken, AudioProduced)
    delta = scenario.frames[-2]
    assert isinstance(delta, frames.ResponseOutputAudioDelta)
    assert (delta.delta, delta.format, delta.sample_rate_hz) == (b"\x7f" * 8_000, "g711_ulaw", 8_000)
    assert scenario.session.items[-1].ledger.generated_ms == 1_000
    rest = SpeechReady(
        epoch=0, turn=0, samples=0, model_rate_hz=HZ, audio=b"\x7f" * 9, format="g711_ulaw", rate_hz=8_000
    )
    scenario = scenario.when(rest).then(AudioProduced)
    assert scenario.session.items[-1].ledger.generated_ms == 1_000
    nothing = SpeechReady(epoch=0, turn=0, samples=0, model_rate_hz=HZ, audio=b"", format="g711_ulaw", rate_hz=8_000)
    scenario.when(nothing).then()


def test_sound_shorter_than_a_millisecond_has_its_end_too() -> None:
    click = ModelProducedAudio(epoch=0, turn=0, pcm=b"\x01\x02" * 3)
    scenario = patient().given(spoke(), click).when(finished())
    assert "response.output_audio.done" in names(scenario)


def test_a_converters_rest_alone_begins_no_answer() -> None:
    rest = SpeechReady(
        epoch=0, turn=0, samples=0, model_rate_hz=HZ, audio=b"\x7f" * 9, format="g711_ulaw", rate_hz=8_000
    )
    patient().given(spoke()).when(rest).then()
    patient().given(spoke()).when(ModelProducedAudio(epoch=0, turn=0, pcm=b"\x01")).then()


def test_what_a_models_server_says_beside_its_answer_is_passed_on() -> None:
    passed = ModelPassedOn(epoch=0, turn=0, message={"object": "x"})
    scenario = patient().when(passed).then(MessagePassedOn(message={"object": "x"}))
    scenario.shows(frames.ResponseMessage(message={"object": "x"}))
    scenario = patient().given(spoke(), said("One.")).when(passed)
    scenario.shows(frames.ResponseMessage(response_id=response_id(), message={"object": "x"}))
    patient().given(CancelInput()).when(passed).then()


def test_a_completed_answer_reports_itself_whole() -> None:
    scenario = patient().given(*answer("It is sunny.")[:-1]).when(finished(input_tokens=30, output_tokens=12))
    response = done(scenario).response
    assert (response.status, response.status_details) == ("completed", None)
    assert response.output[0].content[0].transcript == "It is sunny."  # type: ignore[index,union-attr]
    assert response.usage == Usage(
        total_tokens=42,
        input_tokens=30,
        output_tokens=12,
        input_token_details={"audio_seconds": 0.0},
        output_token_details={"audio_seconds": 1.0},
    )
    assert response.metadata == {
        "type": "response.done",
        "session_id": "s1",
        "response_id": response_id(),
        "epoch": 0,
        "committed": True,
        "playback": {"generated_ms": 1_000, "sent_ms": 1_000, "played_ms": 0, "committed_ms": 0},
    }


def test_every_response_counts_its_own_tokens_once() -> None:
    scenario = patient()
    totals = []
    for turn in range(3):
        scenario = scenario.given(*answer("One.", turn=turn)[:-1]).when(
            finished(turn, input_tokens=10 + turn, output_tokens=1)
        )
        totals.append(done(scenario).response.usage.total_tokens)  # type: ignore[union-attr]
    assert totals == [11, 12, 13]


def test_finished_turns_are_counted() -> None:
    scenario = patient().given(*answer("One."), *answer("Two.", turn=1))
    assert scenario.session.turn_id == 2
    assert scenario.given(spoke(2), CancelResponse()).session.turn_id == 2


# -- text ----------------------------------------------------------------------------------------------------------


def test_a_written_answer_has_text_events_only() -> None:
    scenario = patient(modalities=["text"])
    told = heard(
        scenario,
        spoke(),
        ModelProducedText(epoch=0, turn=0, text="Tomorrow looks "),
        ModelProducedText(epoch=0, turn=0, text="cloudy."),
        finished(),
    )
    assert types(told) == [
        *OPENING[:4],
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        *ENDING[3:],
    ]
    check_order(told).ended()
    assert told[-3].item.content[0].text == "Tomorrow looks cloudy."  # type: ignore[union-attr,index]


def test_of_a_model_that_speaks_where_text_was_asked_for_only_the_words_are_taken() -> None:
    told = heard(patient(modalities=["text"]), *answer("Hello ", "", "there."))
    assert not any("audio" in name for name in types(told))
    assert [frame.delta for frame in told if isinstance(frame, frames.ResponseOutputTextDelta)] == ["Hello ", "there."]


def test_an_answer_may_be_spoken_and_written_and_its_parts_are_numbered() -> None:
    told = heard(
        patient(), spoke(), said("Look: "), ModelProducedText(epoch=0, turn=0, text="x = 1"), said("there"), finished()
    )
    check_order(told).ended()
    assert [frame.content_index for frame in told if isinstance(frame, frames.ResponseContentPartAdded)] == [0, 1]
    assert types(told)[-8:-3] == [
        *ENDING[1:3],
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]


def test_empty_text_is_nothing() -> None:
    patient().given(spoke()).when(ModelProducedText(epoch=0, turn=0, text="")).then()


# -- who speaks ----------------------------------------------------------------------------------------------------


def test_the_model_takes_up_the_response_that_was_announced_for_it() -> None:
    scenario = patient().given(append(), CommitTurn(), spoke()).when(said("Yes."))
    scenario.then(ResponseSpoken(response_id=response_id(), turn=0), AudioProduced).shows("response.speak", *PAIR)
    assert types(heard(scenario, finished())) == ENDING


def test_the_model_says_once_that_it_speaks() -> None:
    patient().given(spoke()).when(spoke()).then()
    patient().given(spoke(), said("One.")).when(spoke()).then()


def test_a_later_turn_of_the_model_ends_the_open_answer_first() -> None:
    scenario = patient().given(spoke(), said("One.")).when(spoke(1))
    scenario.then(ResponseFinished, TurnBegun(turn=1))
    assert names(scenario) == ENDING
    assert done(scenario).response.status == "completed"
    scenario.when(said("Two.", turn=1)).then(ResponseStarted, ResponseSpoken, AudioProduced)


@pytest.mark.parametrize("named", [None, response_id(), "resp_of_an_earlier_request"])
def test_whatever_the_model_says_is_heard_as_the_announced_response(named: str | None) -> None:
    scenario = patient().given(typed("hi"), CreateResponse(), spoke(response_id=named))
    scenario.when(said("Yes.")).then(ResponseSpoken(response_id=response_id(), turn=0), AudioProduced)


@pytest.mark.parametrize(
    "signal",
    [
        said("late"),
        said("late", turn=7),
        said("late", epoch=2),
        ModelProducedText(epoch=0, turn=0, text="late"),
        spoke(),
        finished(),
        ModelInterrupted(epoch=0, turn=0),
        ModelListened(epoch=0),
        ModelFailed(epoch=0, code="response_error", message="late"),
        ModelCalledFunction(epoch=0, turn=0, call_id="c", name="f", arguments="{}"),
    ],
)
def test_what_an_interruption_has_overtaken_is_dropped(signal: object) -> None:
    scenario = patient().given(*answer("One.")[:-1], CancelInput())
    scenario.when(signal).then().shows().asks_for()  # type: ignore[arg-type]


@pytest.mark.parametrize("signal", [said("x", turn=1), finished(1), ModelProducedText(epoch=0, turn=1, text="x")])
def test_what_belongs_to_no_open_turn_is_dropped(signal: object) -> None:
    patient().when(signal).then()  # type: ignore[arg-type]
    patient().given(spoke()).when(signal).then()  # type: ignore[arg-type]
    patient().given(append(), CommitTurn()).when(signal).then()  # type: ignore[arg-type]


# -- listening -----------------------------------------------------------------------------------------------------


def test_a_decision_to_listen_needs_no_response() -> None:
    patient().when(ModelListened(epoch=0, reason="buffering")).then(Listened(reason="buffering")).shows(
        "response.listen"
    )


def test_a_decision_to_listen_ends_the_response_that_was_announced() -> None:
    scenario = patient().given(append(), CommitTurn()).when(ModelListened(epoch=0))
    scenario.then(Listened(reason="model_listen", response_id=response_id()), ResponseFinished)
    assert names(scenario) == ["response.listen", *ENDING[2:]]
    listen = scenario.frames[0]
    assert isinstance(listen, frames.ResponseListen)
    assert listen.response_id == response_id()
    response = done(scenario).response
    assert (response.status, response.metadata["committed"]) == ("completed", False)  # type: ignore[index]
    assert scenario.session.turn_id == 0


def test_a_decision_to_listen_between_turns_does_not_end_a_response_the_model_was_asked_for() -> None:
    scenario = eager().given(typed("hi"), CreateResponse())
    scenario.when(ModelListened(epoch=0, reason="silence_or_noise")).then(Listened(reason="silence_or_noise"))
    scenario.when(ModelListened(epoch=0, response_id="resp_other")).then(Listened(reason="model_listen"))
    scenario.when(ModelListened(epoch=0, response_id=response_id())).then(Listened, ResponseFinished)


def test_listening_while_it_speaks_ends_nothing() -> None:
    patient().given(spoke()).when(ModelListened(epoch=0)).then(Listened(reason="model_listen"))


# -- interrupted, failed -------------------------------------------------------------------------------------------


def test_a_model_that_cuts_itself_is_cancelled_once_and_not_told_of_it() -> None:
    scenario = eager().given(spoke(), said("It is ")).when(ModelInterrupted(epoch=0, turn=0))
    scenario.then(OverlapDecided, ResponseFinished).asks_for()
    assert names(scenario) == ["overlap.decision", *ENDING]
    response = done(scenario).response
    assert response.status == "cancelled"
    assert response.status_details.reason == "barge_in"  # type: ignore[union-attr]
    assert scenario.session.epoch == 1
    for late in (said("sunny"), ModelInterrupted(epoch=0, turn=0), finished()):
        scenario.when(late).then()


def test_the_epoch_follows_a_model_that_cut_an_answer_nobody_knew_of() -> None:
    scenario = eager().when(ModelInterrupted(epoch=0, turn=4)).then(EpochAdvanced(epoch=1, cleared_input=False))
    scenario.shows()
    scenario.given(spoke(5, epoch=1)).when(said(turn=5, epoch=1)).then(ResponseStarted, ResponseSpoken, AudioProduced)
    announced = eager().given(typed("hi"), CreateResponse())
    announced.when(ModelInterrupted(epoch=0, turn=4)).then(OverlapDecided, ResponseFinished)


def test_a_failed_answer_is_told_and_ended() -> None:
    scenario = (
        patient()
        .given(spoke(), said("One"))
        .when(ModelFailed(epoch=0, code="runtime_append_failed", message="out of memory"))
    )
    scenario.then(CommandRejected(code="runtime_append_failed", message="out of memory"), ResponseFinished)
    assert names(scenario) == ["error", *ENDING]
    response = done(scenario).response
    assert (response.status, response.status_details.reason) == ("failed", "runtime_append_failed")  # type: ignore[union-attr]
    assert not scenario.session.items[-1].remembered
    scenario.given(spoke(1)).when(said(turn=1)).then(ResponseStarted, ResponseSpoken, AudioProduced)


def test_a_failure_outside_an_answer_is_told_too_and_in_the_tables_words() -> None:
    patient().when(ModelFailed(epoch=0, code="cuda_oops", message="x")).refuses("response_error")


# -- function calls ------------------------------------------------------------------------------------------------

CALL = ModelCalledFunction(epoch=0, turn=0, call_id="call_7d1f", name="get_weather", arguments='{"city":"Hong Kong"}')


def test_a_function_call_is_an_item_and_a_response_of_its_own() -> None:
    scenario = patient().when(CALL).then(FunctionCalled)
    assert names(scenario) == [
        *OPENING[:4],
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
        "rate_limits.updated",
    ]
    check_order(list(scenario.frames)).ended()
    added = scenario.frames[3]
    assert isinstance(added, frames.ResponseOutputItemAdded)
    assert (added.item.type, added.item.name, added.item.call_id) == ("function_call", "get_weather", "call_7d1f")
    details = done(scenario).response.status_details
    assert (details.type, details.reason) == ("completed", "completed")  # type: ignore[union-attr]


def test_a_function_call_leaves_the_spoken_answer_open() -> None:
    scenario = patient().given(spoke(), said("Let me look. ")).when(CALL)
    assert scenario.session.response is not None
    assert scenario.session.response.id == response_id(1)
    told = heard(patient(), spoke(), said("Let me look. "), CALL, said("Here it is."), finished())
    checker = check_order(told)
    checker.ended()
    assert checker.statuses() == ["completed", "completed"]


@pytest.mark.parametrize(("call_id", "name"), [(None, "f"), ("c", None), ("", "f"), ("c", "")])
def test_a_malformed_call_is_shown_as_it_came(call_id: str | None, name: str | None) -> None:
    call = ModelCalledFunction(epoch=0, turn=0, call_id=call_id, name=name, arguments="{")
    scenario = patient().when(call).then(FunctionCallMalformed)
    (frame,) = scenario.frames
    assert isinstance(frame, frames.DuplexFunctionCallDone)
    assert frame.event["arguments"] == "{"
    assert scenario.session.items == ()


def test_fifty_calls_in_a_row_are_all_taken() -> None:
    scenario = patient()
    for number in range(50):
        call = ModelCalledFunction(epoch=0, turn=number, call_id=f"c{number}", name="f", arguments="{}")
        scenario = scenario.when(call).then(FunctionCalled)
    assert len({item.id for item in scenario.session.items}) == 50


# -- asked for -----------------------------------------------------------------------------------------------------


def test_a_request_waits_for_the_transcript_it_is_about() -> None:
    scenario = eager(extra_body={"auto_response": False}).given(append(), CommitInput()).when(CreateResponse())
    scenario.then(ResponseStarted).asks_for()
    scenario = scenario.when(ModelHeardTurn(epoch=0, transcript="what time is it", item_id=item_id()))
    (ask,) = scenario.effects
    assert isinstance(ask, AskModel)
    assert isinstance(ask.request, Generate)
    assert [entry.text for entry in ask.request.history] == ["what time is it"]
    assert ask.request.response_id == response_id()
    scenario.when(ModelHeardTurn(epoch=0, transcript="again", item_id=item_id())).asks_for()


def test_a_request_that_was_cancelled_while_it_waited_is_never_made() -> None:
    scenario = eager(extra_body={"auto_response": False}).given(
        append(), CommitInput(), CreateResponse(), CancelInput()
    )
    scenario.when(ModelHeardTurn(epoch=0, transcript="what", item_id=item_id())).asks_for()


def test_text_of_two_kinds_is_one_fact_each() -> None:
    patient().given(spoke(), said("One.")).when(ModelProducedText(epoch=0, turn=0, text="a")).then(
        TextProduced(response_id=response_id(), text="a")
    )
