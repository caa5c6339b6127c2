"""What the model is told of the conversation: in order, as far as it was heard."""

from __future__ import annotations

import pytest

from duplex_es.model import HistoryItem, ModelCalledFunction, ModelHeardTurn
from duplex_es.protocol import AppendText, CommitInput, CreateItem, DeleteItem, Item
from duplex_es.session.history import history
from tests.session.cast import answer, answer_id, append, chat, eager, item_id, patient, response_id, typed

pytestmark = pytest.mark.unit


def test_a_conversation_is_told_oldest_first_with_the_calls_and_their_outputs() -> None:
    scenario = patient().given(
        typed("Be kind.", role="system"),
        append(transcript="what is the weather"),
        CommitInput(),
        ModelCalledFunction(epoch=0, turn=0, call_id="c1", name="weather", arguments='{"city":"Rome"}'),
        CreateItem(item=Item(type="function_call_output", call_id="c1", output="sunny")),
        *answer("It is ", "sunny."),
    )
    assert history(scenario.session) == (
        HistoryItem(item_id=item_id(1), role="system", text="Be kind."),
        HistoryItem(item_id=item_id(2), role="user", text="what is the weather", spoken=True),
        HistoryItem(item_id=answer_id(1), role="assistant", text='{"city":"Rome"}', call_id="c1", name="weather"),
        HistoryItem(item_id=item_id(3), role="tool", text="sunny", call_id="c1"),
        HistoryItem(item_id=answer_id(2), role="assistant", text="It is sunny."),
    )


def test_what_was_not_understood_yet_or_at_all_is_not_told() -> None:
    scenario = eager().given(append(), CommitInput())
    assert history(scenario.session) == ()
    assert scenario.session.history_len == 1, "the turn is there, its words are not"
    silent = scenario.given(ModelHeardTurn(epoch=0, transcript="", item_id=item_id()))
    assert history(silent.session) == ()
    understood = scenario.given(ModelHeardTurn(epoch=0, transcript="hello", item_id=item_id()))
    assert [entry.text for entry in history(understood.session)] == ["hello"]


def test_an_answer_that_is_being_given_is_not_told() -> None:
    assert history(patient().given(*answer("One.")[:-1]).session) == ()


def test_what_was_deleted_is_forgotten() -> None:
    scenario = patient().given(typed("one"), *answer("Two."), typed("three"), DeleteItem(item_id=answer_id()))
    assert [entry.text for entry in history(scenario.session)] == ["one", "three"]
    assert scenario.session.history_len == 2


def test_what_an_assistant_said_elsewhere_is_told_as_written() -> None:
    scenario = patient().given(typed("I said so.", role="assistant"))
    assert history(scenario.session) == (HistoryItem(item_id=item_id(), role="assistant", text="I said so."),)


def test_a_call_without_arguments_is_told_as_an_empty_text() -> None:
    scenario = patient().given(CreateItem(item=Item(type="function_call", call_id="c", name="f", id="mine")))
    assert history(scenario.session) == (HistoryItem(item_id="mine", role="assistant", text="", call_id="c", name="f"),)
    assert response_id() not in {item.response_id for item in scenario.session.items}


def test_a_model_that_keeps_what_it_heard_is_told_of_turns_without_words() -> None:
    scenario = chat().given(append(), CommitInput(), AppendText(text="look:"), append(), CommitInput())
    assert history(scenario.session) == (
        HistoryItem(item_id=item_id(1), role="user", text="", spoken=True),
        HistoryItem(item_id=item_id(2), role="user", text="look:", spoken=True),
    )
