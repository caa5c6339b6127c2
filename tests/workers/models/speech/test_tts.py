"""The real voice: repeatable, at the pace and loudness asked for."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from workers.models.speech.missing import CascadePartMissing
from workers.models.speech.tts import RATE_HZ, Voice

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def voice() -> Voice:
    voice = Voice()
    voice.warm_up()
    return voice


def test_a_sentence_takes_as_long_as_a_person_would(voice: Voice) -> None:
    samples = voice.say("What is seven plus five?")
    assert 1.0 < len(samples) / RATE_HZ < 3.0
    assert samples.dtype == np.float32
    assert 0.1 < np.abs(samples).max() <= 1.0


def test_the_same_text_sounds_the_same_on_every_thread(voice: Voice) -> None:
    here = voice.say("Hello there.")
    voice.say("Something else.")
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(voice.say, "Hello there.").result()
    assert np.array_equal(here, there)
    assert np.array_equal(here, voice.say("Hello there."))


def test_pace_and_volume_are_what_was_asked_for(voice: Voice) -> None:
    usual = voice.say("Count to three.")
    slow, quiet = voice.say("Count to three.", speed=0.7), voice.say("Count to three.", gain=0.5)
    assert len(slow) / len(usual) == pytest.approx(1 / 0.7, rel=0.15)
    assert np.allclose(quiet, usual * 0.5)
    assert np.abs(voice.say("Count to three.", gain=50.0)).max() <= 1.0


def test_what_cannot_be_pronounced_is_silent(voice: Voice) -> None:
    assert len(voice.say("")) == 0


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hibari", None)
    with pytest.raises(CascadePartMissing, match=r"hibari-tts.*duplex-es\[cascade\]"):
        Voice()
