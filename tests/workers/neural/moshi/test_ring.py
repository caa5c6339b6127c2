"""Rings of keys and values: what is visible, and that int8 stays close."""

from __future__ import annotations

import pytest
import torch

from workers.neural.moshi.ring import KvRing

pytestmark = pytest.mark.neural

HEADS, COLUMNS, HEAD = 2, 8, 16


def ring(store: torch.dtype = torch.float32, *, window: int | None = None) -> KvRing:
    return KvRing(
        *(3, HEADS, COLUMNS, HEAD), window=window, store=store, compute=torch.float32, device=torch.device("cpu")
    )


def test_a_query_sees_its_window_and_nothing_that_was_never_written() -> None:
    one = ring(window=3)
    seen = one.seen_by_step(torch.tensor([[0], [5], [20]]))[:, 0, 0]
    assert seen[0].nonzero().flatten().tolist() == [0]
    assert seen[1].nonzero().flatten().tolist() == [3, 4, 5]
    assert seen[2].nonzero().flatten().tolist() == [18 % 8, 19 % 8, 20 % 8]


@pytest.mark.parametrize("first", [0, 5, 8, 21])
def test_a_piece_sees_what_its_frames_would_have_seen_one_by_one(first: int) -> None:
    torch.manual_seed(0)
    rows = torch.randn(2, HEADS, first + 6, HEAD)
    stepped, pieced = ring(), ring()
    for position in range(first):
        at = torch.full((3, 1), position)
        for one in (stepped, pieced):
            one.write(*rows[:, None, :, position : position + 1].expand(2, 3, -1, -1, -1), at)
    keys, _ = pieced.extend(1, *rows[:, :, first:], first)
    seen = pieced.seen_by_piece(first, 6)
    for number in range(6):
        position = torch.full((3, 1), first + number)
        stored, _ = stepped.write(*rows[:, None, :, first + number, None].expand(2, 3, -1, -1, -1), position)
        visible = stepped.seen_by_step(position)[1, 0, 0]
        by_frame = sorted(stored[1, 0, visible].sum(-1).tolist())
        in_piece = sorted(keys[0, seen[number]].sum(-1).tolist())
        assert by_frame == pytest.approx(in_piece)
    assert torch.equal(stepped.keys[1], pieced.keys[1])


def test_int8_keeps_every_row_within_half_a_step_of_its_largest_number() -> None:
    torch.manual_seed(1)
    # Rows of very different size: each has a scale of its own.
    rows = torch.randn(2, 3, HEADS, 1, HEAD) * torch.tensor([1e-3, 1.0, 50.0])[None, :, None, None, None]
    keys, values = ring(torch.int8).write(*rows, torch.zeros(3, 1, dtype=torch.long))
    for found, true in ((keys, rows[0]), (values, rows[1])):
        error = (found[:, :, :1] - true).abs().amax(-1)
        assert (error <= (true.abs().amax(-1) + 1e-4) / 127 * 0.51).all()


@pytest.mark.parametrize("store", [torch.float32, torch.bfloat16, torch.int8])
def test_what_is_read_is_the_same_however_it_was_written(store: torch.dtype) -> None:
    torch.manual_seed(2)
    rows = torch.randn(2, HEADS, 5, HEAD)
    stepped, pieced = ring(store), ring(store)
    for position in range(5):
        at = torch.full((3, 1), position)
        stepped.write(*rows[:, None, :, position, None].expand(2, 3, -1, -1, -1), at)
    keys, values = pieced.extend(1, *rows, 0)
    again = stepped.read(1, 5)
    assert torch.equal(again[0], keys) and torch.equal(again[1], values)
