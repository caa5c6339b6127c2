"""The dice: fair, among the likeliest only, and the same for the same slot, frame and stream."""

from __future__ import annotations

import pytest
import torch

from workers.neural.moshi.sampling import drawn, keys_of, seed_of

pytestmark = pytest.mark.neural

DRAWS = 4000


def keys(seed: int, draws: int = DRAWS) -> torch.Tensor:
    return keys_of(torch.tensor([[seed, 7]]).expand(draws, 2), torch.arange(draws), 3)[:, 1]


def test_ids_are_drawn_as_often_as_their_chance_and_never_from_below_the_top() -> None:
    logits = torch.tensor([2.0, 1.0, 0.5, 0.0, -0.5, -3.0])
    found = drawn(logits.expand(DRAWS, -1), keys(1), 0.8, 4, greedy=False)
    often = torch.bincount(found, minlength=6) / DRAWS
    chance = (logits[:4] / 0.8).softmax(-1)
    assert often[4:].sum() == 0
    assert (often[:4] - chance).abs().max() < 0.03


def test_a_draw_depends_on_seed_frame_and_stream_and_on_nothing_else() -> None:
    logits = torch.zeros(DRAWS, 50)
    first = drawn(logits, keys(1), 1.0, 50, greedy=False)
    assert torch.equal(first[10:20], drawn(logits[:10], keys(1)[10:20], 1.0, 50, greedy=False))
    other = drawn(logits, keys(2), 1.0, 50, greedy=False)
    assert (first == other).float().mean() < 0.05
    streams = keys_of(torch.tensor([[1, 7]]), torch.tensor([3]), 9)[0]
    assert len(set(streams.tolist())) == 9


def test_greedy_takes_the_likeliest() -> None:
    assert drawn(torch.tensor([[0.0, 3.0, 1.0]]), keys(1, 1), 1.0, 2, greedy=True).tolist() == [1]


def test_a_session_has_the_same_seed_everywhere_and_another_one_has_another() -> None:
    assert seed_of(0, "sess_1", 2) == seed_of(0, "sess_1", 2)
    assert len({seed_of(0, "a", 1), seed_of(0, "a", 2), seed_of(1, "a", 1), seed_of(0, "b", 1)}) == 4
    assert all(0 <= word < 2**32 for word in seed_of("x"))
