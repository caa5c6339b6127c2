"""What went wrong in other services of this kind, as small tests of this one; each names the report it is from."""

from __future__ import annotations

import pytest

from duplex_es.model import (
    Generate,
    Interrupt,
    ModelCalledFunction,
    ModelHeardSpeech,
    ModelHeardTurn,
    ModelListened,
    ReconfigureModel,
)
from duplex_es.protocol import (
    AcknowledgePlayback,
    CancelResponse,
    ClearOutput,
    CloseSession,
    CommitInput,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Item,
    RetrieveItem,
    SocketAttached,
    SocketDetached,
    TruncateItem,
    UpdateSession,
    frames,
)
from duplex_es.session.effects import AskModel, FeedAppended
from duplex_es.session.events import (
    CommandRejected,
    EpochAdvanced,
    ItemCreated,
    ItemTruncated,
    Listened,
    OutputCleared,
    PlaybackAcknowledged,
    ResponseFinished,
    ResponseStarted,
    SessionReconfigured,
    SpeechStarted,
)
from duplex_es.session.history import history
from duplex_es.testing.scenario import Scenario
from tests.session.cast import (
    answer,
    answer_id,
    append,
    detected,
    eager,
    finished,
    item_id,
    names,
    native,
    patient,
    response_id,
    said,
    spoke,
    typed,
)

pytestmark = pytest.mark.unit

VAD = {"type": "server_vad"}


def spoken(ms: int = 6_100, **session: object) -> Scenario:
    """A finished answer of ``ms``."""
    return patient(**session).given(*answer("It is sunny, twenty-four degrees.", ms=ms))


def transcript(scenario: Scenario, which: str | None = None) -> str:
    """The transcript of an item as a client reads it."""
    (frame,) = scenario.when(RetrieveItem(item_id=which or answer_id())).frames
    assert isinstance(frame, frames.ConversationItemRetrieved)
    return "".join(part.transcript or "" for part in frame.item.content)  # type: ignore[union-attr,misc]


# -- interruption and truncation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("generated_ms", "asked_ms"), [(6_100, 6_185), (9_250, 57_340)])
def test_a_truncation_beyond_the_end_is_one_at_the_end(generated_ms: int, asked_ms: int) -> None:
    """pipecat-ai/pipecat#1963, openai/openai-agents-python#2370; twilio-samples python#45."""
    scenario = spoken(generated_ms).when(TruncateItem(item_id=answer_id(), audio_end_ms=asked_ms)).then(ItemTruncated)
    truncated = scenario.frames[0]
    assert isinstance(truncated, frames.ConversationItemTruncated)
    assert truncated.audio_end_ms == generated_ms
    assert "error" not in names(scenario)


def test_a_truncation_before_the_first_sound_silences_the_answer() -> None:
    """livekit/agents#6157."""
    scenario = patient().given(typed("hi"), CreateResponse())
    scenario = scenario.when(TruncateItem(item_id=answer_id(), audio_end_ms=0)).then(ItemTruncated)
    for late in (spoke(), said("Hello."), said("you.")):
        scenario = scenario.when(late)
        assert not [name for name in names(scenario) if name.endswith(".delta")]
    scenario = scenario.when(finished())
    assert names(scenario).count("response.done") == 1


def test_what_was_played_to_its_end_is_remembered_whole() -> None:
    """livekit/agents#1988."""
    scenario = spoken().given(AcknowledgePlayback(played_ms=6_100), append())
    assert [entry.text for entry in history(scenario.session)] == ["It is sunny, twenty-four degrees."]


def test_a_late_report_of_playback_ends_nothing() -> None:
    """vllm-project/vllm-omni#6716."""
    scenario = spoken()
    scenario.when(AcknowledgePlayback(played_ms=6_100)).then(PlaybackAcknowledged)
    later = scenario.given(append(transcript="and now?"), CommitInput(), *answer("Now too.", turn=1))
    later.when(AcknowledgePlayback(played_ms=100, item_id=answer_id(1))).then(PlaybackAcknowledged)
    later.when(AcknowledgePlayback(played_ms=100, item_id="item_nobody")).refuses("playback_item_not_found")
    later.when(CreateResponse()).then(ResponseStarted)


def test_clearing_what_was_played_already_changes_no_memory() -> None:
    """vllm-project/vllm-omni PR#7864."""
    scenario = spoken().given(AcknowledgePlayback(played_ms=6_100))
    before = history(scenario.session)
    scenario = scenario.when(ClearOutput()).then(OutputCleared).shows("output_audio_buffer.cleared")
    assert history(scenario.session) == before


def test_a_truncation_really_shortens() -> None:
    """vllm-project/vllm PR#32304."""
    scenario = spoken()
    whole = transcript(scenario)
    assert 0 < len(transcript(scenario.given(TruncateItem(item_id=answer_id(), audio_end_ms=3_000)))) < len(whole)


