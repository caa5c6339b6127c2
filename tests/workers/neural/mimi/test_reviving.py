"""A codec that is told again stands where it stood."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from workers.neural.mimi.codec import FRAME_SAMPLES, StreamingCodec
from workers.neural.mimi.noise import noisy_mimi
from workers.neural.mimi.reviving import PRIMED_FRAMES, Reviver

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

MODEL = noisy_mimi(small=True, seed=3)


def codes(frames: int, seed: int) -> Tensor:
    return torch.randint(0, 64, (frames, 8), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("frames", [1, 40, 400])
def test_the_decoder_goes_on_and_the_encoder_heard_the_end(frames: int) -> None:
    """For a session that is shorter than what counts, and for one that is longer."""
    codec, other = StreamingCodec(MODEL, 3), StreamingCodec(MODEL, 1)
    said, heard = codes(frames, 1), codes(frames, 2)
    reviver = Reviver(codec)
    reviver.record()
    codec.decode_piece(1, codes(7, 3))
    reviver.revive(1, heard, said)
    # The oracle: the same, in a codec that never did anything else.
    for piece in said.split(100):
        other.decode_piece(0, piece)
    more = codes(3, 4)
    assert (codec.decode_piece(1, more) - other.decode_piece(0, more)).abs().max() < 1e-5
    fresh = StreamingCodec(MODEL, 1)
    sound = fresh.decode_piece(0, heard[-PRIMED_FRAMES:])
    fresh.encode_piece(0, sound)
    pcm = torch.randn(3 * FRAME_SAMPLES, generator=torch.Generator().manual_seed(5)) * 0.1
    assert torch.equal(codec.encode_piece(1, pcm), fresh.encode_piece(0, pcm))


def test_what_is_left_from_another_session_does_not_count_and_neighbours_do_not_notice() -> None:
    codec, alone = StreamingCodec(MODEL, 2), StreamingCodec(MODEL, 2)
    reviver = Reviver(codec)
    for one in (codec, alone):
        one.decode_piece(0, codes(9, 1))
    reviver.revive(1, codes(300, 6), codes(300, 7))
    reviver.revive(1, codes(20, 2), codes(20, 3))
    Reviver(alone).revive(1, codes(20, 2), codes(20, 3))
    for slot in (0, 1):
        more = codes(3, 4)
        assert torch.equal(codec.decode_piece(slot, more), alone.decode_piece(slot, more))
