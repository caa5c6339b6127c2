"""Lenient reading: every spelling found, every wrong type as if it were not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from duplex_es.protocol import loose_fields as loose

pytestmark = pytest.mark.unit


def test_a_path_leads_through_objects_only() -> None:
    raw: dict[str, object] = {"audio": {"output": {"voice": "a"}, "input": None}}
    assert loose.at_path(raw, "audio.output.voice") == "a"
    assert loose.at_path(raw, "audio.input") is None
    assert loose.at_path(raw, "audio.input.format") is UNSET
    assert loose.at_path(raw, "audio.output.voice.id") is UNSET
    assert loose.at_path(raw, "voice") is UNSET


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"a": 1, "b": 2}, 1),
        ({"a": None, "b": 2}, 2),
        ({"b": 2}, 2),
        ({"a": None}, None),
        ({"a": 0, "b": 2}, 0),
        ({"a": "", "b": 2}, ""),
        ({}, UNSET),
    ],
)
def test_the_first_spelling_that_says_something_counts(raw: dict[str, object], said: object) -> None:
    assert loose.first_said(raw, "a", "b") is said


READERS: list[tuple[Callable[..., Any], list[object]]] = [
    (loose.text, ["x", ""]),
    (loose.number, [0.5, 3, -1]),
    (loose.mapping, [{}, {"a": 1}]),
    (loose.text_or_mapping, ["auto", {"type": "function"}]),
    (loose.items, [[], [1, "x"]]),
    (loose.mappings, [[], [{"name": "x"}]]),
]
VALUES: list[object] = ["x", "", 0.5, 3, -1, True, {}, {"a": 1}, [], [1, "x"], [{"name": "x"}], float("inf")]


@pytest.mark.parametrize(("reader", "accepted"), READERS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_reader_takes_its_type_and_null_and_nothing_else(reader: Callable[..., Any], accepted: list[object]) -> None:
    for value in accepted:
        assert reader({"f": value}, "f") == value
    assert reader({"f": None}, "f") is None
    assert reader({}, "f") is UNSET
    kinds = {type(value) for value in accepted} | ({int} if float in map(type, accepted) else set())
    for value in VALUES:
        if type(value) not in kinds or value == float("inf"):
            assert reader({"f": value}, "f") is UNSET


def test_entries_of_a_list_of_objects_that_are_none_are_left_out() -> None:
    assert loose.mappings({"tools": [{"name": "a"}, 5, None]}, "tools") == [{"name": "a"}]


@pytest.mark.parametrize(
    ("value", "read"),
    [(["audio"], ["audio"]), (["any", "name"], ["any", "name"]), ([], UNSET), (["a", 1], UNSET), ("audio", UNSET)],
)
def test_a_list_of_names_is_read_whole_or_not_at_all(value: object, read: object) -> None:
    assert loose.names({"modalities": value}, "modalities") == read


@pytest.mark.parametrize(
    ("value", "limit"),
    [(256, 256), ("inf", None), ("unlimited", None), (0, None), (-5, None), (True, None), (2.5, None), (None, None)],
)
def test_a_token_limit_is_a_positive_integer_or_none(value: object, limit: int | None) -> None:
    assert loose.token_limit({"max_tokens": value}, "max_tokens") is limit


def test_a_token_limit_not_said_is_left_alone() -> None:
    assert loose.token_limit({}, "max_tokens") is UNSET


@pytest.mark.parametrize(
    ("value", "read"), [(" Ack_Only ", "ack_only"), ("other", "all"), ("", "all"), (5, UNSET), (None, UNSET)]
)
def test_an_unknown_choice_falls_back_and_a_wrong_type_is_not_read(value: object, read: object) -> None:
    assert loose.choice({"policy": value}, "policy", ("ack_only", "all"), "all") == read


@pytest.mark.parametrize(
    ("value", "is_one"), [(1, True), (0.5, True), (True, False), ("1", False), (float("inf"), False), (None, False)]
)
def test_a_number_is_finite_and_no_truth_value(value: object, is_one: bool) -> None:
    assert loose.is_number(value) is is_one


@given(st.dictionaries(st.sampled_from("ab"), st.none() | st.integers() | st.text() | st.lists(st.integers())))
def test_reading_never_raises(raw: dict[str, object]) -> None:
    for reader, _ in READERS:
        reader(raw, "a.b", "b")
    loose.names(raw, "a")
    loose.token_limit(raw, "a")
    loose.choice(raw, "a", ("x",), "x")
