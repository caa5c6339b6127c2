"""Whose window lies in which slot, where this is read by the process that comes after this one.

A row for each slot in memory that outlives the process, written after each beat and before anybody hears of it: the row
is never behind what the worker knows. It is ahead by the frames that were on their way when the process died; by so
many, at most ``SPARE_FRAMES``, the session is set back, and steps them again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .options import RECORD_BYTES

SPARE_FRAMES = 8
"""Columns of a window beyond those that are seen: two thirds of a second."""
_RECORDS = SPARE_FRAMES + 2
"""The one that is being written may be broken."""
_ROW = np.dtype(
    [
        ("frames", "<i8"),
        ("ahead", "<i8"),
        ("origin", "<i8"),
        ("is_set", "<i8"),
        ("whose", "u1", (32,)),
        ("records", "u1", (_RECORDS, RECORD_BYTES)),
    ],
    align=True,
)


class WindowLost(ValueError):
    """The slot does not hold what this session needs; the message says why."""


def whose(opening: Mapping[str, Any]) -> bytes:
    """Tells one session's opening from any other, in 32 bytes."""
    return hashlib.sha256(json.dumps(dict(opening), sort_keys=True).encode()).digest()


class WindowTable:
    """The rows of all slots in ``buffer``, which is zeros at first.

    A row is ended before its window is touched, and set when all of it is there. All of it is valid at any moment: a
    process may die between any two lines.
    """

    def __init__(self, buffer: Any, slots: int) -> None:
        self._rows: npt.NDArray[Any] = np.frombuffer(buffer, _ROW, slots)

    @staticmethod
    def bytes_of(slots: int) -> int:
        """What a table of so many slots takes."""
        return slots * _ROW.itemsize

    @property
    def positions(self) -> list[int]:
        """Where each slot's window goes on; 0 for one that is nobody's."""
        rows = self._rows
        return list(np.where(rows["is_set"] == 1, rows["frames"] + rows["ahead"], 0).tolist())

    def is_set(self, slot: int) -> bool:
        """Whether the slot holds a session's window."""
        return bool(self._rows["is_set"][slot])

    def slot_of(self, session: bytes) -> int | None:
        """The slot that holds the window of the session that ``whose`` tells."""
        rows = self._rows
        (found,) = np.nonzero((rows["is_set"] == 1) & (rows["whose"] == np.frombuffer(session, np.uint8)).all(1))
        return int(found[0]) if len(found) else None

    def set_back(self, slot: int, session: bytes, frames: int, last: bytes) -> tuple[int, int]:
        """Let the slot's session go on at frame ``frames``: its position in the window, and its origin.

        ``last`` is the record of the frame before that, if one was stepped. Raises: WindowLost; the row is as it was.
        """
        row = self._rows[slot]
        if not row["is_set"] or row["whose"].tobytes() != session:
            raise WindowLost("the slot holds nothing of it")
        lost = int(row["frames"]) - frames
        if not 0 <= lost <= SPARE_FRAMES:
            raise WindowLost(f"its window stands at frame {row['frames']}, its memory at {frames}")
        if last and row["records"][(frames - 1) % _RECORDS].tobytes() != last:
            raise WindowLost(f"its window was made with another frame {frames - 1} than its memory has")
        row["frames"] = frames
        return frames + int(row["ahead"]), int(row["origin"])

    def set(self, slot: int, session: bytes, frames: int, *, position: int, origin: int, last: bytes) -> None:
        """The window of ``slot`` is this session's now, and goes on at ``position`` with frame ``frames``."""
        row = self._rows[slot]
        row["is_set"] = 0
        row["whose"] = np.frombuffer(session, np.uint8)
        row["ahead"], row["origin"], row["frames"] = position - frames, origin, frames
        if last:
            row["records"][(frames - 1) % _RECORDS] = np.frombuffer(last, np.uint8)
        row["is_set"] = 1

    def note(self, slot: int, record: bytes) -> None:
        """A frame was stepped, and left ``record``."""
        row = self._rows[slot]
        if row["is_set"]:
            row["records"][int(row["frames"]) % _RECORDS] = np.frombuffer(record, np.uint8)
            row["frames"] += 1

    def end(self, slot: int) -> None:
        """The window of ``slot`` is nobody's from now on. Idempotent."""
        self._rows[slot]["is_set"] = 0
