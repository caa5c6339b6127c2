"""Text in sentences, without losing a character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.speech.sentences import LONGEST, split_sentences, take_sentences

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("One.", ["One."]),
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ('He said "go." Then he went.', ['He said "go." ', "Then he went."]),
        ("Dr. Smith met J. K. Rowling.", ["Dr. Smith met J. K. Rowling."]),
        ("It was I. You were there.", ["It was I. ", "You were there."]),
        ("It is 3.5 meters.", ["It is 3.5 meters."]),
        ("First line\nsecond line", ["First line\n", "second line"]),
    ],
)
def test_a_text_is_cut_at_its_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_a_sentence_is_not_complete_before_something_follows_it() -> None:
    assert take_sentences("It is 3.") == ([], "It is 3.")
    assert take_sentences("It is 3. ") == (["It is 3. "], "")


def test_a_sentence_without_end_is_cut_at_a_comma_or_a_word() -> None:
    long = "so many words, " * 30
    assert all(len(piece) <= LONGEST for piece in split_sentences(long))
    assert all(piece.endswith(", ") for piece in split_sentences(long)[:-1])
    assert max(len(piece) for piece in split_sentences("word " * 100)) <= LONGEST


@given(st.text(alphabet="aB .,!?\n\"'x", max_size=400))
def test_nothing_is_lost(text: str) -> None:
    assert "".join(split_sentences(text)) == text
