"""Messages survive any cut of the bytes they travel as."""

from __future__ import annotations

import pytest

from workers.engine.wire import LARGEST_BYTES, Unpacker, WireBroken, pack

pytestmark = pytest.mark.unit

MESSAGES = [
    ({"do": "feed", "session": "sess_ä"}, b"\x00\x01"),
    ({"do": "stop"}, b""),
    ({"is": "tick", "rows": []}, b"x" * 999),
]


@pytest.mark.parametrize("size", [1, 3, 8, 1000, 100_000])
def test_messages_arrive_whole_and_in_order_however_they_are_cut(size: int) -> None:
    data = b"".join(pack(message, blob) for message, blob in MESSAGES)
    unpacker = Unpacker()
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    assert [found for piece in pieces for found in unpacker.feed(piece)] == MESSAGES


def test_an_absurd_size_is_refused_before_memory_is_taken_for_it() -> None:
    with pytest.raises(WireBroken, match="announced"):
        list(Unpacker().feed((LARGEST_BYTES + 1).to_bytes(4, "little") + bytes(4)))


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(WireBroken):
        list(Unpacker().feed((1).to_bytes(4, "little") + bytes(4) + b"{"))
