"""Single kernels; in triton's interpreter where there is no GPU. All together: test_fused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from workers.neural.moshi.sampling import Sampling, drawn, keys_of
from workers.neural.moshi.shape import TINY
from workers.neural.moshi.stepper import Standing
from workers.neural.moshi.transformers import NORM_FLOOR, MoshiModel, gated, normed

triton = pytest.importorskip("triton", reason="needs triton")
tl = pytest.importorskip("triton.language")
kernels = pytest.importorskip("workers.neural.moshi.kernels")
bytes_apart = kernels._bytes_apart

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

SHAPE = replace(TINY, layers=1, depth_layers=1, window=8)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@triton.jit
def apart(pairs, low, high, ON_DEVICE: tl.constexpr):
    at = tl.arange(0, 128)
    found_low, found_high = bytes_apart(tl.load(pairs + at), ON_DEVICE)
    tl.store(low + at, found_low)
    tl.store(high + at, found_high)


@pytest.fixture(scope="module")
def model() -> MoshiModel:
    found = MoshiModel(SHAPE).to(DEVICE)
    found.fill_with_noise(1)
    return found


def test_a_row_is_added_and_normed() -> None:
    torch.manual_seed(1)
    x, more, gain = (torch.randn(size, device=DEVICE) for size in ((3, 40), (3, 40), (40,)))
    true = x + more
    y = torch.empty_like(x)
    kernels.add_and_norm[(3,)](x, more, gain, y, 40, BLOCK=64, ADDS=True, FLOOR=NORM_FLOOR)
    assert torch.allclose(x, true) and torch.allclose(y, normed(true, gain), atol=1e-6)


def test_one_half_opens_the_other() -> None:
    both = torch.randn(3, 80, device=DEVICE)
    y = torch.empty(3, 40, device=DEVICE)
    kernels.gate[(3, 2)](both, y, 40, BLOCK=32)
    assert torch.allclose(y, gated(both), atol=1e-6)


def test_every_byte_becomes_its_number() -> None:
    numbers = torch.arange(-128, 128, dtype=torch.int8, device=DEVICE)
    low, high = (torch.empty(128, dtype=torch.float16, device=DEVICE) for _ in range(2))
    apart[(1,)](numbers.view(torch.int16), low, high, ON_DEVICE=DEVICE.type == "cuda")
    assert low.tolist() == numbers[0::2].tolist() and high.tolist() == numbers[1::2].tolist()


@pytest.mark.parametrize("top", [1, 5, 16])
def test_the_kernel_draws_what_the_plain_dice_draw(model: MoshiModel, top: int) -> None:
    from workers.neural.moshi.fused import FusedStepper

    rows = 12
    torch.manual_seed(4)
    logits = torch.randn(rows, 16, device=DEVICE)
    logits[0, 3] = logits[0, 5]  # equal ones are in or out together
    one = FusedStepper(model, rows, sampling=Sampling(code_top=top))
    keys = keys_of(torch.arange(2 * rows, device=DEVICE).view(rows, 2), torch.arange(rows, device=DEVICE), SHAPE.made)
    for slot in range(rows):
        one.place(slot, replace(Standing.first(SHAPE), forced=(-1,) * SHAPE.made))
    one._draw(logits, keys, 4)
    assert torch.equal(one._ids_made[:, 4], drawn(logits, keys[:, 4], 0.8, top, greedy=False))
