"""What one frame leaves behind, in 2572 bytes: what was heard in it, and the two tokens that were written in it.

Little-endian: the frame's number in the session, the token of what was said, the token of the function channel (uint32
each), and the 1280 samples (int16). The sound is kept as it is: what the conformer makes of it is as large, and would
not tell how the conformer stood. Tokens alone would rebuild a model that never heard its caller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .options import FRAME_SAMPLES, RECORD_BYTES

_RECORD = np.dtype([("frame", "<u4"), ("text", "<u4"), ("function", "<u4"), ("sound", "<i2", (FRAME_SAMPLES,))])
assert _RECORD.itemsize == RECORD_BYTES

Samples = npt.NDArray[np.int16]
Ids = npt.NDArray[np.int64]


class MemoryBroken(ValueError):
    """These bytes are not the memory of one session."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Frames that follow one another, the first with the number ``frame``: tokens (n,) and sound (n, 1280)."""

    frame: int
    text: Ids
    function: Ids
    sound: Samples

    def __len__(self) -> int:
        return len(self.text)


def pack_frame(frame: int, text: int, function: int, sound: Samples) -> bytes:
    """One frame's memory; ``sound`` is (1280,)."""
    record = np.empty((), _RECORD)
    record["frame"], record["text"], record["function"], record["sound"] = frame, text, function, sound
    return record.tobytes()


def unpack_frames(memory: bytes, most: int) -> Remembered:
    """The last ``most`` frames of a memory. Raises: MemoryBroken unless all frames follow one another."""
    if len(memory) % RECORD_BYTES:
        raise MemoryBroken(f"a memory of {len(memory)} bytes; it is a multiple of {RECORD_BYTES}")
    records = np.frombuffer(memory, _RECORD)
    frames = records["frame"].astype(np.int64)
    if (np.diff(frames) != 1).any():
        raise MemoryBroken("a memory whose frames do not follow one another")
    records = records[max(0, len(records) - most) :]
    return Remembered(
        int(records["frame"][0]) if len(records) else 0,
        records["text"].astype(np.int64),
        records["function"].astype(np.int64),
        np.ascontiguousarray(records["sound"], dtype=np.int16),
    )
