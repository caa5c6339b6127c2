"""Recording: nothing to record without a GPU; with one, the same work on the same tensors."""

from __future__ import annotations

import pytest
import torch

from workers.neural.graphs import recorded

pytestmark = pytest.mark.neural


def test_without_a_gpu_the_work_is_its_own_recording() -> None:
    def work() -> None:
        raise AssertionError("not to be run")

    assert recorded(work, torch.device("cpu")) is work


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recording_does_the_same_again() -> None:
    device = torch.device("cuda")
    number = torch.zeros(1, device=device)
    play = recorded(lambda: number.add_(1) and None, device)
    before = int(number)
    play()
    play()
    torch.cuda.synchronize()
    assert int(number) == before + 2
