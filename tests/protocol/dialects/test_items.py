"""Items and parts: only what stock clients know, and never a null."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.protocol import ContentPart, Item, Plain
from duplex_es.protocol.dialects import MAX_ECHO_CHARS
from duplex_es.protocol.dialects.items import begun_item, place_of, stock_item, stock_part
from tests.protocol.dialects import samples

pytestmark = pytest.mark.unit


def nulls(value: object) -> bool:
    """Whether there is a null anywhere inside."""
    if isinstance(value, dict):
        return any(nulls(inner) for inner in value.values())
    return any(map(nulls, value)) if isinstance(value, list) else value is None


@pytest.mark.parametrize("item", [samples.question(), samples.answer(), samples.call(), Item(), Item(id=None)])
def test_an_item_has_its_type_its_status_and_no_null(item: Item) -> None:
    shown = stock_item(item)
    assert shown["object"] == "realtime.item"
    assert shown["type"] in ("message", "function_call")
    assert shown["status"] == "completed"
    assert not nulls(shown)


@pytest.mark.parametrize(
    ("status", "shown"),
    [("completed", "completed"), ("in_progress", "in_progress"), ("cancelled", "incomplete"), ("failed", "incomplete")],
)
def test_an_item_that_did_not_complete_is_incomplete(status: str, shown: str) -> None:
    assert stock_item(samples.answer(status))["status"] == shown


@pytest.mark.parametrize(
    ("role", "beta", "kinds"),
    [
        ("user", False, ["input_audio", "input_text"]),
        ("system", False, ["input_audio", "input_text"]),
        ("assistant", False, ["output_audio", "output_text"]),
        ("user", True, ["input_audio", "input_text"]),
        ("assistant", True, ["audio", "text"]),
    ],
)
def test_a_part_is_named_by_who_said_it(role: str, beta: bool, kinds: list[str]) -> None:
    parts = [ContentPart(type="audio", transcript="a"), ContentPart(type="text", text="b")]
    shown: Any = stock_item(Item(id="i", type="message", role=role, content=parts), beta=beta)["content"]
    assert [part["type"] for part in shown] == kinds


def test_sound_and_what_only_seed_clients_know_is_left_out() -> None:
    parts = [ContentPart(type="input_audio", audio=b"\0\0", transcript=None, sample_rate_hz=16000, is_speech=False)]
    shown: Any = stock_item(Item(id="i", type="message", role="user", content=parts))
    assert shown["content"] == [{"type": "input_audio"}]
    answered: Any = stock_item(samples.answer())
    assert answered["content"] == [{"type": "output_audio", "transcript": samples.SAID}]


@pytest.mark.parametrize(
    ("item", "kind", "role"),
    [
        (Item(id="item_resp_01"), "message", "assistant"),
        (Item(id="x"), "message", "user"),
        (Item(id="x", role="developer"), "message", "system"),
        (Item(id="x", role="robot"), "message", "user"),
        (Item(id="x", call_id="c", name="f"), "function_call", None),
        (Item(id="x", call_id="c", output="{}"), "function_call_output", None),
    ],
)
def test_what_an_item_leaves_out_is_told_from_the_rest(item: Item, kind: str, role: str | None) -> None:
    shown = stock_item(item)
    assert (shown["type"], shown.get("role")) == (kind, role)


def test_a_call_of_the_model_begins_without_its_arguments() -> None:
    whole, begun = stock_item(samples.call()), begun_item(samples.call())
    assert (whole["status"], whole["arguments"]) == ("completed", '{"city":"Hong Kong"}')
    assert begun == {**whole, "status": "in_progress", "arguments": ""}


def test_a_call_the_client_put_there_is_whole_from_the_start() -> None:
    call = Item(id="theirs", type="function_call", name="f", call_id="c", arguments="{}", status="completed")
    assert begun_item(call) == stock_item(call)
    assert begun_item(samples.question()) == stock_item(samples.question())


def test_the_words_of_the_client_are_echoed_up_to_a_length() -> None:
    long = "x" * (MAX_ECHO_CHARS + 1)
    typed: Any = stock_item(Item(id="i", role="user", content=[ContentPart(type="input_text", text=long)]))
    assert len(typed["content"][0]["text"]) == MAX_ECHO_CHARS
    output = stock_item(Item(id="i", type="function_call_output", call_id="c", output=long))
    assert len(str(output["output"])) == MAX_ECHO_CHARS
    answered: Any = stock_item(Item(id="i", role="assistant", content=[ContentPart(type="output_text", text=long)]))
    assert answered["content"][0]["text"] == long


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (ContentPart(type="audio", transcript=""), {"type": "audio", "transcript": ""}),
        (ContentPart(type="output_audio", transcript="a"), {"type": "audio", "transcript": "a"}),
        (ContentPart(type="text", text="b"), {"type": "text", "text": "b"}),
        (ContentPart(type="output_text", text=None), {"type": "text", "text": ""}),
        (ContentPart(), {"type": "text", "text": ""}),
    ],
)
def test_a_part_of_an_answer_is_audio_or_text(part: ContentPart, shown: Plain) -> None:
    assert stock_part(part) == shown


def test_the_first_place_is_after_nobody() -> None:
    assert place_of("root") is None
    assert place_of(None) is None
    assert place_of("item_1") == "item_1"
