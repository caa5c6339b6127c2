"""The streamed codec against the library's own, over clips of which slots come and go."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from workers.neural.mimi.codec import FRAME_SAMPLES, StreamingCodec
from workers.neural.mimi.noise import noisy_mimi

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

MODEL = noisy_mimi(small=True, seed=3)
# Longer than the window of the codec's transformers, which is 125 frames.
FRAMES = 140
CLIPS = torch.randn(2, 1, FRAME_SAMPLES * FRAMES, generator=torch.Generator().manual_seed(1)) * 0.1


@pytest.fixture(scope="module")
def offline() -> tuple[Tensor, Tensor]:
    """Codes (clips, codebooks, frames) and wave (clips, samples) of the library over the whole clips."""
    with torch.no_grad():
        codes = MODEL.encode(CLIPS, num_quantizers=8).audio_codes
        return codes, MODEL.decode(codes).audio_values[:, 0]


def test_the_clips_are_no_trivial_ones(offline: tuple[Tensor, Tensor]) -> None:
    codes, wave = offline
    assert len(codes.unique()) > 30
    assert wave.abs().max() > 0.1


def test_slots_that_join_late_and_miss_beats_get_the_codes_and_the_wave_of_the_whole(
    offline: tuple[Tensor, Tensor],
) -> None:
    codes, wave = offline
    codec = StreamingCodec(MODEL, 3)
    # Clip 0 in slot 2 from the start; clip 1 in slot 0 from the fifth beat, missing every fourth.
    done = [0, 0]
    encoded: list[list[Tensor]] = [[], []]
    decoded: list[list[Tensor]] = [[], []]
    beat = 0
    while min(done) < FRAMES:
        pcm, given = torch.randn(3, FRAME_SAMPLES), torch.zeros(3, 8, dtype=torch.long)
        run = torch.zeros(3, dtype=torch.bool)
        who = {}
        for clip, slot in ((0, 2), (1, 0)):
            if done[clip] < FRAMES and (clip == 0 or (beat >= 5 and beat % 4)):
                at = done[clip]
                pcm[slot] = CLIPS[clip, 0, at * FRAME_SAMPLES : (at + 1) * FRAME_SAMPLES]
                given[slot] = codes[clip, :, at]
                run[slot] = True
                who[clip] = slot
        found, sound = codec.encode(pcm, run), codec.decode(given, run)
        for clip, slot in who.items():
            encoded[clip].append(found[slot].clone())
            decoded[clip].append(sound[slot].clone())
            done[clip] += 1
        beat += 1
    for clip in (0, 1):
        assert torch.equal(torch.stack(encoded[clip], 1), codes[clip])
        assert (torch.cat(decoded[clip]) - wave[clip]).abs().max() < 1e-5


@pytest.mark.parametrize("piece", [1, 13, 125])
def test_pieces_of_one_slot_give_the_same(offline: tuple[Tensor, Tensor], piece: int) -> None:
    codes, wave = offline
    codec = StreamingCodec(MODEL, 2)
    found = [codec.encode_piece(1, part) for part in CLIPS[0, 0].split(piece * FRAME_SAMPLES)]
    assert torch.equal(torch.cat(found).T, codes[0])
    sound = [codec.decode_piece(1, part) for part in codes[0].T.split(piece)]
    assert (torch.cat(sound) - wave[0]).abs().max() < 1e-5


def test_a_slot_that_is_reset_begins_anew_and_its_neighbour_does_not_notice(offline: tuple[Tensor, Tensor]) -> None:
    codes, wave = offline
    codec = StreamingCodec(MODEL, 2)
    first = codec.decode_piece(0, codes[1, :, :20].T)
    codec.decode_piece(1, codes[0, :, :30].T)
    codec.reset(1)
    again = codec.decode_piece(1, codes[0, :, :20].T)
    assert (again - wave[0, : 20 * FRAME_SAMPLES]).abs().max() < 1e-5
    rest = codec.decode_piece(0, codes[1, :, 20:].T)
    assert (torch.cat([first, rest]) - wave[1]).abs().max() < 1e-5


def test_a_frame_from_before_the_memory_does_not_matter() -> None:
    """Each layer looks 125 frames back, and there are two."""
    codec = StreamingCodec(MODEL, 2)
    codes = torch.randint(0, 64, (codec.memory_frames + 40, 8), generator=torch.Generator().manual_seed(5))
    for part in codes.split(120):
        whole = codec.decode_piece(0, part)
    for part in codes[-codec.memory_frames :].split(120):
        late = codec.decode_piece(1, part)
    last = 5 * FRAME_SAMPLES
    assert (whole[-last:] - late[-last:]).abs().max() < 1e-5


def test_a_library_that_keeps_the_parts_elsewhere_is_refused_by_name() -> None:
    class Elsewhere(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

    with pytest.raises(NotImplementedError, match="places unknown here"):
        StreamingCodec(Elsewhere(), 1)


def test_a_layer_of_an_unknown_kind_is_refused_by_name() -> None:
    model = noisy_mimi(small=True)
    seanet = getattr(model.encoder, "encoder_seanet", model.encoder)
    seanet.layers[0] = nn.Tanh()
    with pytest.raises(NotImplementedError, match="Tanh"):
        StreamingCodec(model, 1)
