"""The ears without a network: frames and probabilities in, turns out."""

from __future__ import annotations

import numpy as np
import pytest

from workers.models.cascade.hearing import Hearing, HearingSettings, Turn
from workers.vad.endpoint import EndpointSettings, Mark
from workers.vad.silero import FRAME_MS, FRAME_SAMPLES

pytestmark = pytest.mark.unit

SETTINGS = HearingSettings(EndpointSettings(silence_ms=160, pause_ms=96), prefix_ms=64)


def feed(
    hearing: Hearing, *probabilities: float, speaks: bool = False, first: int = 0
) -> tuple[list[Mark | None], list[float]]:
    """One frame a probability, filled with its own number; returns the marks."""
    marks = []
    for number, probability in enumerate(probabilities, first):
        end_ms = (number + 1) * FRAME_MS
        (frame,) = hearing.take(np.full(FRAME_SAMPLES, float(number), np.float32), end_ms)
        marks.append(hearing.judge(frame, probability, end_ms, assistant_speaks=speaks))
    return marks, [float(n) for n in range(first, first + len(probabilities))]


def numbers(turn: Turn) -> list[int]:
    """Which frames a turn holds."""
    return [int(n) for n in turn.samples[::FRAME_SAMPLES]]


def test_audio_is_cut_into_frames_whatever_size_it_comes_in() -> None:
    hearing = Hearing(SETTINGS)
    audio = np.arange(FRAME_SAMPLES * 3 + 100, dtype=np.float32)
    frames = [frame for at in range(0, len(audio), 300) for frame in hearing.take(audio[at : at + 300], at // 16)]
    assert np.array_equal(np.concatenate(frames), audio[: FRAME_SAMPLES * 3])


def test_a_turn_holds_what_was_said_and_a_little_before() -> None:
    hearing = Hearing(SETTINGS)
    marks, _ = feed(hearing, *[0.0] * 10, *[0.9] * 5, *[0.0] * 5)
    turn = hearing.finish(end_ms=20 * FRAME_MS)
    assert marks[12] is Mark.STARTED
    assert marks[19] is Mark.ENDED
    assert numbers(turn) == list(range(8, 20))
    assert (turn.start_ms, turn.end_ms, turn.announced) == (10 * FRAME_MS, 20 * FRAME_MS, True)
    assert turn.audio_ms == 12 * FRAME_MS
    assert turn.speech_ms == 5 * FRAME_MS


def test_a_turn_nobody_spoke_in_is_empty() -> None:
    hearing = Hearing(SETTINGS)
    feed(hearing, *[0.0] * 20)
    turn = hearing.finish(committed=True)
    assert (len(turn.samples), turn.announced, turn.end_ms) == (0, False, 20 * FRAME_MS)


def test_a_commit_takes_the_part_of_a_frame_that_is_there() -> None:
    hearing = Hearing(SETTINGS)
    feed(hearing, *[0.9] * 4)
    hearing.take(np.full(100, 7.0, np.float32), 4 * FRAME_MS + 6)
    turn = hearing.finish(committed=True)
    assert len(turn.samples) == 4 * FRAME_SAMPLES + 100
    assert turn.end_ms == 4 * FRAME_MS + 6
    assert not hearing.in_speech


def test_where_only_a_commit_ends_turns_silence_does_not() -> None:
    hearing = Hearing(HearingSettings(SETTINGS.endpoint, prefix_ms=64, ends_turns=False))
    marks, _ = feed(hearing, *[0.9] * 3, *[0.0] * 10, *[0.9] * 3)
    assert [mark for mark in marks if mark] == [Mark.STARTED, Mark.PAUSED, Mark.RESUMED]
    assert len(numbers(hearing.finish(committed=True))) == 16


def test_speech_over_the_assistant_is_counted_and_can_be_forgiven() -> None:
    hearing = Hearing(SETTINGS)
    feed(hearing, *[0.9] * 6, speaks=True)
    assert hearing.overlap_ms == 6 * FRAME_MS
    hearing.forgive_overlap()
    feed(hearing, 0.9, *[0.0] * 5, first=6)
    turn = hearing.finish(end_ms=0)
    assert (turn.overlap_ms, turn.is_overlap) == (0, False)


def test_a_turn_is_an_overlap_when_most_of_it_was() -> None:
    assert Turn(overlap_ms=300, speech_ms=500).is_overlap
    assert not Turn(overlap_ms=100, speech_ms=400).is_overlap
    assert not Turn().is_overlap


def test_speech_that_began_before_the_assistant_counts_from_there() -> None:
    hearing = Hearing(SETTINGS)
    feed(hearing, *[0.9] * 6)
    feed(hearing, *[0.9] * 2, speaks=True, first=6)
    assert hearing.overlap_ms == 2 * FRAME_MS


def test_reset_audio_is_gone_and_the_clock_goes_on() -> None:
    hearing = Hearing(SETTINGS)
    feed(hearing, *[0.9] * 6)
    hearing.reset()
    assert len(hearing.so_far()) == 0
    marks, _ = feed(hearing, *[0.9] * 3, first=6)
    assert marks[-1] is Mark.STARTED
    assert hearing.begun_ms == 6 * FRAME_MS


def test_a_turn_without_end_keeps_its_last_minute() -> None:
    hearing = Hearing(HearingSettings(SETTINGS.endpoint, prefix_ms=64, ends_turns=False))
    feed(hearing, *[0.9] * 2000)
    assert len(hearing.so_far()) == 60_000 // FRAME_MS * FRAME_SAMPLES
