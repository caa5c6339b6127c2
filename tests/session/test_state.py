"""The small questions a decision asks of the state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.protocol import AcknowledgePlayback, CommitInput
from duplex_es.session.state import Clock, Input, Item, Session
from tests.session.cast import (
    answer,
    answer_id,
    append,
    chat,
    detected,
    eager,
    item_id,
    native,
    patient,
    response_id,
    said,
    spoke,
    typed,
)

pytestmark = pytest.mark.unit

rates = st.sampled_from([8_000, 11_025, 16_000, 24_000, 44_100, 48_000])


def test_a_clock_is_exact_over_hours() -> None:
    clock = Clock()
    for _ in range(3_600):
        clock = clock.after(44_100, 44_100)
    assert clock.ms == 3_600_000


@given(st.lists(st.tuples(st.integers(1, 96_000), rates), max_size=30))
def test_a_clock_never_runs_ahead_and_loses_less_than_a_millisecond(pieces: list[tuple[int, int]]) -> None:
    clock, before = Clock(), 0
    for samples, rate_hz in pieces:
        clock = clock.after(samples, rate_hz)
        assert clock.ms >= before
        before = clock.ms
    exact_ms = sum(samples * 1_000 / rate_hz for samples, rate_hz in pieces)
    assert exact_ms - 1.1 <= clock.ms <= exact_ms + 1e-6


def test_an_emptied_input_keeps_its_clock_and_nothing_else() -> None:
    heard = Input(clock=Clock(samples=16_000), has_audio=True, transcript="x", item_id="i", last_hint="x")
    assert heard.emptied("turn", sealed=True) == Input(
        clock=Clock(samples=16_000), since_ms=1_000, model_item_id="turn", sealed=True
    )


def test_items_are_found_replaced_and_keep_their_order() -> None:
    session = Session().with_item(Item(id="a")).with_item(Item(id="b")).with_item(Item(id="a", text="new"))
    assert [item.id for item in session.items] == ["a", "b"]
    assert session.last_item_id == "b"
    assert session.item("a") == Item(id="a", text="new")
    assert session.item("c") is None
    assert session.item(None) is None
    assert Session().last_item_id is None


def test_the_answers_are_those_of_this_session_newest_first() -> None:
    scenario = patient().given(*answer("One."), typed("x", role="assistant"), *answer("Two.", turn=1))
    assert [item.id for item in scenario.session.answers()] == [answer_id(2), answer_id(1)]


def test_an_answer_is_in_progress_while_it_is_given_and_under_ack_only_until_it_is_heard() -> None:
    scenario = patient(playback_commit_policy="ack_only").given(spoke(), said("One."))
    assert scenario.session.in_progress
    assert scenario.session.unheard is None
    done = scenario.given(answer("One.")[-1])
    assert done.session.in_progress
    assert done.session.unheard is not None
    assert done.session.unheard.response_id == response_id()
    assert done.given(typed("x", role="assistant")).session.in_progress, "a client's item hides nothing"
    assert not done.given(AcknowledgePlayback(played_ms=1_000)).session.in_progress
    assert not patient().given(*answer("One.")).session.in_progress


def test_the_history_counts_turns_whose_words_are_unknown_and_no_answer_nobody_heard() -> None:
    scenario = patient(playback_commit_policy="ack_only").given(append(), CommitInput(), *answer("One."))
    assert scenario.session.history_len == 1
    assert scenario.given(AcknowledgePlayback(played_ms=1_000)).session.history_len == 2
    assert scenario.session.items[0].id == item_id()


def test_a_session_is_at_rest_when_nobody_speaks_and_nobody_is_to() -> None:
    rest = native(turn_detection={"type": "server_vad"})
    assert rest.session.is_at_rest
    for busy in (
        (detected(started=True),),
        (spoke(),),
        (spoke(), said("One.")),
        (append(), CommitInput()),
        (spoke(), said("One."), append(1_000), CommitInput()),
    ):
        assert not rest.given(*busy).session.is_at_rest, busy
    assert rest.given(detected(started=True), detected(stopped=True)).session.is_at_rest
    assert rest.given(*answer("One.")).session.is_at_rest


def test_what_a_session_leaves_to_its_model() -> None:
    assert [one.session.judges_speech for one in (native(), patient(), eager(), chat())] == [True, True, False, False]
    assert [one.session.is_chat_lane for one in (native(), eager(), chat())] == [False, False, True]
    assert not patient().session.asks_for_answers
