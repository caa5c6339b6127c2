"""The open answer as it grows: what its facts leave in the session."""

from __future__ import annotations

import pytest

from duplex_es.session.answering import apply, ask_when_heard
from duplex_es.session.events import (
    AudioProduced,
    Listened,
    ResponseFinished,
    ResponseSpoken,
    ResponseStarted,
    TextProduced,
    TurnBegun,
    TurnEndedEmpty,
)
from duplex_es.session.state import Begun
from tests.session.cast import answer_id, append, eager, heard, patient, response_id, said, spoke

pytestmark = pytest.mark.unit


def test_a_turn_is_begun_until_it_is_heard_or_over() -> None:
    session, effects = apply(patient().session, TurnBegun(turn=3, response_id="resp_x"))
    assert (session.begun, effects) == (Begun(3, "resp_x"), ())
    ended, _ = apply(session, TurnEndedEmpty(turn=3))
    assert (ended.begun, ended.turn_id) == (None, 1)
    started, _ = apply(session, ResponseStarted(response_id=response_id()))
    shown, _ = apply(started, ResponseSpoken(response_id=response_id(), turn=3))
    assert shown.begun is None
    assert shown.response is not None
    assert shown.response.turn == 3


def test_durations_and_marks_are_cumulative() -> None:
    session = patient().given(spoke(), said("One. ", 400), said("", 100), said("Two.", 500)).session
    item = session.item(answer_id())
    assert item is not None
    assert (item.ledger.generated_ms, item.marks) == (1_000, ((5, 400), (9, 1_000)))


@pytest.mark.parametrize(
    "fact",
    [
        AudioProduced(response_id="resp_x", samples=1, rate_hz=8_000),
        TextProduced(response_id="resp_x", text="a"),
        ResponseSpoken(response_id="resp_x", turn=1),
        ResponseFinished(response_id="resp_x", status="completed", epoch=0),
    ],
)
def test_a_fact_of_another_response_changes_nothing(fact: object) -> None:
    session = patient().given(spoke(), said("One.")).session
    assert apply(session, fact) == (session, ())  # type: ignore[arg-type]


def test_a_decision_to_listen_settles_what_was_owed() -> None:
    session = eager().given(append(), heard("hello")).session
    assert session.owed is not None
    assert apply(session, Listened(reason="model_listen"))[0].owed is None


def test_nothing_is_asked_where_nothing_is_held() -> None:
    session = patient().session
    assert ask_when_heard(session) == (session, ())
