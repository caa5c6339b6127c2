"""Function calls: whatever comes for whichever of them is answered by a code, and never ends anything."""

from __future__ import annotations

import pytest

from duplex_es.model import ModelCalledFunction, ToolOutput
from duplex_es.protocol import CancelInput, CreateItem, CreateResponse, DeleteItem, Item, SocketAttached
from duplex_es.session.calls import KEPT_CALLS, known_call
from duplex_es.session.effects import AskModel
from duplex_es.session.events import (
    FunctionCalled,
    FunctionCallMalformed,
    ItemCreated,
    ResponseFinished,
    ResponseStarted,
)
from duplex_es.testing.scenario import Scenario
from tests.session.cast import answer, answer_id, patient, said, spoke

pytestmark = pytest.mark.unit


def call(call_id: str = "c1", *, epoch: int = 0) -> ModelCalledFunction:
    return ModelCalledFunction(epoch=epoch, turn=0, call_id=call_id, name="weather", arguments="{}")


def output(call_id: str = "c1", said: str = "sunny") -> CreateItem:
    return CreateItem(item=Item(type="function_call_output", call_id=call_id, output=said), event_id="evt_out")


def state_of(scenario: Scenario, call_id: str = "c1") -> str:
    known = known_call(scenario.session, call_id)
    return known.state if known is not None else ""


def test_an_open_call_is_completed_by_its_output() -> None:
    scenario = patient().given(call())
    assert state_of(scenario) == "open"
    scenario = scenario.when(output()).then(ItemCreated)
    scenario.asks_for(AskModel(ToolOutput(epoch=0, call_id="c1", output="sunny")))
    assert state_of(scenario) == "completed"
    scenario.when(output()).refuses("invalid_function_call_output", param="item.output")


def test_an_unknown_call_has_no_output() -> None:
    patient().when(output()).refuses("invalid_function_call_output", param="item.call_id")


def test_an_interruption_makes_open_calls_stale_and_their_outputs_are_only_remembered() -> None:
    for scenario in (
        patient().given(spoke(), call(), CancelInput()),
        patient().given(spoke(), said("One."), call(), CancelInput()),
    ):
        assert state_of(scenario) == "stale"
        scenario = scenario.when(output()).then(ItemCreated)
        scenario.asks_for(AskModel(ToolOutput(epoch=1, call_id="c1", output="sunny", respond=False)))
        assert state_of(scenario) == "completed"


def test_a_client_may_want_stale_outputs_refused() -> None:
    scenario = patient(extra_body={"stale_function_outputs": "refuse"}).given(call(), CancelInput())
    scenario.when(output()).refuses("stale_function_call_output", param="item.call_id").asks_for()
    scenario.given(call("c2", epoch=1)).when(output("c2")).then(ItemCreated)


def test_the_output_of_a_call_that_was_deleted_is_refused_cleanly() -> None:
    scenario = patient().given(call(), DeleteItem(item_id=answer_id()))
    assert state_of(scenario) == "cancelled"
    scenario.when(output()).refuses("invalid_function_call_output", param="item.call_id")


def test_an_answered_call_stays_so_when_its_item_goes() -> None:
    assert state_of(patient().given(call(), output(), DeleteItem(item_id=answer_id()))) == "completed"


def test_calls_may_be_open_side_by_side_and_answered_in_any_order() -> None:
    scenario = patient().given(spoke(), call("a"), call("b"), call("c"))
    for call_id in ("c", "a", "b"):
        scenario = scenario.when(output(call_id)).then(ItemCreated)
    assert [one.state for one in scenario.session.calls] == ["completed"] * 3


def test_a_call_whose_id_was_used_is_shown_as_it_came() -> None:
    patient().given(call()).when(call()).then(FunctionCallMalformed)
    patient().given(call(), output()).when(call()).then(FunctionCallMalformed)
    patient().given(call()).when(call("c2")).then(FunctionCalled)


def test_a_client_of_plain_realtime_asks_for_the_answer_itself() -> None:
    stock = SocketAttached(generation=1, gateway="g", dialect="ga")
    patient().given(stock, call()).when(output()).asks_for(
        AskModel(ToolOutput(epoch=0, call_id="c1", output="sunny", respond=False))
    )


def test_a_call_that_is_all_of_the_answer_ends_the_response_that_its_client_would_wait_for() -> None:
    stock = SocketAttached(generation=1, gateway="g", dialect="ga")
    scenario = patient().given(stock, CreateResponse()).when(call()).then(FunctionCalled, ResponseFinished)
    scenario.given(output()).when(CreateResponse()).then(ResponseStarted)
    patient().given(CreateResponse()).when(call()).then(FunctionCalled)
    patient().given(stock, CreateResponse(), spoke()).when(call()).then(FunctionCalled)


def test_a_long_session_takes_every_output_and_remembers_only_so_many_calls() -> None:
    scenario = patient()
    for number in range(KEPT_CALLS + 20):
        scenario = scenario.given(call(f"c{number}")).when(output(f"c{number}")).then(ItemCreated)
    assert len(scenario.session.calls) == KEPT_CALLS
    assert state_of(scenario, "c0") == ""
    assert state_of(scenario.given(*answer("Done.")), f"c{KEPT_CALLS + 19}") == "completed"
