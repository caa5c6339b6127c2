"""Choosing: the likeliest, or by dice that are the same everywhere and know one session only."""

from __future__ import annotations

import pytest
import torch

from workers.neural_nemotron.sampling import chosen, die, seed_of

pytestmark = pytest.mark.neural


def test_without_heat_the_likeliest_is_taken() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0], [5.0, 3.0, 1.0]])
    assert chosen(logits, [0.99, 0.99], temperature=0.0, top_k=3).tolist() == [1, 0]


def test_ids_are_drawn_as_likely_as_they_are() -> None:
    logits = torch.tensor([0.5, 0.3, 0.2]).log().expand(10_000, 3)
    dice = [die(seed_of("a"), frame) for frame in range(10_000)]
    counts = torch.bincount(chosen(logits, dice, temperature=1.0, top_k=3), minlength=3) / 10_000
    assert torch.allclose(counts, torch.tensor([0.5, 0.3, 0.2]), atol=0.02)


def test_only_the_likeliest_few_are_drawn() -> None:
    logits = torch.tensor([0.4, 0.35, 0.25]).log().expand(1000, 3)
    found = chosen(logits, [die(1, frame) for frame in range(1000)], temperature=1.5, top_k=2)
    assert set(found.tolist()) == {0, 1}
    assert chosen(logits[:1], [1.0 - 1e-9], temperature=1.0, top_k=50).tolist() == [2]


def test_a_draw_does_not_depend_on_other_rows() -> None:
    logits = torch.randn(5, 40)
    dice = [die(7, frame) for frame in range(5)]
    together = chosen(logits, dice, temperature=1.0, top_k=20).tolist()
    alone = [chosen(logits[row : row + 1], dice[row : row + 1], temperature=1.0, top_k=20).item() for row in range(5)]
    assert together == alone


def test_dice_are_the_same_on_every_machine() -> None:
    assert die(1, 2) == die(1, 2) != die(1, 3) and die(1, 2) != die(2, 2)
    assert round(die(1, 2), 6) == 0.197601
    assert seed_of(0, "session", 1) != seed_of(0, "session", 2)
    assert all(0.0 < die(3, frame) < 1.0 for frame in range(1000))
