"""Calls by number, outputs in batches, and a successor in the middle of one."""

from __future__ import annotations

import json

import msgspec
import pytest

from workers.models.nemotron.calls import (
    GROUP_FRAMES,
    LONGEST_OUTPUT_CHARS,
    MOST_OPEN,
    Calls,
    Standing,
    told_as,
)
from workers.models.nemotron.tools import RESPONSE_END, ToolCall

pytestmark = pytest.mark.unit

TIME, LIGHT, ODD = ToolCall("time", "{}"), ToolCall("light", '{"on": true}'), ToolCall(None, "{")


def told(calls: Calls) -> list[str]:
    """The ids of all calls that the client was not told of yet."""
    found = []
    while (call := calls.next_untold()) is not None:
        found.append(call[0] or "")
    return found


def outputs(batch: str | None) -> object:
    assert batch is not None
    return json.loads(batch.removeprefix("<TOOL_RESPONSE>").removesuffix(f"</TOOL_RESPONSE>{RESPONSE_END}"))


def successor(calls: Calls, known: dict[str, str]) -> Calls:
    standing = msgspec.msgpack.decode(msgspec.msgpack.encode(calls.standing()), type=Standing)
    return Calls("s", standing, known)


def test_each_call_has_an_id_of_its_own_the_same_in_every_process() -> None:
    first, second = Calls("s"), Calls("s")
    for calls in (first, second):
        calls.made([TIME, LIGHT])
        calls.made([TIME])
    ids = told(first)
    assert len(set(ids)) == 3 and ids == told(second)
    assert Calls("another").id_of(0) != ids[0]


def test_a_call_that_cannot_be_read_has_no_id_and_waits_for_nothing() -> None:
    calls = Calls("s")
    calls.made([ODD])
    assert calls.next_untold() == (None, None, "{")
    assert calls.standing().groups == [] and calls.next_untold() is None


def test_calls_that_were_made_together_are_answered_together_in_their_order() -> None:
    calls = Calls("s")
    calls.made([TIME, LIGHT])
    first, second = told(calls)
    assert calls.answered(second, '"on"')
    assert calls.next_batch() is None and calls.pending == 1
    assert calls.answered(first, '{"h": 9}')
    assert outputs(calls.next_batch()) == [{"h": 9}, "on"]


def test_an_output_does_not_wait_for_ever_for_the_others() -> None:
    calls = Calls("s")
    calls.made([TIME, LIGHT])
    first, second = told(calls)
    calls.answered(first, "9")
    waited = [calls.next_batch() for _ in range(GROUP_FRAMES + 1)]
    assert waited[:-1] == [None] * GROUP_FRAMES and outputs(waited[-1]) == [9]
    calls.answered(second, "1")
    assert calls.next_batch() is None, "one after another"
    assert calls.forced(RESPONSE_END)
    assert outputs(calls.next_batch()) == [1]


def test_an_output_for_nobody_or_the_second_one_comes_to_nothing() -> None:
    calls = Calls("s")
    calls.made([TIME])
    (call_id,) = told(calls)
    assert not calls.answered("call_nobody_made", "1")
    assert calls.answered(call_id, "1") and not calls.answered(call_id, "2")
    assert outputs(calls.next_batch()) == [1]
    assert not calls.answered(call_id, "3")


def test_batches_that_wait_are_counted_and_none_is_lost() -> None:
    calls = Calls("s")
    for _ in range(12):
        calls.made([TIME])
    for number, call_id in enumerate(told(calls)):
        assert calls.answered(call_id, str(number))
        assert calls.pending == number + 1
    said = []
    while (batch := calls.next_batch()) is not None:
        said.append(outputs(batch))
        assert calls.forced(RESPONSE_END)
    assert said == [[number] for number in range(12)]
    assert calls.pending == 0


def test_a_successor_says_the_rest_of_a_batch_and_what_waits_behind_it() -> None:
    calls = Calls("s")
    calls.made([TIME])
    calls.made([LIGHT])
    known = dict(zip(told(calls), ["9", '"on"'], strict=True))
    for call_id, output in known.items():
        calls.answered(call_id, output)
    batch = calls.next_batch()
    calls.forced("<TOOL")
    calls.forced("_RES")
    after = successor(calls, known)
    assert (after.batch(), after.told, after.next_batch()) == (batch, 2, None)
    assert after.forced(RESPONSE_END)
    assert outputs(after.next_batch()) == ["on"]
    assert not after.answered(after.id_of(0), "9"), "it was said"


def test_a_successor_takes_an_output_that_came_while_nobody_was_there() -> None:
    calls = Calls("s")
    calls.made([TIME])
    (call_id,) = told(calls)
    after = successor(calls, {call_id: "9"})
    assert after.pending == 1 and outputs(after.next_batch()) == [9]


def test_a_successor_tells_of_calls_that_were_not_told() -> None:
    calls = Calls("s")
    calls.made([TIME, LIGHT])
    calls.next_untold()
    after = successor(calls, {})
    assert after.next_untold() == (after.id_of(1), "light", '{"on": true}')
    after.made([TIME])
    assert after.next_untold() == (after.id_of(2), "time", "{}")


def test_calls_that_nobody_answers_are_forgotten_in_the_end() -> None:
    calls = Calls("s")
    for _ in range(MOST_OPEN + 5):
        calls.made([TIME])
    assert sum(len(group.numbers) for group in calls.standing().groups) == MOST_OPEN
    assert not calls.answered(calls.id_of(0), "1")
    assert calls.answered(calls.id_of(5), "1")


def test_an_output_that_is_too_long_is_told_as_such() -> None:
    assert told_as("x" * LONGEST_OUTPUT_CHARS) == "x" * LONGEST_OUTPUT_CHARS
    assert "8001 characters" in json.loads(told_as("x" * (LONGEST_OUTPUT_CHARS + 1)))["error"]


def test_a_batch_that_cannot_be_said_makes_room_for_the_next() -> None:
    calls = Calls("s")
    calls.made([TIME])
    calls.made([LIGHT])
    for number, call_id in enumerate(told(calls)):
        calls.answered(call_id, str(number))
    calls.next_batch()
    calls.give_up()
    assert calls.batch() == "" and outputs(calls.next_batch()) == [1]
