"""A frame's memory: what is packed is unpacked, and what is no memory is said."""

from __future__ import annotations

import numpy as np
import pytest

from workers.neural_nemotron.memory import MemoryBroken, pack_frame, unpack_frames
from workers.neural_nemotron.options import RECORD_BYTES

pytestmark = pytest.mark.neural


def frames(count: int, start: int = 0) -> list[bytes]:
    dice = np.random.default_rng(1)
    sounds = dice.integers(-32_768, 32_768, (count, 1280), dtype=np.int16)
    return [pack_frame(start + place, 1000 + place, 131_071 - place, sounds[place]) for place in range(count)]


def test_what_is_packed_is_unpacked() -> None:
    packed = frames(3, start=70_000)
    assert {len(frame) for frame in packed} == {RECORD_BYTES}
    found = unpack_frames(b"".join(packed), 10)
    assert (found.frame, len(found)) == (70_000, 3)
    assert found.text.tolist() == [1000, 1001, 1002] and found.function.tolist() == [131_071, 131_070, 131_069]
    assert found.sound.shape == (3, 1280)
    again = [
        pack_frame(found.frame + place, found.text[place], found.function[place], found.sound[place])
        for place in range(3)
    ]
    assert again == packed


def test_the_last_frames_are_taken_of_more_than_are_wanted() -> None:
    found = unpack_frames(b"".join(frames(5)), 2)
    assert (found.frame, found.text.tolist()) == (3, [1003, 1004])


def test_nothing_is_a_memory_of_nothing_and_none_are_taken_where_none_are_wanted() -> None:
    assert len(unpack_frames(b"", 5)) == len(unpack_frames(b"".join(frames(5)), 0)) == 0


def test_what_is_no_memory_is_said() -> None:
    with pytest.raises(MemoryBroken, match=f"a memory of 7 bytes; it is a multiple of {RECORD_BYTES}"):
        unpack_frames(b"1234567", 5)
    first, _, third = frames(3)
    with pytest.raises(MemoryBroken, match="do not follow one another"):
        unpack_frames(first + third, 5)
