"""A scenario reads like a sentence and fails like one."""

from __future__ import annotations

import pytest

from duplex_es.model import ModelFinished, ModelInfo, ModelProducedAudio, ModelSpoke
from duplex_es.protocol import CancelResponse, Capabilities, Heartbeat, frames
from duplex_es.session.events import HeartbeatAnswered, ResponseFinished
from duplex_es.session.state import Session
from duplex_es.testing.scenario import Scenario, opened

pytestmark = pytest.mark.unit

INFO = ModelInfo(name="mine", capabilities=Capabilities())


def test_an_opened_session_has_the_settings_and_has_shown_nothing_yet() -> None:
    scenario = opened(INFO, {"instructions": "be brief"}, session_id="mine")
    assert (scenario.session.id, scenario.session.settings.instructions) == ("mine", "be brief")
    assert (scenario.frames, scenario.effects) == ((), ())


def test_settings_that_are_refused_are_the_tests_own_mistake() -> None:
    with pytest.raises(AssertionError, match="refused"):
        opened(INFO, {"input_audio_format": "mp3"})


def test_the_past_may_be_told_as_facts_or_as_what_was_said() -> None:
    said = opened(INFO).given(ModelSpoke(epoch=0, turn=0))
    facts = opened(INFO).when(ModelSpoke(epoch=0, turn=0)).decision.facts
    assert opened(INFO).given(*facts) == said
    assert said.given() == said


def test_a_scenario_is_a_value_many_tests_may_start_from() -> None:
    speaking = opened(INFO).given(ModelSpoke(epoch=0, turn=0), ModelProducedAudio(epoch=0, turn=0, pcm=bytes(480)))
    speaking.when(CancelResponse()).then(ResponseFinished)
    speaking.when(ModelFinished(epoch=0, turn=0)).then(ResponseFinished)
    assert speaking.session.response is not None


def test_checks_take_whole_things_classes_and_wire_names() -> None:
    scenario = opened(INFO).when(Heartbeat(), now_ms=5)
    frame = frames.SessionHeartbeatAck(session_id="s1")
    scenario.then(HeartbeatAnswered()).then(HeartbeatAnswered).asks_for()
    scenario.shows(frame).shows(frames.SessionHeartbeatAck).shows("session.heartbeat_ack")


def test_a_check_that_fails_shows_both_sides() -> None:
    scenario = opened(INFO).when(Heartbeat())
    for check in (
        lambda: scenario.then(),
        lambda: scenario.then(ResponseFinished),
        lambda: scenario.shows("session.closed"),
        lambda: scenario.shows("session.heartbeat_ack", "session.closed"),
        lambda: scenario.asks_for("anything"),
    ):
        with pytest.raises(AssertionError, match="expected"):
            check()


def test_a_refusal_is_checked_by_its_code_and_field() -> None:
    refused = opened(INFO).when(CancelResponse())
    refused.refuses("response_not_active").refuses("response_not_active", param="response_id")
    for code, param in (("bad_event", None), ("response_not_active", "event")):
        with pytest.raises(AssertionError, match="expected"):
            refused.refuses(code, param=param)
    with pytest.raises(AssertionError):
        opened(INFO).when(Heartbeat()).refuses("bad_event")


def test_a_scenario_begins_before_the_session_opened() -> None:
    assert Scenario().session == Session()
    Scenario().when(Heartbeat()).refuses("bad_event")
