"""The table of whose window lies where, as the process after this one reads it."""

from __future__ import annotations

import numpy as np
import pytest

from workers.neural.personaplex.memory import pack_frame
from workers.neural.personaplex.windows import SPARE_FRAMES, WindowLost, WindowTable, whose

pytestmark = pytest.mark.neural

ANNA, BERT = whose({"session_id": "anna"}), whose({"session_id": "bert"})


def record(frame: int) -> bytes:
    return pack_frame(frame, np.full(17, frame))


def left_by(frames: int, *, origin: int = 0) -> bytearray:
    """What a process left in which Anna's window in slot 1 went on for ``frames`` frames, from 14 on."""
    buffer = bytearray(WindowTable.bytes_of(3))
    table = WindowTable(buffer, 3)
    table.set(1, ANNA, 14, position=14 - origin, origin=origin, last=record(13))
    for frame in range(14, 14 + frames):
        table.note(1, record(frame))
    return buffer


def test_a_window_is_found_by_its_session_and_where_it_goes_on() -> None:
    table = WindowTable(left_by(40, origin=4), 3)
    assert (table.slot_of(ANNA), table.slot_of(BERT)) == (1, None)
    assert table.positions == [0, 50, 0]
    assert table.set_back(1, ANNA, 54, record(53)) == (50, 4)


@pytest.mark.parametrize("lost", [1, SPARE_FRAMES])
def test_frames_that_nobody_heard_of_are_taken_back(lost: int) -> None:
    table = WindowTable(left_by(40), 3)
    assert table.set_back(1, ANNA, 54 - lost, record(53 - lost)) == (54 - lost, 0)
    assert table.positions[1] == 54 - lost
    table.note(1, record(54 - lost))
    assert table.positions[1] == 55 - lost


@pytest.mark.parametrize(
    ("session", "frames", "last", "why"),
    [
        (BERT, 54, record(53), "nothing of it"),
        (ANNA, 54 - SPARE_FRAMES - 1, record(53 - SPARE_FRAMES - 1), "stands at frame 54, its memory at 45"),
        (ANNA, 55, record(54), "stands at frame 54, its memory at 55"),
        (ANNA, 53, record(53), "another frame 52"),
    ],
)
def test_a_window_that_is_not_what_the_memory_says_is_lost(session: bytes, frames: int, last: bytes, why: str) -> None:
    table = WindowTable(left_by(40), 3)
    with pytest.raises(WindowLost, match=why):
        table.set_back(1, session, frames, last)
    assert table.positions == [0, 54, 0]


def test_a_session_that_has_said_nothing_yet_goes_back_to_its_opening() -> None:
    table = WindowTable(left_by(3), 3)
    assert table.set_back(1, ANNA, 14, b"") == (14, 0)


def test_a_window_that_was_given_up_is_nobodys() -> None:
    table = WindowTable(left_by(3), 3)
    table.end(1)
    table.end(1)
    assert table.slot_of(ANNA) is None and table.positions == [0, 0, 0] and not table.is_set(1)
    table.note(1, record(17))
    with pytest.raises(WindowLost):
        table.set_back(1, ANNA, 17, record(16))


def test_openings_that_differ_in_anything_are_not_one_session() -> None:
    opening = {"session_id": "anna", "incarnation": 0, "instructions": "be kind", "extra_body": {"b": 1, "a": 2}}
    assert whose(opening) == whose({**opening, "extra_body": {"a": 2, "b": 1}})
    assert len({whose({**opening, **more}) for more in ({}, {"incarnation": 1}, {"instructions": "be brief"})}) == 3
