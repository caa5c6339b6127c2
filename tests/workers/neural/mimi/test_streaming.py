"""Single layers with memory against the same layers over the whole."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from workers.neural.mimi.streaming import CausalConvolution, CausalUpsampling, Residual, Stateless, Whose

pytestmark = pytest.mark.neural

SLOTS, CHANNELS = 2, 3
NOBODY = torch.zeros(SLOTS, dtype=torch.bool)
FRESH = torch.ones(SLOTS, dtype=torch.bool)


@pytest.fixture(autouse=True)
def quiet() -> None:
    torch.manual_seed(0)
    torch.set_grad_enabled(False)


@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(7, 1, 1), (3, 1, 2), (8, 4, 1), (1, 1, 1)])
def test_a_convolution_sees_silence_and_then_what_was_before(kernel: int, stride: int, dilation: int) -> None:
    layer = nn.Conv1d(CHANNELS, 4, kernel, stride, dilation=dilation)
    x = torch.randn(1, CHANNELS, 24)
    reach = (kernel - 1) * dilation + 1 - stride
    whole = layer(nn.functional.pad(x, (reach, 0)))
    streamed = CausalConvolution(layer, SLOTS)
    found = [streamed(part, Whose(NOBODY, FRESH, 1)) for part in x.split(8, 2)]
    assert torch.allclose(torch.cat(found, 2), whole, atol=1e-6)


def test_an_upsampling_adds_its_bias_once() -> None:
    layer = nn.ConvTranspose1d(CHANNELS, 4, 8, 4)
    x = torch.randn(1, CHANNELS, 6)
    streamed = CausalUpsampling(layer, SLOTS)
    found = [streamed(part, Whose(NOBODY, FRESH, 0)) for part in x.split(2, 2)]
    assert torch.allclose(torch.cat(found, 2), layer(x)[..., :24], atol=1e-6)


def test_only_slots_that_run_remember() -> None:
    layer = CausalConvolution(nn.Conv1d(1, 1, 3, bias=False), SLOTS)
    run = torch.tensor([True, False])
    layer(torch.ones(SLOTS, 1, 4), Whose(run, FRESH))
    assert layer._left[0].abs().sum() > 0 and layer._left[1].abs().sum() == 0
    layer.reset(0)
    assert layer._left.abs().sum() == 0


def test_the_first_frame_is_repeated_to_its_left_where_the_layer_wants_that() -> None:
    layer = CausalConvolution(nn.Conv1d(1, 1, 4, 2, bias=False), 1, repeats=True)
    layer._convolution.weight.fill_(1.0)
    x = torch.full((1, 1, 2), 5.0)
    assert layer(x, Whose(torch.ones(1) > 0, torch.ones(1) > 0)).tolist() == [[[20.0]]]
    assert layer(x * 0, Whose(torch.ones(1) > 0, torch.ones(1) < 0)).tolist() == [[[10.0]]]


def test_what_goes_in_is_added_to_what_comes_out() -> None:
    block = Residual([Stateless(nn.ELU()), CausalConvolution(nn.Conv1d(2, 2, 1), 1)])
    x = torch.randn(1, 2, 4)
    convolution = block._layers[1]._convolution  # type: ignore[attr-defined]
    whose = Whose(torch.ones(1) > 0, torch.zeros(1) > 0)
    assert torch.allclose(block(x, whose), x + convolution(nn.functional.elu(x)))
    assert block.bytes_per_slot == 0
