"""The pieces of both transformers."""

from __future__ import annotations

import math

import pytest
import torch

from workers.neural.moshi.shape import PERSONAPLEX, TINY
from workers.neural.moshi.transformers import MoshiModel, normed, turned, turns_of

pytestmark = pytest.mark.neural


def test_a_row_is_brought_to_a_root_mean_square_of_one() -> None:
    row = normed(torch.randn(3, 64) * 40, torch.ones(64))
    assert torch.allclose(row.pow(2).mean(-1), torch.ones(3), atol=1e-4)


def test_what_a_query_sees_depends_on_the_distance_alone_also_after_a_day() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 128)
    found = []
    for position in (5, 12 * 3600 * 24):
        cosine, sine = turns_of(torch.tensor([position, position - 5]), 128, 1e4)
        found.append(float(turned(query, cosine[0], sine[0]) @ turned(key, cosine[1], sine[1])))
    assert found[1] == pytest.approx(found[0], abs=1e-4)
    cosine, sine = turns_of(torch.tensor([1]), 128, 1e4)
    assert (float(cosine[0, 0]), float(sine[0, 0])) == pytest.approx((math.cos(1), math.sin(1)))


def test_the_published_shape_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        model = MoshiModel(PERSONAPLEX)
    billions = sum(weight.numel() for weight in model.parameters()) / 1e9
    # 8.37 with the eight steps of the depth transformer that guess the caller's codes.
    assert billions == pytest.approx(7.67, abs=0.05)


def test_noise_is_the_same_for_the_same_seed() -> None:
    models = [MoshiModel(TINY) for _ in range(3)]
    for model, seed in zip(models, (1, 1, 2), strict=True):
        model.fill_with_noise(seed)
    assert torch.equal(models[0].head, models[1].head)
    assert not torch.equal(models[0].head, models[2].head)
