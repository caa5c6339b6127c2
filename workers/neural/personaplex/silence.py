"""The ids of a moment in which the model says nothing, and how what it said is taken back. Needs no torch."""

from __future__ import annotations

import numpy as np

from ..moshi.shape import MoshiShape
from .memory import pack_frames, unpack_frames

PAD_TEXT = 3
SILENT_TEXTS = frozenset({0, PAD_TEXT})
"""Text ids that are not words: the end of a word, and nothing."""
SILENCE = (948, 243, 1178, 546, 1736, 1030, 1978, 2008)
"""The codes of a silent frame of the model's."""


def silence_of(shape: MoshiShape) -> tuple[int, ...]:
    """The silent codes, brought into the range of a smaller shape."""
    return tuple(code % shape.code_card for code in SILENCE)


def silenced(memory: bytes, frames: int, shape: MoshiShape) -> bytes:
    """``memory`` of a session whose model was silent in the sound of its last ``frames``; the caller was not.

    What it had begun to say and nobody could hear yet is taken back with it. Raises: MemoryBroken.
    """
    first, ids = unpack_frames(memory)
    begins = max(0, len(ids) - frames)
    for book, (code, delay) in enumerate(zip(silence_of(shape), shape.delays, strict=True), start=1):
        # A code without delay is heard in the frame after the one that made it, as the text is.
        ids[begins if delay else max(0, begins - 1) :, book] = code
    text = ids[max(0, begins - 1) :, 0]
    text[np.isin(text, list(SILENT_TEXTS), invert=True)] = PAD_TEXT
    return pack_frames(first, ids)
