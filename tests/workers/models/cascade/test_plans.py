"""An answer as it is kept: small, plain, and the same when it is read again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from duplex_es.model import Recipe
from workers.models.cascade.dialogue.scene import Call, Manner, Say
from workers.models.cascade.plans import Called, Plan, step_of

pytestmark = pytest.mark.unit

PLAN = Plan((Say("Let me check. "), Called("call_1", "look", '{"a":1}'), Say("Ümläut.")), Manner(0.85, 1.5), True, "c")


@pytest.mark.parametrize("plan", [PLAN, Plan((), Manner(), False)])
def test_a_plan_is_read_as_it_was_kept(plan: Plan) -> None:
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(plan.recipe()), type=Recipe)
    assert kept == plan.recipe()
    assert Plan.of(kept) == plan


@pytest.mark.parametrize(
    "changed", [{"steps": None}, {"steps": [[1]]}, {"steps": ["a"]}, {"speed": "fast"}, {"aloud": 1}, {"told": 5}]
)
def test_anything_else_is_no_plan(changed: dict[str, Any]) -> None:
    assert Plan.of(Recipe(notes={**PLAN.recipe().notes, **changed})) is None
    assert Plan.of(Recipe()) is None


def test_every_call_gets_an_id_of_its_own_that_stock_clients_keep() -> None:
    first, second = step_of(Call("look", "{}")), step_of(Call("look", "{}"))
    assert isinstance(first, Called)
    assert isinstance(second, Called)
    assert first.call_id != second.call_id
    assert len(first.call_id) <= 32
    assert step_of(Say("One.")) == Say("One.")
