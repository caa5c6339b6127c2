"""Sound cut into units: the first is longer, a turn's end fills one up, pictures and wishes go with theirs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.minicpmo.cutting import Cutter, is_loud
from workers.models.units import UnitShape

pytestmark = pytest.mark.unit

RATE_HZ = 16_000
SHAPE = UnitShape(period_ms=1000, first_ms=1030)
FIRST, NEXT = 16_480 * 4, 16_000 * 4


def sound(duration_ms: int, level: float = 0.1) -> bytes:
    return np.full(RATE_HZ * duration_ms // 1000, level, np.float32).tobytes()


@pytest.fixture
def cutter() -> Cutter:
    return Cutter(SHAPE, RATE_HZ)


@given(st.lists(st.integers(0, 700), max_size=12))
def test_units_are_cut_the_same_whatever_the_appends(pieces: list[int]) -> None:
    cutter, closed = Cutter(SHAPE, RATE_HZ), []
    for duration_ms in pieces:
        closed += cutter.hear(sound(duration_ms))
    total = sum(RATE_HZ * piece // 1000 * 4 for piece in pieces)
    wanted = 0 if total < FIRST else 1 + (total - FIRST) // NEXT
    assert [len(whole.pcm) for whole in closed] == [FIRST, *[NEXT] * wanted][:wanted]


def test_a_turn_with_speech_is_filled_up_with_silence(cutter: Cutter) -> None:
    assert cutter.hear(sound(1200)) != []
    whole = cutter.end()
    assert whole is not None and len(whole.pcm) == NEXT
    samples = np.frombuffer(whole.pcm, np.float32)
    assert samples[: RATE_HZ * 170 // 1000].all() and not samples[RATE_HZ * 170 // 1000 :].any()


def test_a_turn_without_speech_is_not(cutter: Cutter) -> None:
    cutter.hear(sound(300, 0.0))
    assert cutter.end() is None


def test_a_turn_that_ends_at_a_border_needs_no_unit_more(cutter: Cutter) -> None:
    assert len(cutter.hear(sound(1030))) == 1
    assert cutter.end() is None


def test_the_clients_verdict_counts_before_the_loudness(cutter: Cutter) -> None:
    cutter.hear(sound(300), is_speech=False)
    assert cutter.end() is None
    cutter.hear(sound(300, 0.0), is_speech=True)
    assert cutter.end() is not None


def test_pictures_wait_in_line_and_one_leaves_with_each_unit(cutter: Cutter) -> None:
    cutter.hear(sound(500), (b"a", b"b"))
    closed = cutter.hear(sound(1530), (b"c",))
    assert [whole.frames for whole in closed] == [(b"a",), (b"b",)]
    assert cutter.silence().frames == (b"c",)
    assert cutter.silence().frames == ()


def test_a_wish_to_listen_holds_for_the_unit_that_the_append_is_in(cutter: Cutter) -> None:
    cutter.hear(sound(500), forced=True)
    assert [whole.forced for whole in cutter.hear(sound(530))] == [True]
    assert [whole.forced for whole in cutter.hear(sound(1000))] == [False]
    assert [whole.forced for whole in cutter.hear(sound(1500), forced=True)] == [True]
    assert [whole.forced for whole in cutter.hear(sound(500))] == [True]


def test_a_turns_end_overrules_what_its_appends_wished(cutter: Cutter) -> None:
    cutter.hear(sound(500), forced=True)
    whole = cutter.end()
    assert whole is not None and not whole.forced


def test_what_is_cleared_is_forgotten_pictures_included(cutter: Cutter) -> None:
    cutter.hear(sound(500), (b"a",), forced=True)
    cutter.drop()
    (whole,) = cutter.hear(sound(1030))
    assert (whole.frames, whole.forced) == ((), False)


def test_loud_is_what_can_be_heard() -> None:
    assert is_loud(sound(10)) and not is_loud(sound(10, 0.001)) and not is_loud(b"")
