"""What the model said is taken back from a memory, as far as nobody heard it."""

from __future__ import annotations

import numpy as np
import pytest

from workers.neural.moshi.shape import TINY
from workers.neural.personaplex.memory import MemoryBroken, pack_frame, unpack_frames
from workers.neural.personaplex.silence import PAD_TEXT, silence_of, silenced

pytestmark = pytest.mark.neural

WORD, CODE, CALLER = 50, 7, 9
FIRST = 12


def memory(frames: int, text: int = WORD) -> bytes:
    ids = np.array([text, *[CODE] * 8, *[CALLER] * 8])
    return b"".join(pack_frame(FIRST + number, ids) for number in range(frames))


def test_the_last_frames_are_silent_and_the_caller_is_not() -> None:
    first, ids = unpack_frames(silenced(memory(10), 3, TINY))
    assert first == FIRST
    assert (ids[:, 9:] == CALLER).all(), "what the caller said is what was said"
    assert (ids[:6] == unpack_frames(memory(10))[1][:6]).all(), "what was heard stays"
    # The text and the first code of a frame are heard one frame later.
    assert ids[6, 0] == PAD_TEXT and ids[6, 1] == silence_of(TINY)[0]
    assert (ids[6, 2:9] == CODE).all()
    assert (ids[7:, 0] == PAD_TEXT).all()
    assert (ids[7:, 1:9] == silence_of(TINY)).all()


def test_only_what_is_not_heard_yet_goes_where_all_was_heard() -> None:
    _, ids = unpack_frames(silenced(memory(10), 0, TINY))
    before = unpack_frames(memory(10))[1]
    assert (ids[:9] == before[:9]).all()
    assert ids[9, 0] == PAD_TEXT and ids[9, 1] == silence_of(TINY)[0]
    assert (ids[9, 2:] == before[9, 2:]).all()


def test_more_than_there_is_is_all_of_it() -> None:
    _, ids = unpack_frames(silenced(memory(2), 50, TINY))
    assert (ids[:, 1:9] == silence_of(TINY)).all()


def test_the_end_of_a_word_stays_one() -> None:
    _, ids = unpack_frames(silenced(memory(4, text=0), 4, TINY))
    assert (ids[:, 0] == 0).all()


def test_what_is_no_memory_is_refused() -> None:
    with pytest.raises(MemoryBroken):
        silenced(b"odd", 1, TINY)
