"""38 bytes a frame, there and back."""

from __future__ import annotations

import numpy as np
import pytest

from workers.neural.personaplex.memory import MemoryBroken, pack_frame, pack_frames, unpack_frames
from workers.neural.personaplex.options import RECORD_BYTES

pytestmark = pytest.mark.neural


def frames(first: int, count: int) -> bytes:
    rows = np.arange(count * 17).reshape(count, 17) % 32_001
    return b"".join(pack_frame(first + number, row) for number, row in enumerate(rows))


def test_frames_come_back_as_they_were_packed() -> None:
    memory = frames(70_000, 3)
    assert len(memory) == 3 * RECORD_BYTES == 114
    first, ids = unpack_frames(memory)
    assert first == 70_000
    assert ids.tolist() == (np.arange(51).reshape(3, 17)).tolist()
    assert pack_frames(first, ids) == memory


def test_the_layout_is_little_endian_and_never_changes() -> None:
    assert pack_frame(258, np.array([32_000, *[2048] * 16]))[:8] == b"\x02\x01\x00\x00\x00\x7d\x00\x08"


@pytest.mark.parametrize("memory", [b"", b"x" * 37, frames(1, 2) + frames(7, 1), frames(3, 1) * 2])
def test_what_is_no_memory_of_one_session_is_refused(memory: bytes) -> None:
    with pytest.raises(MemoryBroken):
        unpack_frames(memory)
