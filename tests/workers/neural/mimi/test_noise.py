"""A codec of noise whose every code counts."""

from __future__ import annotations

import pytest
import torch

from workers.neural.mimi.noise import empty_mimi, noisy_mimi

pytestmark = pytest.mark.neural

SOUND = torch.randn(1, 1, 1920 * 8, generator=torch.Generator().manual_seed(1)) * 0.1


def test_its_codes_differ_and_its_sound_can_be_heard() -> None:
    with torch.no_grad():
        model = noisy_mimi(small=True)
        codes = model.encode(SOUND, num_quantizers=8).audio_codes
        assert len(codes.unique()) > 20
        assert model.decode(codes).audio_values.std() > 0.01


def test_the_librarys_own_would_have_passed_every_test_with_code_0() -> None:
    with torch.no_grad():
        model = empty_mimi(hidden_size=64, num_filters=8, num_hidden_layers=1, upsample_groups=64, head_dim=8)
        assert model.encode(SOUND, num_quantizers=8).audio_codes.unique().tolist() == [0]


def test_the_same_seed_gives_the_same_codec_whatever_was_drawn_before() -> None:
    one = noisy_mimi(small=True, seed=5).state_dict()
    torch.randn(100)
    other = noisy_mimi(small=True, seed=5).state_dict()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []
