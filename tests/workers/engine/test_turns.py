"""Turns and their pieces as they travel."""

from __future__ import annotations

import json

import pytest

from workers.engine.turns import Call, TurnPiece, pack_pieces, pack_turn, unpack_pieces, unpack_turn

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("sounds", [[], [b"ab"], [b"ab", b"", b"cdef"]])
@pytest.mark.parametrize("memory", [b"", b"xyz"])
def test_a_turn_travels_with_its_sounds_and_its_memory(sounds: list[bytes], memory: bytes) -> None:
    opening, blob = pack_turn({"session_id": "s"}, sounds, memory)
    assert json.loads(json.dumps(opening))["session_id"] == "s"
    assert unpack_turn(opening, blob) == (sounds, memory)


def test_pieces_travel_whole_and_keep_their_order() -> None:
    metadata = {"format": "pcm", "sample_rate_hz": 24_000, "frame_count": 1, "channels": 1}
    pieces = [
        ("a", TurnPiece(text="hello", memory=b"m", drew=(1, 0))),
        ("b", TurnPiece(pcm=b"\1\0", memory=b"mm", audio_metadata=metadata)),
        ("c", TurnPiece(ends="stop", input_tokens=7, output_tokens=3, calls=(Call("f", "{}"), Call(None, "x")))),
    ]
    rows, blob = pack_pieces(pieces)
    assert list(unpack_pieces(json.loads(json.dumps(rows)), blob)) == pieces
