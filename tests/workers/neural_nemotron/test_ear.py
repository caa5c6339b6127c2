"""What is heard frame by frame is what the library's encoder makes of the whole sound."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.tiny_nemotron import OPTIONS, sound
from workers.neural_nemotron import loading
from workers.neural_nemotron.ear import Ear
from workers.neural_nemotron.mel import COLUMNS, TAIL, LogMel
from workers.neural_nemotron.options import read_engine_options
from workers.neural_nemotron.rows import CacheIgnored

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

SLOTS = 3


@pytest.fixture(scope="module")
def loaded() -> loading.Loaded:
    return loading.load(read_engine_options(OPTIONS))


@pytest.fixture
def ear(loaded: loading.Loaded) -> Ear:
    return Ear(loaded.encoder, loaded.projection, SLOTS)


def heard(ear: Ear, slots: list[int], frames: Tensor) -> Tensor:
    rows = torch.zeros(SLOTS, 1280)
    rows[slots] = frames
    with torch.inference_mode():
        return ear.step(slots, rows)


@pytest.mark.parametrize("pieces", [[1] * 30, [30], [13, 1, 16]], ids=["frames", "whole", "pieces"])
def test_it_is_what_the_encoder_makes_of_the_whole_sound(loaded: loading.Loaded, ear: Ear, pieces: list[int]) -> None:
    frames = torch.from_numpy(sound(30))
    mel = LogMel(loaded.encoder.config.num_mel_bins, torch.device("cpu"))
    columns, _, _ = mel.columns(frames.reshape(1, -1), torch.zeros(1, TAIL), torch.zeros(1, 1), torch.tensor([True]))
    with torch.inference_mode():
        whole = loaded.encoder(columns[:, COLUMNS - 1 :], num_lookahead_tokens=0).last_hidden_state
        expected = loaded.projection(whole)[0]
        found, at = [], 0
        for size in pieces:
            piece = frames[at : at + size]
            found.append(ear.read(1, piece.reshape(-1)) if size > 1 else heard(ear, [1], piece)[1:2])
            at += size
    assert expected.shape == (30, 64)
    assert (torch.cat(found) - expected).abs().max() < 1e-4
    assert (expected[20:] - expected[10:20]).abs().max() > 0.1, "one that hears nothing would prove nothing"


def test_it_depends_on_what_was_before_and_not_on_what_has_left_its_window(ear: Ear) -> None:
    """Two layers look back 8 frames each, two convolutions 4, the first stage one."""
    reach = 2 * 8 + 2 * 4 + 2
    frames = torch.from_numpy(sound(40))
    found = []
    for changed in (None, 39 - 3, 39 - reach - 1):
        with torch.inference_mode():
            ear.forget(0)
        last = frames.clone()
        if changed is not None:
            last[changed] = torch.from_numpy(sound(1, 99))[0]
        for frame in last:
            after = heard(ear, [0], frame[None])[0]
        found.append(after)
    assert not torch.allclose(found[0], found[1], atol=1e-4)
    assert torch.allclose(found[0], found[2], atol=1e-5)


def test_a_row_is_the_same_bit_by_bit_whatever_the_others_do(ear: Ear) -> None:
    mine, others = torch.from_numpy(sound(20, 1)), torch.from_numpy(sound(40, 2))
    alone = [heard(ear, [1], frame[None])[1] for frame in mine]
    with torch.inference_mode():
        ear.forget(1)
    for number in range(5):
        heard(ear, [0], others[number][None])
    beside = []
    for number, frame in enumerate(mine):
        if number == 7:
            with torch.inference_mode():
                ear.forget(0)
        slots = [1, 0] if number % 2 else [1, 2, 0]
        rows = torch.stack([frame, *(others[5 + number + place] for place in range(len(slots) - 1))])
        beside.append(heard(ear, slots, rows)[1])
    assert all(torch.equal(one, other) for one, other in zip(alone, beside, strict=True))


def test_an_encoder_that_ignores_its_memory_is_found_out(ear: Ear) -> None:
    """An unknown keyword is swallowed by the library, and the layers see one frame where there should be nine."""
    ear._keyword = "past_values"
    with pytest.raises(RuntimeError):
        heard(ear, [0], torch.from_numpy(sound(1)))
    ear._encoder = _Deaf(ear._encoder)
    with pytest.raises(CacheIgnored, match="3 of 7 parts"):
        heard(ear, [0], torch.from_numpy(sound(1)))


class _Deaf:
    """An encoder without its layers."""

    def __init__(self, encoder: Any) -> None:
        self.subsampling, self.encode_positions = encoder.subsampling, encoder.encode_positions
        self.input_scale, self.layers = encoder.input_scale, ()
