"""The yardstick itself: what counts as an error, and what the recordings look like."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.human_speech import is_installed, plain_words, sentences, word_error_rate, word_errors

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("reference", "transcript"),
    [
        ("Press * or #, please.", "press star or pound please"),
        ("You have twenty-one calls.", "You have 21 calls."),
        ("I'm sorry, that's wrong.", "I am sorry that is wrong"),
        ("The mailbox login", "The mail box log in"),
    ],
)
def test_a_way_of_writing_is_no_error(reference: str, transcript: str) -> None:
    assert word_error_rate([(reference, transcript)]) == 0.0


def test_errors_are_counted_per_reference_word() -> None:
    assert word_errors("a b c d".split(), "a x c".split()) == 2  # noqa: SIM905
    assert word_error_rate([("one two three four", "one two four"), ("five", "five six")]) == pytest.approx(2 / 5)
    assert word_error_rate([("hello there", "")]) == 1.0
    assert word_error_rate([]) == 0.0


def test_numbers_are_words_too() -> None:
    assert plain_words("It's 1,250!") == ["it", "is", "1250"]


@pytest.mark.skipif(not is_installed(), reason="the recordings are not installed")
def test_the_recordings_are_sentences_of_a_voice() -> None:
    found = sentences(20)
    assert len(found) == 20
    for sentence in found:
        assert sentence.pcm.dtype == np.int16
        assert 0.5 < len(sentence.pcm) / 16_000 < 20
        assert np.abs(sentence.pcm).max() > 3000
        assert 5 <= len(plain_words(sentence.text)) <= 22
