"""What one frame leaves behind, in 38 bytes: enough to build the window, the delays and the voice's sound again.

Little-endian: the frame's number in the session (uint32, its opening counted in), the text id and the 8 codes that the
model made in it, and the 8 codes it was given (uint16 each).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .options import RECORD_BYTES

IDS = 17
_RECORD = np.dtype([("frame", "<u4"), ("ids", "<u2", (IDS,))])
assert _RECORD.itemsize == RECORD_BYTES

Ids = npt.NDArray[np.int64]


class MemoryBroken(ValueError):
    """These bytes are not the memory of one session."""


def pack_frame(frame: int, ids: npt.NDArray[np.integer]) -> bytes:
    """One frame's memory; ``ids`` (17,) as in ``Stepper.record``."""
    record = np.empty((), _RECORD)
    record["frame"], record["ids"] = frame, ids
    return record.tobytes()


def pack_frames(first: int, ids: npt.NDArray[np.integer]) -> bytes:
    """That of frames in a row, ``ids`` (frames, 17): what ``unpack_frames`` unpacks."""
    records = np.empty(len(ids), _RECORD)
    records["frame"], records["ids"] = np.arange(first, first + len(ids)), ids
    return records.tobytes()


def unpack_frames(memory: bytes) -> tuple[int, Ids]:
    """The number of the first frame and the ids (frames, 17). Raises: MemoryBroken unless all frames follow on."""
    if not memory or len(memory) % RECORD_BYTES:
        raise MemoryBroken(f"a memory of {len(memory)} bytes; it is a multiple of {RECORD_BYTES}")
    records = np.frombuffer(memory, _RECORD)
    frames = records["frame"].astype(np.int64)
    if (np.diff(frames) != 1).any():
        raise MemoryBroken("a memory whose frames do not follow one another")
    return int(frames[0]), records["ids"].astype(np.int64)
