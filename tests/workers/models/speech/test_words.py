"""Words over audio: none lost, each where it begins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.speech.words import spread

pytestmark = pytest.mark.unit


def loud(samples: int) -> np.ndarray:
    return np.full(samples, 0.5, np.float32)


def test_words_are_spread_over_the_speech() -> None:
    chunks = spread("one two three four", loud(400), 100)
    assert [text for _, text in chunks] == ["one two ", "three ", "", "four"]
    assert [len(piece) for piece, _ in chunks] == [100] * 4


def test_silence_around_a_sentence_carries_no_words() -> None:
    quiet = np.zeros(200, np.float32)
    chunks = spread("one two", np.concatenate([quiet, loud(200), quiet]), 100)
    assert [text for _, text in chunks] == ["", "", "one ", "two", "", ""]


def test_no_audio_has_no_chunks() -> None:
    assert spread("word", np.zeros(0, np.float32), 100) == []


@given(st.text(alphabet="ab \n.", max_size=40), st.integers(1, 1000), st.integers(1, 300))
def test_nothing_is_lost(text: str, samples: int, chunk: int) -> None:
    audio = np.linspace(-0.5, 0.5, samples, dtype=np.float32)
    chunks = spread(text, audio, chunk)
    assert "".join(words for _, words in chunks) == text
    assert np.array_equal(np.concatenate([piece for piece, _ in chunks]), audio)
