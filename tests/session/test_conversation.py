"""Items the client adds, reads and deletes, and the answers to function calls."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.model import ModelCalledFunction, ModelHeardTurn, ToolOutput
from duplex_es.protocol import (
    Command,
    CommitInput,
    ContentPart,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Item,
    RetrieveItem,
    SocketAttached,
    TruncateItem,
    frames,
    wire_name,
)
from duplex_es.session.effects import AskModel
from duplex_es.session.events import ItemCreated, ItemDeleted, ItemRetrieved
from tests.session.cast import answer, answer_id, append, eager, item_id, names, patient, said, spoke, typed

pytestmark = pytest.mark.unit

CALL = ModelCalledFunction(epoch=0, turn=0, call_id="call_7d1f", name="get_weather", arguments="{}")


def create(**item: Any) -> CreateItem:
    return CreateItem(item=Item(**item), event_id="evt_item")


def output(call_id: Any = "call_7d1f", said: Any = '{"temperature_c": 24}') -> CreateItem:
    return create(type="function_call_output", call_id=call_id, output=said)


# -- messages ------------------------------------------------------------------------------------------------------


def test_a_written_message_is_added_and_done_at_once_and_starts_no_answer() -> None:
    scenario = patient().when(typed("Summarise what I said.")).then(ItemCreated).asks_for()
    assert names(scenario) == ["conversation.item.added", "conversation.item.created", "conversation.item.done"]
    for frame in scenario.frames:
        assert frame.previous_item_id is None  # type: ignore[union-attr]
        item = frame.item  # type: ignore[union-attr]
        assert (item.id, item.object, item.type, item.role, item.status) == (
            item_id(),
            "realtime.item",
            "message",
            "user",
            "completed",
        )
        assert item.content == [ContentPart(type="input_text", text="Summarise what I said.")]


def test_items_follow_each_other_unless_the_client_says_where() -> None:
    scenario = patient().given(typed("one"), typed("two"))
    places = [item.previous_item_id for item in scenario.session.items]
    assert places == [None, item_id(1)]
    for after, place in (("root", None), (item_id(1), item_id(1)), (None, item_id(2))):
        frame = scenario.when(typed("three", previous_item_id=after)).frames[0]
        assert frame.previous_item_id == place  # type: ignore[union-attr]


def test_an_item_may_follow_the_one_that_is_being_spoken_into() -> None:
    patient().given(append()).when(typed("hm", previous_item_id=item_id())).then(ItemCreated)


def test_a_place_that_does_not_exist_is_refused_with_the_clients_event_id() -> None:
    scenario = patient().when(typed("one", previous_item_id="nowhere"))
    scenario.refuses("item_not_found", param="previous_item_id")
    assert scenario.decision.facts[0].event_id == "evt_item"  # type: ignore[attr-defined]


def test_a_client_may_choose_the_id_and_use_it_again() -> None:
    scenario = patient().given(typed("one", id="mine"), typed("two"), typed("three", id="mine"))
    assert [(item.id, item.text) for item in scenario.session.items] == [("mine", "three"), (item_id(2), "two")]


def test_the_id_of_the_answer_being_given_is_taken() -> None:
    patient().given(spoke(), said("One.")).when(typed("x", id=answer_id())).refuses("bad_event", param="item.id")


def test_keys_that_mean_nothing_here_are_accepted() -> None:
    patient().when(
        create(
            id="x",
            object="realtime.item",
            status="in_progress",
            role="user",
            content=[ContentPart(type="input_text", text="hi", audio_duration_ms=5)],
        )
    ).then(ItemCreated)


def test_the_words_of_all_parts_are_one_text() -> None:
    parts = [ContentPart(type="input_text", text="one"), ContentPart(transcript="two"), ContentPart(text=" ")]
    scenario = patient().given(create(content=parts))
    assert scenario.session.items[0].text == "one two"


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        ({}, "bad_event", "item.content"),
        ({"content": []}, "bad_event", "item.content"),
        ({"content": [ContentPart(type="input_text", text="  ")]}, "bad_event", "item.content"),
        ({"type": "banana"}, "bad_event", "item.type"),
        ({"type": "function_call", "name": "f"}, "bad_event", "item.call_id"),
        ({"type": "function_call", "call_id": "c"}, "bad_event", "item.call_id"),
    ],
)
def test_an_item_that_cannot_be_names_its_field(item: dict[str, Any], code: str, param: str) -> None:
    scenario = patient().when(create(**item)).refuses(code, param=param)
    assert scenario.session == patient().session


def test_a_conversation_can_be_told_again_with_its_calls() -> None:
    scenario = patient().when(create(type="function_call", call_id="c", name="f", arguments="{}")).then(ItemCreated)
    assert scenario.frames[0].item.arguments == "{}"  # type: ignore[union-attr]
    scenario.when(output("c")).then(ItemCreated)


# -- outputs of functions ------------------------------------------------------------------------------------------


def test_an_output_is_stored_and_handed_to_the_model() -> None:
    scenario = patient().given(CALL).when(output()).then(ItemCreated)
    scenario.asks_for(AskModel(ToolOutput(epoch=0, call_id="call_7d1f", output='{"temperature_c": 24}')))
    assert scenario.frames[0].item.output == '{"temperature_c": 24}'  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("command", "param"),
    [
        (output("call_other"), "item.call_id"),
        (create(type="function_call_output", output="x"), "item.call_id"),
        (create(type="function_call_output", call_id="call_7d1f"), "item.output"),
        (output(said=None), "item.output"),
    ],
)
def test_an_output_without_its_call_or_its_text_is_refused(command: CreateItem, param: str) -> None:
    patient().given(CALL).when(command).refuses("invalid_function_call_output", param=param).asks_for()


def test_a_call_is_answered_once() -> None:
    scenario = patient().given(CALL, output()).when(output()).refuses("invalid_function_call_output")
    assert scenario.session.state == "open"


def test_a_conversation_that_is_told_again_wakes_no_model() -> None:
    scenario = patient().given(create(type="function_call", call_id="c", name="f", arguments="{}"))
    scenario.when(output("c")).then(ItemCreated).asks_for()


def test_a_created_item_says_what_it_came_of() -> None:
    added = patient().when(typed("hi")).frames[0]
    assert isinstance(added, frames.ConversationItemAdded)
    assert added.event == {
        "type": "conversation.item.create",
        "previous_item_id": None,
        "item": {"id": item_id(), "type": "message"},
    }


def test_an_id_that_is_taken_is_refused_to_clients_of_plain_realtime_and_taken_over_by_others() -> None:
    for dialect in ("ga", "beta"):
        scenario = patient().given(SocketAttached(generation=1, gateway="g", dialect=dialect), typed("one", id="mine"))
        scenario.when(typed("two", id="mine")).refuses("item_exists", param="item.id")
    scenario = patient().given(typed("one", id="mine"), typed("two", id="mine"))
    assert [item.text for item in scenario.session.items] == ["two"]


# -- reading and deleting ------------------------------------------------------------------------------------------


def test_an_item_is_shown_as_it_stands() -> None:
    scenario = patient().given(*answer("It is sunny, ", "24 degrees.")).when(RetrieveItem(item_id=answer_id()))
    scenario.then(ItemRetrieved).asks_for()
    (frame,) = scenario.frames
    assert isinstance(frame, frames.ConversationItemRetrieved)
    (part,) = frame.item.content  # type: ignore[misc]
    assert (part.type, part.transcript, part.audio_duration_ms) == (
        "output_audio",
        "It is sunny, 24 degrees.",
        2_000,
    )
    assert [(mark.text_chars, mark.audio_end_ms) for mark in part.audio_text_marks] == [(13, 1_000), (24, 2_000)]  # type: ignore[union-attr]


def test_a_deleted_item_is_gone() -> None:
    scenario = patient().given(typed("one")).when(DeleteItem(item_id=item_id())).then(ItemDeleted(item_id=item_id()))
    (frame,) = scenario.frames
    assert isinstance(frame, frames.ConversationItemDeleted)
    assert (frame.item_id, frame.event["deleted"]) == (item_id(), True)  # type: ignore[index]
    scenario.when(RetrieveItem(item_id=item_id())).refuses("item_not_found", param="item_id")
    scenario.when(DeleteItem(item_id=item_id())).refuses("item_not_found", param="item_id")


@pytest.mark.parametrize("verb", [RetrieveItem, DeleteItem])
def test_an_item_has_to_be_named(verb: type[RetrieveItem]) -> None:
    patient().when(verb(event_id="e")).refuses("missing_item_id", param="item_id")
    patient().when(verb(item_id="")).refuses("missing_item_id", param="item_id")
    patient().when(verb(item_id="nothing")).refuses("item_not_found", param="item_id")


def test_the_answer_being_given_can_be_cancelled_but_not_deleted() -> None:
    scenario = patient().given(spoke(), said("One."))
    scenario.when(DeleteItem(item_id=answer_id())).refuses("bad_event", param="item_id")
    scenario.when(RetrieveItem(item_id=answer_id())).then(ItemRetrieved)


def test_the_transcript_of_a_deleted_item_is_dropped() -> None:
    scenario = eager().given(append(), CommitInput(), DeleteItem(item_id=item_id()))
    scenario.when(ModelHeardTurn(epoch=0, transcript="hello", item_id=item_id())).then()


def test_a_request_no_longer_waits_for_a_turn_that_was_deleted() -> None:
    scenario = eager(extra_body={"auto_response": False}).given(typed("hi"), append(), CommitInput(), CreateResponse())
    scenario.when(DeleteItem(item_id=item_id(2))).asks_for(AskModel)


@pytest.mark.parametrize(
    "command",
    [RetrieveItem(item_id="nope"), DeleteItem(item_id="nope"), TruncateItem(item_id="nope", audio_end_ms=0)],
    ids=wire_name,
)
def test_an_unknown_item_is_refused_under_the_commands_name(command: Command) -> None:
    scenario = patient().when(command).refuses("item_not_found", param="item_id")
    assert scenario.frames[0].error.message.startswith(f"{wire_name(command)}: ")
