"""The double: the same answer for the same sound, and strict about the order of calls."""

from __future__ import annotations

import numpy as np
import pytest

from workers.neural_minicpmo.fake import FakeDuplex

pytestmark = pytest.mark.unit

SPEECH, SILENCE = np.full(16_000, 0.1, np.float32), np.zeros(16_000, np.float32)


def answers(duplex: FakeDuplex, *units: np.ndarray) -> list[str]:
    said = []
    duplex.prepare()
    for unit in units:
        duplex.streaming_prefill(audio_waveform=unit)
        said.append(duplex.streaming_generate()["text"])
        duplex.finalize_unit()
    return said


def test_the_same_sound_gives_the_same_words_and_another_seed_others() -> None:
    heard = (SPEECH, SILENCE, SILENCE, SILENCE)
    assert answers(FakeDuplex(), *heard) == answers(FakeDuplex(), *heard)
    assert answers(FakeDuplex(), *heard) != answers(FakeDuplex(seed=1), *heard)


def test_it_says_nothing_to_silence() -> None:
    assert answers(FakeDuplex(), SILENCE, SILENCE) == ["", ""]


def test_units_are_taken_and_answered_in_turn() -> None:
    duplex = FakeDuplex()
    duplex.prepare()
    with pytest.raises(RuntimeError):
        duplex.streaming_generate()
    duplex.streaming_prefill(audio_waveform=SILENCE)
    with pytest.raises(RuntimeError):
        duplex.streaming_prefill(audio_waveform=SILENCE)
    duplex.streaming_generate()
    with pytest.raises(RuntimeError):
        duplex.streaming_prefill(audio_waveform=SILENCE)
    duplex.finalize_unit()
    duplex.streaming_prefill(audio_waveform=SILENCE)


def test_a_session_that_is_over_takes_nothing_in() -> None:
    duplex = FakeDuplex()
    duplex.prepare()
    duplex.set_session_stop()
    assert duplex.streaming_prefill(audio_waveform=SILENCE) == {"success": False}
