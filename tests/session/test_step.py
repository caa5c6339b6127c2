"""The verbs over all families: step for hosts, fold for replays, merged for both."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.protocol import AppendAudio, CommitInput, CreateResponse, Heartbeat, frames
from duplex_es.session import inputs
from duplex_es.session.events import FACTS, AudioAppended, Fact, SpeechStarted
from duplex_es.session.projection.realtime import PROJECTORS
from duplex_es.session.state import Session
from duplex_es.session.step import DECIDE, apply, fold, merged, reproject, step
from tests.session.cast import answer, append, eager, patient, said, spoke, typed

pytestmark = pytest.mark.unit


def members(union: object) -> set[type]:
    """The types of a union, nested ones included."""
    parts = typing.get_args(union)
    return {union} if not parts else set().union(*(members(part) for part in parts))  # type: ignore[arg-type]


def test_there_is_a_rule_for_everything_that_can_be_said() -> None:
    assert members(inputs.Input) - {AppendAudio} == set(DECIDE), "an append is decided on as AudioArrived"


def test_a_decision_is_the_same_whenever_it_is_made() -> None:
    session = eager().given(append(), CommitInput()).session
    assert step(session, spoke(), 5) == step(session, spoke(), 5)


def test_a_decision_holds_the_state_after_all_its_facts() -> None:
    session = patient().given(append()).session
    decision = step(session, CommitInput(response_create=True), 0)
    assert len(decision.facts) == 3
    assert decision.session == fold(decision.facts, session)


def test_folding_nothing_is_the_session_before_it_opened() -> None:
    assert fold([]) == Session()
    session = patient().session
    assert fold([], session) is session


def test_a_fact_asks_for_effects_only_when_it_is_new() -> None:
    session, facts = Session(), []
    for said_ in (typed("hi"), CreateResponse()):
        decision = step(patient().session if not facts else session, said_, 0)
        session, facts = decision.session, [*facts, *decision.facts]
    _, effects = apply(fold(facts[:-1], patient().session), facts[-1])
    assert [type(effect).__name__ for effect in effects] == ["AskModel"]
    assert fold(facts, patient().session) == session


def test_frames_can_be_made_again_with_and_without_their_sound() -> None:
    session = patient().given(spoke(), said("Oh. ")).session
    decision = step(session, said("Hello.", 100), 0)
    after, again = reproject(decision.facts, session, bytes(4_800))
    assert (after, tuple(again)) == (decision.session, decision.frames)
    _, silent = reproject(decision.facts, session)
    assert isinstance(silent[0], frames.ResponseOutputAudioDelta)
    assert silent[0].delta == b""


def test_the_sound_of_a_delta_is_that_of_its_signal() -> None:
    decision = step(patient().given(spoke(), said("Oh. ")).session, said("Hello.", 100), 0)
    assert decision.frames[0].delta == bytes(4_800)  # type: ignore[union-attr]
    later = step(decision.session, Heartbeat(), 0)
    assert all(not hasattr(frame, "delta") for frame in later.frames)


# -- merging -------------------------------------------------------------------------------------------------------

appended = st.builds(
    AudioAppended,
    samples=st.integers(1, 50_000),
    rate_hz=st.sampled_from([8_000, 16_000, 44_100]),
    is_speech=st.booleans(),
    hinted=st.booleans(),
    hint=st.sampled_from(["", "", "", "yes", "no"]),
)


@given(st.lists(appended, min_size=1, max_size=12))
def test_merged_facts_lead_to_the_same_state(facts: list[Fact]) -> None:
    start = patient().given(append()).session
    written: list[Fact] = []
    for fact in facts:
        joined = merged(written[-1], fact) if written else None
        written = [*written, fact] if joined is None else [*written[:-1], joined]
    assert fold(written, start) == fold(facts, start)


def test_a_minute_of_listening_is_one_fact() -> None:
    one = AudioAppended(samples=320, rate_hz=16_000, is_speech=False)
    joined: Fact | None = one
    for _ in range(2_999):
        assert joined is not None
        joined = merged(joined, one)
    assert joined == AudioAppended(samples=960_000, rate_hz=16_000, is_speech=False)


@pytest.mark.parametrize(
    "other",
    [
        AudioAppended(samples=1, rate_hz=8_000),
        AudioAppended(samples=1, rate_hz=16_000, is_speech=False),
        AudioAppended(samples=1, rate_hz=16_000, hint="words"),
        SpeechStarted(item_id="a", start_ms=0),
    ],
)
def test_what_differs_stays_apart(other: Fact) -> None:
    assert merged(AudioAppended(samples=1, rate_hz=16_000), other) is None
    assert merged(SpeechStarted(item_id="a", start_ms=0), other) is None


def test_facts_without_frames_are_known_ones() -> None:
    """A new fact must be shown, or put on this list on purpose."""
    silent = {name for name, kind in FACTS.items() if kind not in PROJECTORS}
    assert silent == {
        "SessionRefused",
        "SessionForked",
        "SocketChanged",
        "AudioAppended",
        "TextAppended",
        "TurnPromoted",
        "WorkerChanged",
        "AnswerContinued",
        "AnswerAskedAgain",
        "AnswerPutOff",
        "TurnHeardAgain",
        "MemoryGrown",
        "ModelRestarted",
        "StagesMeasured",
        "TurnBegun",
        "TurnEndedEmpty",
    }


def test_a_whole_conversation_folds_from_its_facts() -> None:
    scenario = eager()
    facts: list[Fact] = []
    for one in (append(), CommitInput(), *answer("Good ", "morning."), typed("and?"), *answer("Bye.", turn=1)):
        before = scenario.session
        scenario = scenario.when(one)
        facts += scenario.decision.facts
        assert fold(scenario.decision.facts, before) == scenario.session
    assert fold(facts, eager().session) == scenario.session