@pytest.mark.parametrize(("reported", "kept"), [((AcknowledgePlayback(played_ms=300),), 300), ((), 2_000)])
def test_what_an_interruption_leaves_in_memory_is_what_was_heard(
    reported: tuple[AcknowledgePlayback, ...], kept: int
) -> None:
    """openai/openai-agents-python#2009: at the last reported position, or at what was sent where nobody reports."""
    scenario = native(turn_detection=VAD).given(spoke(), said("It is sunny now.", 2_000), *reported)
    scenario = scenario.when(detected(started=True))
    heard = "It is sunny now."[: len("It is sunny now.") * kept // 2_000].rstrip()
    assert [entry.text for entry in history(scenario.session) if entry.role == "assistant"] == [heard]
    (request,) = [one.request for one in scenario.effects if isinstance(one, AskModel)]
    assert isinstance(request, Interrupt)
    assert request.heard_text == heard


def test_loud_speech_interrupts_exactly_once() -> None:
    """vllm-project/vllm-omni#6101."""
    scenario = native(turn_detection=VAD).given(spoke(), said("It is "))
    told = []
    for said_by in (detected(started=True), *[detected()] * 8, said("sunny "), said("now.")):
        scenario = scenario.when(said_by)
        told += names(scenario)
    assert told.count("input_audio_buffer.speech_started") == 1
    assert told.count("response.done") == 1
    assert "response.output_audio.delta" not in told


# -- the state of a response ---------------------------------------------------------------------------------------


def test_two_requests_back_to_back_are_one_answer_and_one_error_that_names_the_second() -> None:
    """livekit/agents#1056, openai/openai-agents-python#1466."""
    scenario = patient().given(typed("hi"), CreateResponse(event_id="a")).when(CreateResponse(event_id="b"))
    scenario.refuses("response_already_active")
    assert scenario.decision.facts[0].event_id == "b"  # type: ignore[attr-defined]


def test_a_turn_and_a_request_at_the_same_moment_are_one_answer() -> None:
    """livekit/agents#6817."""
    turn = eager().given(append(), ModelHeardSpeech(epoch=0, start_ms=0), ModelHeardTurn(epoch=0, transcript="hi"))
    scenario = turn.when(CreateResponse(event_id="a")).then(ResponseStarted).asks_for()
    scenario = scenario.given(spoke()).when(said("Hello."))
    assert "response.created" not in names(scenario)
    scenario.when(CreateResponse(event_id="b")).refuses("response_already_active")


@pytest.mark.parametrize("named", [None, "resp_unknown"])
def test_there_is_nothing_to_cancel(named: str | None) -> None:
    """pipecat-ai/pipecat#3755, vllm-project/vllm-omni PR#6618: before any answer, by an unknown id, and twice."""
    cancel = CancelResponse() if named is None else CancelResponse(response_id=named)
    patient().when(cancel).refuses("response_not_active")
    cut = patient().given(spoke(), said("One."), CancelResponse())
    cut.when(cancel).refuses("response_not_active")
    assert cut.session.state == "open"


def test_a_cancel_reaches_the_model_under_its_own_fence() -> None:
    """vllm-project/vllm-omni#7055."""
    scenario = patient().given(spoke(), said("One. ")).when(CancelResponse(response_id=response_id()))
    scenario.asks_for(AskModel(Interrupt(epoch=1, response_id=response_id(), heard_text="One.")))


def test_a_late_answer_still_carries_the_metadata_of_its_request_and_can_be_cancelled() -> None:
    """livekit/agents PR#3405."""
    request = CreateResponse(response={"metadata": {"client_event_id": "e1"}})
    created = patient().given(typed("hi")).when(request).frames[0]
    assert isinstance(created, frames.ResponseCreated)
    assert created.response.metadata["client_metadata"] == {"client_event_id": "e1"}  # type: ignore[index]
    patient().given(typed("hi"), request).when(CancelResponse()).then(ResponseFinished)


def test_a_request_that_the_model_does_not_answer_ends_all_the_same() -> None:
    """Project-N.E.K.O/N.E.K.O#2900."""
    scenario = patient().given(typed("hi"), CreateResponse())
    scenario = scenario.when(ModelListened(epoch=0, response_id=response_id())).then(Listened, ResponseFinished)
    assert names(scenario)[-2:] == ["response.done", "rate_limits.updated"]


def test_a_commit_that_asks_for_nothing_only_makes_an_item_and_a_close_in_an_answer_is_clean() -> None:
    """speaches-ai/speaches#559."""
    scenario = patient().given(append()).when(CommitInput(response_create=False))
    assert not [name for name in names(scenario) if name.startswith("response.")]
    closed = scenario.given(spoke(), said("One.")).when(CloseSession())
    assert names(closed)[-3:] == ["response.done", "rate_limits.updated", "session.closed"]


def test_without_a_detector_nobody_hears_speech_begin_or_is_answered_unasked() -> None:
    """openai/openai-python#2199, livekit/agents#1650: null takes the detector away."""
    scenario = native(turn_detection=VAD, extra_body={"auto_response": False})
    scenario = scenario.given(UpdateSession(session={"turn_detection": None}))
    assert scenario.session.settings.turn_detection is None
    scenario = scenario.when(append(is_speech=False)).shows()
    (feed,) = scenario.effects
    assert isinstance(feed, FeedAppended)
    assert feed.force_listen is True


def test_new_instructions_reach_the_model_and_are_told() -> None:
    """vllm-project/vllm-omni#6132."""
    scenario = patient().given(*answer("One.")).when(UpdateSession(session={"instructions": "Be brief."}))
    scenario.then(SessionReconfigured).shows("session.updated")
    (ask,) = scenario.effects
    assert isinstance(ask, AskModel)
    assert isinstance(ask.request, ReconfigureModel)
    assert ask.request.instructions == "Be brief."


# -- input ---------------------------------------------------------------------------------------------------------


def test_a_commit_of_nothing_ends_nothing() -> None:
    """openai/openai-agents-js#748."""
    scenario = patient().when(CommitInput(event_id="e")).refuses("input_audio_buffer_empty")
    scenario.when(append()).then(SpeechStarted, object)


def test_declared_silence_makes_no_item_and_no_answer_and_leaves_nothing() -> None:
    """The rule of ``is_speech: false``."""
    scenario = patient().given(append()).when(CommitInput(is_speech=False))
    assert (scenario.session.items, scenario.session.response, scenario.session.input.has_audio) == ((), None, False)


# -- items and calls -----------------------------------------------------------------------------------------------


def call(call_id: str, epoch: int = 0) -> ModelCalledFunction:
    return ModelCalledFunction(epoch=epoch, turn=0, call_id=call_id, name="f", arguments="{}")


def output(call_id: str) -> CreateItem:
    return CreateItem(item=Item(type="function_call_output", call_id=call_id, output="1"), event_id="evt_out")


def test_fifty_calls_one_after_the_other_are_all_taken() -> None:
    """vllm-project/vllm-omni PR#7884."""
    scenario = patient()
    for number in range(50):
        scenario = scenario.given(call(f"c{number}")).when(output(f"c{number}")).then(ItemCreated)


def test_outputs_that_come_too_late_twice_or_for_nothing_end_nothing() -> None:
    """vllm-project/vllm-omni, the session tools' document."""
    late = patient().given(spoke(), said("Let me see."), call("c1"), CancelResponse())
    late.when(output("c1")).then(ItemCreated)
    late.given(output("c1")).when(output("c1")).refuses("invalid_function_call_output", param="item.output")
    late.when(output("c?")).refuses("invalid_function_call_output", param="item.call_id")
    refusing = patient(extra_body={"stale_function_outputs": "refuse"}).given(
        spoke(), said("Let me see."), call("c1"), CancelResponse()
    )
    refusing.when(output("c1")).refuses("stale_function_call_output")
    assert late.session.state == "open"


def test_an_item_that_follows_nobody_is_refused_by_name() -> None:
    """livekit/agents#3089."""
    scenario = patient().when(typed("hi", previous_item_id="item_nobody")).refuses("item_not_found")
    assert scenario.decision.facts[0].event_id == "evt_item"  # type: ignore[attr-defined]


def test_an_item_may_be_deleted_while_a_call_is_open() -> None:
    """livekit/agents PR#5021."""
    scenario = patient().given(typed("hi"), call("c1"), DeleteItem(item_id=item_id()))
    scenario.when(output("c1")).then(ItemCreated)


def test_three_turns_can_be_put_together_from_what_was_told() -> None:
    """openai/openai-agents-js#157."""
    scenario, told = patient(), []
    for turn in range(3):
        for one in (append(transcript=f"question {turn}"), CommitInput(), *answer(f"answer {turn}", turn=turn)):
            scenario = scenario.when(one)
            told += scenario.frames
    heard = [
        "".join(str(part.transcript) for part in frame.item.content)  # type: ignore[union-attr]
        for frame in told
        if isinstance(frame, frames.ConversationItemDone)
    ]
    assert heard == [entry.text for entry in history(scenario.session)]


def test_a_context_outlives_a_lost_socket() -> None:
    """sgl-project/sglang#36475."""
    here = patient().given(SocketAttached(generation=1, gateway="g"), typed("hi"), *answer("Hello."))
    gone = here.given(SocketDetached(generation=1, reason="lost"), SocketAttached(generation=2, gateway="h"))
    assert history(gone.session) == history(here.session)
    asked = gone.given(typed("again")).when(CreateResponse())
    (ask,) = asked.effects
    assert isinstance(ask, AskModel)
    assert isinstance(ask.request, Generate)
    assert [entry.text for entry in ask.request.history] == ["hi", "Hello.", "again"]


def test_an_answer_cut_after_it_was_generated_moves_the_fence() -> None:
    """vllm-project/vllm-omni#6716: generation is over, playback is not."""
    scenario = spoken(playback_commit_policy="ack_only").when(CancelResponse())
    scenario.then(OutputCleared, EpochAdvanced)
    scenario.when(CancelResponse()).then(CommandRejected)
