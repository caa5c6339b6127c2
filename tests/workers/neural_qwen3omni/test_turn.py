"""What is remembered of a turn."""

from __future__ import annotations

import pytest

from workers.neural_qwen3omni.sampling import Sampling
from workers.neural_qwen3omni.turn import Turn, Wish, pack_memory, told_of, unpack_memory

pytestmark = pytest.mark.neural


def test_what_steps_drew_is_read_back_in_order() -> None:
    memory = pack_memory([1, 150_000], []) + pack_memory([], [(1, 2, 2047)]) + pack_memory([3], [(4, 5, 6)])
    assert unpack_memory(memory, 3) == ([1, 150_000, 3], [(1, 2, 2047), (4, 5, 6)])
    assert unpack_memory(b"", 3) == ([], [])


def test_what_is_no_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="no memory of a turn"):
        unpack_memory(pack_memory([1, 2], [])[:-3], 3)


def test_a_turn_is_over_when_it_is_neither_written_nor_spoken() -> None:
    wish = Wish(1, Sampling(1.0, 1, 1.0), 8)
    assert not Turn(wish, 3).is_over
    assert not Turn(wish, 3, is_writing=False, is_speaking=True).is_over
    assert Turn(wish, 3, is_writing=False).is_over


def test_nothing_was_told_of_a_turn_that_is_new() -> None:
    assert told_of({}) == (0, 0)
    assert told_of({"told": [3, 8]}) == (3, 8)
