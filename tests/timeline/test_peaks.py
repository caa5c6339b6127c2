"""Tiles of peaks."""

from __future__ import annotations

from array import array

import pytest

from duplex_es.timeline.peaks import BINS, LEVELS, Tile, bin_ms, loudness, tile_ms

pytestmark = pytest.mark.unit


def tone(ms: int, level: int, rate_hz: int = 16_000) -> array[int]:
    return array("h", [level, -level] * (ms * rate_hz // 2_000))


def test_a_level_has_bins_four_times_as_long_as_the_one_before() -> None:
    assert [bin_ms(level) for level in range(LEVELS)] == [10, 40, 160, 640, 2_560]
    assert tile_ms(0) == 10 * BINS


@pytest.mark.parametrize("level", range(LEVELS))
def test_sound_is_in_the_bins_of_its_time_and_in_no_other(level: int) -> None:
    tile = Tile(level, 1)
    wide = bin_ms(level)
    tile.add(tile.begin_ms + 3 * wide, 16_000, tone(2 * wide, 8_192))
    loud = [at for at, value in enumerate(tile.bins) if value]
    assert loud == [3, 4]
    assert tile.bins[3] == loudness(8_192) == 128


def test_what_lies_outside_is_left_out_and_the_louder_stays() -> None:
    tile = Tile(0, 1)
    tile.add(tile.begin_ms - 15.0, 8_000, tone(20, 20_000, 8_000))
    tile.add(tile.begin_ms, 8_000, tone(10, 100, 8_000))
    tile.add(tile.end_ms + 5.0, 8_000, tone(10, 20_000, 8_000))
    assert tile.bins[0] == loudness(20_000)
    assert not any(tile.bins[1:])


def test_loudness_goes_from_nothing_to_full() -> None:
    assert (loudness(0), loudness(32_768)) == (0, 255)
