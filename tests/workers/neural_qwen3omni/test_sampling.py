"""Draws: the same for the same dice, whatever lies beside; within what the settings allow."""

from __future__ import annotations

import pytest
import torch

from workers.neural_qwen3omni.sampling import WORDS, Sampling, drawn, penalised, seed_of, uniforms

pytestmark = pytest.mark.neural

LOGITS = torch.tensor([[1.0, 3.0, 2.0, 0.0], [0.0, 0.0, 5.0, 4.0]])
OPEN = Sampling(1.0, 4, 1.0)


def test_numbers_are_the_same_whenever_they_are_asked_for() -> None:
    assert uniforms(7, WORDS, 3, 20)[:5] == uniforms(7, WORDS, 3, 5)
    assert len({tuple(uniforms(seed, kind, step)) for seed in (1, 2) for kind in (0, 1) for step in (0, 1)}) == 8
    assert all(0 < number < 1 for number in uniforms(7, WORDS, 3, 100))
    assert seed_of("a", 1) == seed_of("a", "1") != seed_of("a1", "")


def test_numbers_are_spread_evenly() -> None:
    found = torch.tensor([uniforms(3, WORDS, step)[0] for step in range(4000)])
    assert abs(float(found.mean()) - 0.5) < 0.02
    assert torch.histc(found, 10, 0, 1).min() > 300


def test_without_temperature_the_likeliest_is_taken() -> None:
    assert drawn(LOGITS, [0.99, 0.99], [Sampling(0.0, 4, 1.0)] * 2).tolist() == [1, 2]


def test_ids_are_drawn_as_often_as_they_are_likely() -> None:
    dice = [(step + 0.5) / 2000 for step in range(2000)]
    ids = drawn(LOGITS[:1].expand(2000, -1), dice, [OPEN] * 2000)
    found = torch.bincount(ids, minlength=4) / 2000
    torch.testing.assert_close(found, LOGITS[0].softmax(-1), atol=0.002, rtol=0)


def test_a_row_is_drawn_by_its_own_settings() -> None:
    settings = [Sampling(1.0, 1, 1.0), Sampling(1.0, 4, 0.5), OPEN]
    for die in (0.01, 0.5, 0.999):
        ids = drawn(LOGITS[:1].expand(3, -1), [die] * 3, settings).tolist()
        assert ids[:2] == [1, 1], "the likeliest alone has more than half"
        assert ids[2] == drawn(LOGITS[:1], [die], [OPEN]).item()


def test_what_is_forbidden_is_never_drawn() -> None:
    logits = LOGITS[:1].masked_fill(torch.tensor([False, True, False, True]), float("-inf"))
    assert {drawn(logits, [die], [OPEN]).item() for die in (1e-9, 0.3, 0.6, 1 - 1e-9)} == {0, 2}


def test_a_top_p_of_nothing_takes_the_likeliest() -> None:
    assert drawn(LOGITS, [0.9, 0.9], [Sampling(1.0, 4, 0.0)] * 2).tolist() == [1, 2]


def test_what_was_said_is_made_less_likely_whatever_its_sign() -> None:
    logits = torch.tensor([[2.0, -2.0, 1.0]])
    penalised(logits, 0, [0, 1, 1], 2.0)
    assert logits.tolist() == [[1.0, -4.0, 1.0]]
    penalised(logits, 0, [], 2.0)
    penalised(logits, 0, [2], 1.0)
    assert logits.tolist() == [[1.0, -4.0, 1.0]]
