"""Columns frame by frame are those of the whole sound, and those of the library where it pads alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.tiny_nemotron import sound
from workers.neural_nemotron.mel import COLUMNS, EMPHASIS, TAIL, LogMel

pytestmark = pytest.mark.neural

CPU = torch.device("cpu")
NOTHING = (torch.zeros(1, TAIL), torch.zeros(1, 1))


def streamed(frames: Tensor, sizes: list[int]) -> Tensor:
    """Columns of (frames, 1280) in pieces of so many frames; the first seven lie before the sound."""
    mel, (tail, last), found, at = LogMel(128, CPU), NOTHING, [], 0
    for size in sizes:
        piece = frames[at : at + size].reshape(1, -1)
        columns, tail, last = mel.columns(piece, tail, last, torch.tensor([True]) if at == 0 else None)
        assert columns.shape == (1, size * COLUMNS, 128)
        found.append(columns[0])
        at += size
    return torch.cat(found)[COLUMNS - 1 :]


def test_columns_are_those_of_the_whole_sound() -> None:
    frames = torch.from_numpy(sound(12))
    whole = frames.reshape(-1)
    emphasised = torch.cat((whole[:1], whole[1:] - EMPHASIS * whole[:-1]))
    window = torch.hann_window(400, periodic=False)
    spectrum = torch.stft(emphasised, 512, 160, 400, window, center=True, pad_mode="reflect", return_complex=True)
    expected = torch.log(spectrum.abs().square().T @ LogMel(128, CPU)._filters + 2**-24)
    found = streamed(frames, [1] * 12)
    assert found.shape[0] == 11 * COLUMNS + 1
    assert (found - expected[: len(found)]).abs().max() < 1e-3
    assert found.std() > 1.0, "a sound that does not change would prove nothing"


def test_the_librarys_features_are_the_same_behind_the_first_two_columns() -> None:
    """It takes silence for what lies before the sound, the model its reflection."""
    from transformers import NemotronAsrStreamingFeatureExtractor

    frames = sound(12)
    extractor = NemotronAsrStreamingFeatureExtractor(feature_size=128)
    expected = extractor(frames.reshape(-1), sampling_rate=16_000, return_tensors="pt")["input_features"][0]
    found = streamed(torch.from_numpy(frames), [12])
    assert (found[2:] - expected[2 : len(found)]).abs().max() < 1e-3


@pytest.mark.parametrize("sizes", [[12], [1, 11], [5, 4, 3]], ids=str)
def test_it_does_not_matter_in_what_pieces_it_comes(sizes: list[int]) -> None:
    frames = torch.from_numpy(sound(12))
    assert (streamed(frames, sizes) - streamed(frames, [1] * 12)).abs().max() < 1e-4


def test_rows_that_begin_and_rows_that_go_on_are_not_mixed_up() -> None:
    mel, frames = LogMel(128, CPU), torch.from_numpy(sound(4))
    _, tail, last = mel.columns(frames[:1], *NOTHING, torch.tensor([True]))
    old, _, _ = mel.columns(frames[1:2], tail, last, torch.tensor([False]))
    new, _, _ = mel.columns(frames[2:3], *NOTHING, torch.tensor([True]))
    both, _, _ = mel.columns(frames[1:3], torch.cat((tail, tail)), torch.cat((last, last)), torch.tensor([False, True]))
    assert torch.allclose(both[0], old[0], atol=1e-5) and torch.allclose(both[1], new[0], atol=1e-5)


def test_silence_is_quiet_and_no_fault() -> None:
    found = streamed(torch.zeros(3, 1280), [1, 1, 1])
    assert torch.allclose(found, torch.tensor(np.log(2.0**-24), dtype=torch.float32))
