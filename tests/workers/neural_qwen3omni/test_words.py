"""Ids as text that is shown, as words that are spoken, and as tools that are called."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from workers.neural_qwen3omni.shapes import IM_END, TOOL_CLOSE, TOOL_OPEN
from workers.neural_qwen3omni.vocabulary import ToyVocabulary
from workers.neural_qwen3omni.words import TORN, call_of, calls, spoken, written

pytestmark = pytest.mark.unit

WORDS = ToyVocabulary()


class Bytes(ToyVocabulary):
    """A byte for each id, as where a character takes several ids."""

    stops = frozenset({256})
    tool_open, tool_close = 257, 258

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")


def ids(text: str) -> list[int]:
    return WORDS.encode(text)


def test_each_id_shows_the_text_it_completes() -> None:
    assert written([*ids("hi"), IM_END], WORDS).texts == ("h", "i", "")


def test_a_character_that_is_torn_over_ids_is_shown_with_its_last_one() -> None:
    found = written([*"é€".encode(), 256], Bytes())
    assert found.texts == ("", "é", "", "", "€", "")
    assert found.text() == "é€" and found.text(2) == "é"


def test_what_is_torn_for_good_is_shown_in_the_end() -> None:
    assert TORN in written([0xF0, 0x41, 0xF0, 0xF0, 0xF0, 0xF0], Bytes()).text()


def test_what_is_shown_does_not_depend_on_how_much_is_read_at_once() -> None:
    text = [*"aé€b".encode()]
    whole = written(text, Bytes())
    assert [written(text[:end], Bytes()).texts for end in range(len(text) + 1)] == [
        whole.texts[:end] for end in range(len(text) + 1)
    ]


def test_a_tool_call_is_not_shown_and_ends_what_is_spoken() -> None:
    call = [*ids("ok"), TOOL_OPEN, *ids('{"name": "f"}'), TOOL_CLOSE, *ids("!"), IM_END]
    assert written(call, WORDS).text() == "ok!"
    assert spoken(call, WORDS) == (ids("ok"), True)
    (found,) = calls(call, WORDS)
    assert (found.name, found.arguments) == ("f", "{}")


def test_the_last_id_is_not_spoken_as_it_may_be_the_end() -> None:
    assert spoken(ids("abc"), WORDS) == (ids("ab"), False)
    assert spoken([], WORDS) == ([], False)


def test_several_calls_keep_their_order_and_one_that_is_cut_is_a_call_all_the_same() -> None:
    two = [TOOL_OPEN, *ids('{"name": "f"}'), TOOL_CLOSE, TOOL_OPEN, *ids('{"name": "g"'), IM_END]
    assert [call.name for call in calls(two, WORDS)] == ["f", None]


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('{"name": "f", "arguments": {"a": 1}}', "f", '{"a": 1}'),
        ('\n{"name": "f", "arguments": "{}"}\n', "f", "{}"),
        ('{"name": 3}', None, '{"name": 3}'),
        ("[]", None, "[]"),
        ("light on", None, "light on"),
    ],
)
def test_calls_are_read_as_the_model_writes_them(text: str, name: str | None, arguments: str) -> None:
    assert (call_of(text).name, call_of(text).arguments) == (name, arguments)
