"""What it cost: every second and every token once, and all of it in the end."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from duplex_es.protocol import CancelInput, CloseSession, CommitInput, Usage, frames
from duplex_es.session.events import ResponseFinished
from duplex_es.session.usage import response_usage
from duplex_es.testing.scenario import Scenario
from tests.session.cast import append, finished, patient, said, spoke

pytestmark = pytest.mark.unit


def usage(scenario: Scenario) -> Usage:
    (done,) = [frame for frame in scenario.frames if isinstance(frame, frames.ResponseDone)]
    assert isinstance(done.response.usage, Usage)
    return done.response.usage


def test_every_second_of_the_caller_is_counted_with_one_response() -> None:
    scenario, heard_s, spoken_s = patient(), [], []
    for turn in range(3):
        scenario = scenario.given(append(1_000 * (turn + 1)), CommitInput(), spoke(turn), said("One.", 500, turn=turn))
        scenario = scenario.when(finished(turn))
        heard_s.append(usage(scenario).input_token_details["audio_seconds"])  # type: ignore[index]
        spoken_s.append(usage(scenario).output_token_details["audio_seconds"])  # type: ignore[index]
    assert (heard_s, spoken_s) == ([1.0, 2.0, 3.0], [0.5] * 3)


def test_an_answer_that_was_cut_is_counted_too() -> None:
    scenario = patient().given(append(1_000), spoke(), said("One.", 700)).when(CancelInput())
    assert usage(scenario).output_token_details == {"audio_seconds": 0.7}
    assert scenario.session.usage_told_ms == 1_000


def test_the_end_of_the_session_carries_the_totals() -> None:
    scenario = patient().given(append(1_500), spoke(), said("One.", 700), finished(input_tokens=30, output_tokens=12))
    scenario = scenario.given(spoke(1), said("Two.", 300, turn=1), finished(1, output_tokens=3)).when(CloseSession())
    closed = scenario.frames[-1]
    assert isinstance(closed, frames.SessionClosed)
    assert closed.event["usage"] == {  # type: ignore[index]
        "input_audio_seconds": 1.5,
        "output_audio_seconds": 1.0,
        "input_tokens": 30,
        "output_tokens": 15,
        "total_tokens": 45,
        "responses": 2,
    }


def test_tokens_that_the_model_had_at_hand_are_told_apart() -> None:
    scenario = patient().given(append(1_000), CommitInput(), spoke(), said("One."))
    scenario = scenario.when(finished(input_tokens=30, output_tokens=12, cached_tokens=25))
    assert usage(scenario).input_token_details == {"audio_seconds": 1.0, "cached_tokens": 25}
    assert (usage(scenario).input_tokens, usage(scenario).total_tokens) == (30, 42)


def test_an_old_record_without_counts_shows_none() -> None:
    assert response_usage(ResponseFinished(response_id="r", status="completed", epoch=0)) is UNSET
    counted = ResponseFinished(response_id="r", status="completed", epoch=0, input_tokens=3)
    assert response_usage(counted) == Usage(total_tokens=3, input_tokens=3, output_tokens=0)
