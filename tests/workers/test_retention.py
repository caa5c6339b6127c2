"""What is too old or too much is dropped, exactly up to what stood in the log then, and never what somebody needs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.log.api import EntryId
from workers.retention import (
    MIB,
    WINDOW_BYTES,
    WINDOW_MS,
    Bytes,
    Cut,
    Cuts,
    Limits,
    Mark,
    Marks,
    Needed,
    Retention,
)

pytestmark = pytest.mark.unit

UNLIMITED = Limits(audio_s=0, audio_bytes=0, history_s=0, history_bytes=0)
ALL_TOLD = Needed(EntryId(9, 0), snapshot_seq=10**9, has_snapshot=True)
"""Everything is taken in, and told by a snapshot."""


def position(number: int) -> EntryId:
    return EntryId(2, number)


def told(retention: Retention, at_s: float, number: int, seq: int, *, sound: int = 0, words: int = 0) -> None:
    """One input and one frame more, each with so many bytes of sound and of words."""
    retention.note(int(at_s * 1000), position(number), seq, Bytes(sound, sound), Bytes(words, words))


def every_second(limits: Limits, seconds: Iterable[int], *, sound: int = 0, words: int = 0) -> Retention:
    """A session that takes in one input and shows one frame each second, numbered by the second."""
    retention = Retention(limits)
    for second in seconds:
        told(retention, second, second, second, sound=sound, words=words)
    return retention


# -- by age --------------------------------------------------------------------------------------------------------


def test_nothing_is_due_before_its_time_and_then_everything_up_to_it() -> None:
    retention = Retention(Limits(audio_s=90))
    told(retention, 0, 10, 5, sound=100)
    told(retention, 30, 20, 8, sound=100)
    assert retention.due_ms == 90_000
    assert not retention.is_due(89_999)
    assert retention.cuts(90_000, ALL_TOLD) == Cuts(audio=Cut(position(11), 6))
    assert retention.due_ms == 120_000
    assert retention.cuts(120_000, ALL_TOLD) == Cuts(audio=Cut(position(21), 9))
    assert retention.due_ms is None


def test_what_is_there_is_counted() -> None:
    retention = every_second(Limits(audio_s=90), range(1, 101), sound=500, words=30)
    newest = retention.marks.newest
    assert (retention.audio.size(newest), retention.history.size(newest)) == (100_000, 6_000)
    audio, history = retention.cuts(150_000, ALL_TOLD)
    assert history is None
    assert audio is not None
    kept = 100 - (audio.output_before - 1)
    assert 40 <= kept < 45
    assert retention.audio.size(newest) == kept * 1_000


def test_dropping_happens_in_steps() -> None:
    retention = Retention(Limits(audio_s=90))
    cut = []
    for second in range(300):
        told(retention, second, second, second, sound=10)
        if retention.is_due(second * 1000):
            cut.append((second, retention.cuts(second * 1000, ALL_TOLD).audio))
    assert [second for second, _ in cut] == list(range(90, 300, 9))
    assert all(audio is not None and second - 95 <= audio.output_before - 1 <= second - 90 for second, audio in cut)


def test_history_goes_by_its_own_age_and_takes_the_sound_beside_it_along() -> None:
    retention = every_second(
        Limits(audio_s=0, audio_bytes=0, history_s=100, history_bytes=0), range(1, 201), sound=7, words=3
    )
    audio, history = retention.cuts(200_000, ALL_TOLD)
    assert audio is None
    assert history is not None and 94 <= history.output_before - 1 <= 100
    kept = 200 - (history.output_before - 1)
    assert retention.history.size(retention.marks.newest) == kept * 6
    assert retention.audio.size(retention.marks.newest) == kept * 14


def test_without_limits_everything_is_kept() -> None:
    retention = every_second(UNLIMITED, range(1, 500), sound=MIB, words=MIB)
    assert retention.due_ms is None
    assert retention.cuts(10**12, ALL_TOLD) == Cuts()


# -- by size -------------------------------------------------------------------------------------------------------


def test_sound_beyond_its_bound_goes_from_the_front_to_a_sixteenth_below() -> None:
    retention = every_second(Limits(audio_s=0, audio_bytes=160_000), range(1, 161), sound=500)
    assert not retention.is_due(10**9)
    told(retention, 161, 161, 161, sound=500)
    assert retention.is_due(161_000)
    audio, _ = retention.cuts(161_000, ALL_TOLD)
    assert audio is not None
    left = retention.audio.size(retention.marks.newest)
    assert 0.9 * 160_000 <= left <= 150_000
    assert left == (161 - (audio.output_before - 1)) * 1_000


def test_history_beyond_its_bound_goes_and_the_rest_is_still_counted_right() -> None:
    retention = Retention(Limits(audio_s=0, history_bytes=40_000))
    for second in range(1, 2_000):
        told(retention, second, second, second, sound=3, words=100)
        if retention.is_due(second * 1000):
            _, history = retention.cuts(second * 1000, ALL_TOLD)
            assert history is not None
            assert retention.history.size(retention.marks.newest) == 200 * (second - history.output_before + 1)
        assert retention.history.size(retention.marks.newest) <= 40_200


def test_a_cut_that_was_not_carried_out_is_found_again() -> None:
    retention = every_second(Limits(audio_s=90), range(1, 101), sound=500)
    first = retention.cuts(160_000, ALL_TOLD)
    retention.failed()
    assert retention.is_due(170_000)
    assert retention.cuts(170_000, ALL_TOLD).audio is not None
    assert first.audio is not None
    assert retention.audio.size(retention.marks.newest) <= 1_000 * 25


# -- what somebody needs -------------------------------------------------------------------------------------------

TIGHT = Limits(audio_s=1, audio_bytes=10, history_s=1, history_bytes=10)


def test_frames_that_a_client_may_ask_for_again_stay_whatever_the_bounds() -> None:
    retention = every_second(TIGHT, range(1, 201), sound=100, words=100)
    audio, history = retention.cuts(200_000, ALL_TOLD)
    for cut in (audio, history):
        assert cut is not None
        assert 130 < cut.output_before <= 141


def test_what_the_client_acknowledged_may_go_earlier() -> None:
    retention = every_second(TIGHT, range(1, 201), sound=100, words=100)
    needed = Needed(EntryId(9, 0), snapshot_seq=10**9, has_snapshot=True, acknowledged_seq=180)
    audio, history = retention.cuts(200_000, needed)
    assert audio is not None and history is not None
    assert audio.output_before == history.output_before == 181


def test_of_a_burst_only_so_much_is_kept_for_asking_again() -> None:
    retention = Retention(TIGHT)
    for piece in range(1, 101):
        told(retention, piece * 0.1 + 1, piece, piece, sound=MIB // 4)
    audio, _ = retention.cuts(12_000, ALL_TOLD)
    assert audio is not None
    kept_bytes = (100 - audio.output_before + 1) * MIB // 4
    assert WINDOW_BYTES <= kept_bytes <= WINDOW_BYTES + 3 * MIB


def test_input_that_a_successor_takes_in_or_hears_again_stays() -> None:
    retention = every_second(TIGHT, range(1, 201), sound=100, words=100)
    needed = Needed(position(120), snapshot_seq=10**9, has_snapshot=True)
    _, history = retention.cuts(400_000, needed)
    assert history is not None
    assert 110 < history.input_before.number <= 121
    assert history.output_before == 201
    audio, _ = every_second(Limits(audio_s=1), range(1, 201), sound=100).cuts(400_000, needed)
    assert audio is not None
    assert 110 < audio.input_before.number <= 121
    assert audio.output_before == 201


def test_records_that_no_snapshot_stands_in_for_stay() -> None:
    retention = every_second(TIGHT, range(1, 201), sound=100, words=100)
    audio, history = retention.cuts(400_000, Needed(EntryId(9, 0), snapshot_seq=150, has_snapshot=True))
    assert audio is not None and history is not None
    assert 140 < history.output_before <= 151
    assert history.input_before == position(201)
    assert audio.output_before == 201
    assert (
        every_second(TIGHT, range(1, 201), words=100).cuts(400_000, Needed(EntryId(9, 0), snapshot_seq=150)) == Cuts()
    )


def test_records_of_the_last_minute_stay_in_both_directions() -> None:
    retention = every_second(TIGHT, range(1, 201), words=100)
    needed = Needed(EntryId(9, 0), snapshot_seq=10**9, has_snapshot=True, acknowledged_seq=0)
    _, history = retention.cuts(200_000, needed)
    assert history is not None
    assert history.input_before.number <= 141


def test_held_up_by_what_is_needed_it_does_not_look_again_at_once() -> None:
    retention = every_second(TIGHT, range(1, 11), sound=100)
    assert retention.is_due(11_000)
    assert retention.cuts(11_000, Needed(position(0))) == Cuts()
    assert not retention.is_due(15_999)
    assert retention.is_due(16_000)


# -- marks ---------------------------------------------------------------------------------------------------------


def mark(at_s: float, number: int, seq: int) -> Mark:
    return Mark(int(at_s * 1000), position(number), seq)


def test_of_marks_close_together_the_newest_stays_and_one_that_says_nothing_new_is_not_kept() -> None:
    marks = Marks()
    for at_s, number in [(0, 1), (0.5, 2), (0.9, 3), (1.5, 4), (1.6, 5), (9, 5)]:
        marks.note(mark(at_s, number, 0))
    assert [(found.at_ms, found.consumed.number) for found in marks] == [(0, 1), (900, 3), (1600, 5)]


def test_there_are_few_marks_of_a_long_call_and_all_are_a_twentieth_of_their_age_exact() -> None:
    marks = Marks()
    for second in range(24 * 3600):
        marks.note(mark(second, second, second))
    found = [one.at_ms for one in marks]
    assert len(found) < 300
    now_ms = found[-1]
    for earlier, later in pairwise(found):
        assert later - earlier <= max(2_000, (now_ms - earlier) // 8)


def test_a_clock_that_steps_back_does_not_bring_marks_out_of_order() -> None:
    retention = Retention(Limits(audio_s=90))
    for at_s, number in [(100, 1), (50, 2), (60, 3), (102, 4)]:
        told(retention, at_s, number, number, sound=1)
    found = list(retention.marks)
    assert found == sorted(found)
    assert found[-1].seq == 4


def test_a_successor_goes_on_with_what_is_old_and_what_is_gone() -> None:
    before = every_second(Limits(audio_s=90, history_s=200), range(1, 151), sound=10, words=10)
    before.cuts(150_000, ALL_TOLD)
    after = Retention(
        Limits(audio_s=90, history_s=200), before.marks, audio_gone=before.audio.gone, records_gone=before.history.gone
    )
    assert after.audio.size(after.marks.newest) == before.audio.size(before.marks.newest)
    told(before, 190, 151, 151, sound=10, words=10)
    told(after, 190, 151, 151, sound=10, words=10)
    assert after.cuts(190_000, ALL_TOLD) == before.cuts(190_000, ALL_TOLD)


@given(
    st.lists(
        st.tuples(st.integers(0, 5_000), st.integers(0, 300_000), st.integers(0, 900), st.booleans(), st.booleans()),
        max_size=200,
    ),
    st.integers(0, 200_000),
    st.sampled_from([TIGHT, Limits(), Limits(audio_s=0, audio_bytes=MIB, history_bytes=20_000), Limits(history_s=70)]),
)
def test_no_cut_ever_takes_what_is_needed_and_positions_never_go_back(
    moves: list[tuple[int, int, int, bool, bool]], start_ms: int, limits: Limits
) -> None:  # E34, E35
    retention = Retention(limits)
    now_ms, number, seq, taken_in, snapshot_seq = start_ms, 0, 0, 0, 0
    shown: list[tuple[int, int]] = []
    lowest = {"audio": Cut(position(0), 0), "history": Cut(position(0), 0)}
    for after_ms, sound, words, says, shows in moves:
        now_ms, number, seq = now_ms + after_ms, number + says, seq + shows
        if shows:
            shown.append((now_ms, seq))
        retention.note(
            now_ms, position(number), seq, Bytes(sound * says, sound * shows), Bytes(words * says, words * shows)
        )
        taken_in, snapshot_seq = max(taken_in, number - 3), max(snapshot_seq, seq - 4)
        if not retention.is_due(now_ms):
            continue
        needed = Needed(position(taken_in), snapshot_seq=snapshot_seq, has_snapshot=snapshot_seq > 0)
        for kind, cut in retention.cuts(now_ms, needed)._asdict().items():
            if cut is None:
                continue
            assert cut.input_before <= position(taken_in + 1)
            young = [frame for at_ms, frame in shown if at_ms > now_ms - WINDOW_MS]
            if young and sum(move[1] + move[2] for move in moves) < WINDOW_BYTES:
                assert cut.output_before <= young[0]
            if kind == "history":
                assert cut.output_before <= snapshot_seq + 1
            assert cut.input_before >= lowest[kind].input_before or cut.output_before >= lowest[kind].output_before
            lowest[kind] = cut
        assert retention.audio.size(retention.marks.newest) >= 0
        assert retention.history.size(retention.marks.newest) >= 0
