"""Memory of many turns: a row each, as long as its own turn; and a model that ignores it is found out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from workers.neural_qwen3omni.rows import CacheIgnored, RowCache, keyword_of

pytestmark = pytest.mark.neural

CONFIG = SimpleNamespace(num_key_value_heads=1, head_dim=1, num_hidden_layers=2)


def cache(slots: int = 3, capacity: int = 8) -> RowCache:
    return RowCache(CONFIG, slots, capacity, torch.zeros(1))


def put(rows: RowCache, slots: list[int], *numbers: list[float], commit: bool = True) -> list[list[float]]:
    """Give each slot its numbers; what the last layer then sees of each, as its mask allows."""
    found = torch.tensor(numbers)[:, None, :, None]
    mask, positions = rows.aim(slots, found.shape[2])
    for layer in range(2):
        keys, values = rows.update(found, -found, layer)
    assert torch.equal(keys, -values)
    if commit:
        rows.commit()
    assert positions.shape == (len(slots), found.shape[2])
    return [keys[row, 0, mask[row, 0, -1], 0].tolist() for row in range(len(slots))]


def test_each_slot_sees_its_own_past_however_long_the_others_are() -> None:
    rows = cache()
    put(rows, [0], [1, 2, 3])
    put(rows, [2], [7])
    assert put(rows, [0, 2], [4], [8]) == [[1, 2, 3, 4], [7, 8]], "slots with a gap between them"
    assert put(rows, [1, 2], [5], [9]) == [[5], [7, 8, 9]], "slots side by side"
    assert [rows.length(slot) for slot in range(3)] == [4, 1, 3]


def test_tokens_of_one_piece_see_those_before_them() -> None:
    rows = cache()
    put(rows, [1], [1, 2])
    mask, positions = rows.aim([1], 2)
    assert positions.tolist() == [[2, 3]]
    assert mask[0, 0].tolist() == [[True, True, True, False], [True, True, True, True]]


def test_what_is_not_committed_was_not() -> None:
    rows = cache()
    put(rows, [0], [1])
    put(rows, [0], [9], commit=False)
    assert put(rows, [0], [2]) == [[1, 2]]
    rows.cut(0, 1)
    assert put(rows, [0], [3]) == [[1, 3]]
    rows.cut(0)
    assert rows.length(0) == 0


def test_a_model_that_ignores_its_memory_is_found_out() -> None:
    rows = cache()
    rows.aim([0], 1)
    with pytest.raises(CacheIgnored, match="0 of 2 layers"):
        rows.commit()


def test_a_slot_has_an_end() -> None:
    rows = cache(capacity=2)
    with pytest.raises(IndexError, match="3 tokens in a slot of 2"):
        rows.aim([0], 3)


def test_memory_is_handed_over_by_the_name_the_model_knows() -> None:
    assert keyword_of(lambda inputs, cache=None: None) == "cache"
    assert keyword_of(lambda inputs, past_key_values=None, **more: None) == "past_key_values"
    assert RowCache.bytes_per_token(CONFIG, 2) == 8
