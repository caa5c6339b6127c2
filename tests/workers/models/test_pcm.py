"""Samples in, samples out."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from workers.models.pcm import floats_of, int16_bytes, ms_in, samples_in, tone

pytestmark = pytest.mark.unit


def test_int16_survives_the_way_through_floats() -> None:
    pcm = np.array([-32768, -1, 0, 1, 12345, 32767], "<i2").tobytes()
    floats = (np.frombuffer(pcm, "<i2") / 32768).astype("<f4").tobytes()
    assert int16_bytes(floats_of(floats)) == pcm


def test_too_loud_is_clipped_not_wrapped() -> None:
    assert np.frombuffer(int16_bytes(np.array([2.0, -2.0], np.float32)), "<i2").tolist() == [32767, -32768]


def test_torn_and_impossible_samples_do_no_harm() -> None:
    pcm = struct.pack("<3f", float("nan"), float("inf"), 0.5) + b"\x01\x02"
    assert floats_of(pcm).tolist() == [0.0, 0.0, 0.5]


def test_durations_are_whole() -> None:
    assert samples_in(33, 24_000) == 792
    assert ms_in(791, 24_000) == 32


def test_pieces_of_a_tone_join_without_a_click() -> None:
    whole = tone(0, 2400, 440, 24_000)
    assert tone(0, 1000, 440, 24_000) + tone(1000, 1400, 440, 24_000) == whole
    samples = np.frombuffer(whole, "<i2").astype(int)
    assert np.abs(samples).max() == pytest.approx(0.2 * 32767, rel=0.01)
    assert np.abs(np.diff(samples)).max() < 900
