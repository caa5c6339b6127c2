"""Ids to text as they come: torn letters wait, special tokens are shown where they mean something."""

from __future__ import annotations

import pytest

from workers.neural_nemotron.vocabulary import ByteVocabulary
from workers.neural_nemotron.words import Speller

pytestmark = pytest.mark.neural

WORDS = ByteVocabulary()


def spelled(text: str, *, shows_special: bool = False) -> list[str]:
    speller = Speller(WORDS, shows_special=shows_special)
    return [speller.text(number) for number in WORDS.encode(text)]


def test_a_torn_letter_comes_whole_with_its_last_piece() -> None:
    assert spelled("aé€😀b") == ["a", "", "é", "", "", "€", "", "", "", "😀", "b"]


def test_a_pause_does_not_tear_a_letter() -> None:
    speller = Speller(WORDS, shows_special=False)
    first, second = WORDS.encode("é")
    assert [speller.text(number) for number in (first, WORDS.pad, second)] == ["", "", "é"]


def test_what_never_becomes_whole_is_shown_as_it_is() -> None:
    speller = Speller(WORDS, shows_special=False)
    broken = ByteVocabulary.FIRST_BYTE + 0xE2
    assert [speller.text(broken) for _ in range(4)] == ["", "", "", "\ufffd" * 4]
    assert speller.text(WORDS.encode("a")[0]) == "a"


def test_special_tokens_are_shown_in_the_function_channel_only() -> None:
    text = "<SPECIAL_20>x<SPECIAL_12><s></s><SPECIAL_21>"
    assert "".join(spelled(text, shows_special=True)) == "<SPECIAL_20>x<SPECIAL_21>"
    assert "".join(spelled(text)) == "x"


def test_a_special_token_ends_a_torn_letter() -> None:
    speller = Speller(WORDS, shows_special=True)
    assert speller.text(WORDS.encode("é")[0]) == ""
    assert speller.text(21) == "\ufffd<SPECIAL_21>"
