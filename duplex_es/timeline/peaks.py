"""How loud a lane of sound is, in tiles: a few bytes for each stretch of time, coarse for an hour, fine for a word.

A tile of ``level`` L has ``BINS`` bins of ``BIN_MS * STEP**L`` milliseconds; bin 0 of tile 0 begins with the call. A
bin is one byte: the loudest sample in it, on a scale of square roots, 0 for silence. Pure Python, without numpy: coarse
tiles look only at every few samples.
"""

from __future__ import annotations

from array import array

BINS = 512
BIN_MS = 10
STEP = 4
LEVELS = 5
FULL = 32_768
_SAMPLES_A_BIN = 160
"""More samples than this in a bin are thinned out: the loudest of so many is as good a picture."""


def bin_ms(level: int) -> int:
    """How long a bin of this level is."""
    return int(BIN_MS * STEP**level)


def tile_ms(level: int) -> int:
    """How long a tile of this level is."""
    return bin_ms(level) * BINS


class Tile:
    """One tile while it is being filled. Sound comes in any order; what overlaps keeps the louder."""

    def __init__(self, level: int, number: int) -> None:
        self.begin_ms = number * tile_ms(level)
        self.end_ms = self.begin_ms + tile_ms(level)
        self._bin_ms = bin_ms(level)
        self.bins = bytearray(BINS)

    def add(self, begin_ms: float, rate_hz: int, samples: array[int]) -> None:
        """Sound that begins at ``begin_ms`` of the call; what lies outside the tile is left out."""
        a_bin = rate_hz * self._bin_ms / 1_000
        stride = max(1, int(a_bin / _SAMPLES_A_BIN))
        start = (begin_ms - self.begin_ms) * rate_hz / 1_000
        first = max(0, int(start / a_bin))
        last = min(BINS - 1, int((start + len(samples)) / a_bin))
        for number in range(first, last + 1):
            low = max(0, round(number * a_bin - start))
            part = samples[low : max(0, round((number + 1) * a_bin - start)) : stride]
            if part:
                level = loudness(max(max(part), -min(part)))
                if level > self.bins[number]:
                    self.bins[number] = level


def loudness(peak: int) -> int:
    """0 to 255 for 0 to 32,768, by square root: quiet speech is to be seen."""
    return min(255, int((peak / FULL) ** 0.5 * 255 + 0.5))
