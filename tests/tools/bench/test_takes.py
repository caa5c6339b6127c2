"""What one answer looked like from outside, in numbers worked out by hand."""

from __future__ import annotations

import pytest

from duplex_es.tools.bench.takes import AnswerTake, Chunk

pytestmark = pytest.mark.unit


def answer(*chunks: tuple[float, float]) -> AnswerTake:
    take = AnswerTake("resp_1", asked_at_s=10.0, created_at_s=10.1)
    take.chunks += [Chunk(at_s, duration_ms) for at_s, duration_ms in chunks]
    return take


def test_first_words_and_first_sound_count_from_the_end_of_the_question() -> None:
    take = answer((10.25, 100))
    take.first_text_at_s = 10.2
    assert take.ttfp_ms == pytest.approx(250)
    assert take.ttft_ms == pytest.approx(200)
    assert take.created_to_first_audio_ms == pytest.approx(150)


def test_an_answer_without_sound_has_no_times_of_sound() -> None:
    take = answer()
    assert (take.ttfp_ms, take.ttft_ms, take.created_to_first_audio_ms, take.audio_generation_ms) == (None,) * 4
    assert (take.audio_duration_ms, take.intervals_ms(), take.jitter_ms(), take.gaps_ms()) == (0, [], None, [])


def test_durations_add_up_and_generation_ends_with_the_last_piece() -> None:
    take = answer((10.0, 100), (10.1, 100), (10.35, 50))
    assert take.audio_duration_ms == pytest.approx(250)
    assert take.audio_generation_ms == pytest.approx(350)
    assert take.intervals_ms() == pytest.approx([100, 250])


def test_a_steady_cadence_has_no_jitter_and_an_uneven_one_its_mean_deviation() -> None:
    assert answer((1.0, 80), (1.08, 80), (1.16, 80)).jitter_ms() == pytest.approx(0, abs=1e-6)
    assert answer((1.0, 80), (1.04, 80), (1.16, 80)).jitter_ms() == pytest.approx(40)


def test_a_piece_that_comes_after_its_turn_is_a_gap_and_moves_what_follows() -> None:
    take = answer((1.0, 100), (1.15, 100), (1.25, 100), (1.3, 100))
    assert take.gaps_ms() == pytest.approx([50])


def test_what_ran_ahead_pays_for_what_comes_late() -> None:
    assert answer((1.0, 500), (1.0, 500), (1.9, 100)).gaps_ms() == []
