"""Where turns begin and end, frame by frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.vad.endpoint import EndpointSettings, EndpointState, Mark, advance

pytestmark = pytest.mark.unit

SETTINGS = EndpointSettings(frame_ms=32, min_speech_ms=96, silence_ms=480, pause_ms=200)
START, PAUSE, END = 3, 7, 15  # frames of speech, of silence, of silence


def run(
    probabilities: list[float], settings: EndpointSettings = SETTINGS
) -> tuple[EndpointState, list[tuple[int, Mark]]]:
    """The last state, and every mark with the number of the frame (from 1) that gave it."""
    state, marks = EndpointState(), []
    for number, probability in enumerate(probabilities, 1):
        state, mark = advance(state, probability, settings)
        if mark is not None:
            marks.append((number, mark))
    return state, marks


def test_speech_counts_once_it_has_lasted_long_enough() -> None:
    state, marks = run([0.0, 0.9, 0.9, 0.9])
    assert marks == [(4, Mark.STARTED)]
    assert state.start_frame == 1


def test_a_click_is_no_speech() -> None:
    assert run([0.9, 0.9, 0.0, 0.9, 0.9, 0.0])[1] == []


def test_an_undecided_frame_neither_starts_speech_nor_breaks_it_off() -> None:
    state, marks = run([0.4, 0.9, 0.4, 0.9, 0.4, 0.9])
    assert marks == [(6, Mark.STARTED)]
    assert state.start_frame == 1


def test_a_turn_pauses_and_then_ends() -> None:
    state, marks = run([0.9] * 10 + [0.0] * 30)
    assert marks == [(START, Mark.STARTED), (10 + PAUSE, Mark.PAUSED), (10 + END, Mark.ENDED)]
    assert not state.in_speech


def test_speech_after_a_pause_resumes_the_turn() -> None:
    marks = run([0.9] * 10 + [0.0] * 8 + [0.9] + [0.0] * 20)[1]
    assert marks == [
        (START, Mark.STARTED),
        (10 + PAUSE, Mark.PAUSED),
        (19, Mark.RESUMED),
        (19 + PAUSE, Mark.PAUSED),
        (19 + END, Mark.ENDED),
    ]


def test_an_undecided_frame_stretches_silence_but_does_not_end_it() -> None:
    marks = run([0.9] * 3 + [0.0] * (END - 1) + [0.4] * 5 + [0.0])[1]
    assert marks[-1] == (3 + END - 1 + 5 + 1, Mark.ENDED)


def test_silence_shorter_than_a_pause_ends_a_turn_without_one() -> None:
    settings = EndpointSettings(silence_ms=160, pause_ms=200)
    assert run([0.9] * 3 + [0.0] * 5, settings)[1] == [(3, Mark.STARTED), (8, Mark.ENDED)]


def test_a_turn_that_never_falls_silent_is_ended() -> None:
    settings = EndpointSettings(longest_turn_ms=3200)
    assert run([0.9] * 101, settings)[1] == [(3, Mark.STARTED), (100, Mark.ENDED)]


def test_how_long_was_spoken_leaves_the_silence_out() -> None:
    assert run([0.9] * 10 + [0.0] * 5)[0].speech_frames == 10
    assert run([0.0] * 5)[0].speech_frames == 0


def test_the_release_threshold_lies_below_and_never_reaches_zero() -> None:
    assert EndpointSettings(threshold=0.5).release == pytest.approx(0.35)
    assert EndpointSettings(threshold=0.1).release == 0.01


@given(st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6, 1.0]), max_size=200))
def test_marks_alternate_and_states_replay(probabilities: list[float]) -> None:
    state, marks = run(probabilities)
    assert run(probabilities)[0] == state
    speaking, paused = False, False
    for _, mark in marks:
        match mark:
            case Mark.STARTED:
                assert not speaking
                speaking, paused = True, False
            case Mark.PAUSED:
                assert speaking and not paused
                paused = True
            case Mark.RESUMED:
                assert speaking and paused
                paused = False
            case Mark.ENDED:
                assert speaking
                speaking = False
    assert state.in_speech == speaking
