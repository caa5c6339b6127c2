"""The checks find what is wrong, not only nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from workers.neural.measure.checks import Bench, against_oracle, isolation, noisy_model, replay, same_weights
from workers.neural.moshi.shape import TINY
from workers.neural.moshi.stepper import Stepper

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

MODEL = noisy_model(TINY, torch.float32, torch.device("cpu"))


class Leaking(Stepper):
    """A slot's result depends on who else runs."""

    def _over_time(self, ids: Tensor) -> Tensor:
        hidden = super()._over_time(ids) + self.run.sum() * 1e-3
        self.hidden.copy_(hidden)
        return hidden


class Forgetful(Stepper):
    """A piece is put in one place too late."""

    def _through_piece(self, rows: Tensor, slot: int, first: int) -> None:
        super()._through_piece(rows, slot, first + 1)


def test_a_stepper_that_is_right_passes() -> None:
    bench = Bench(MODEL, Stepper)
    assert against_oracle(bench, None)["error"] == 0
    assert replay(bench, None, is_exact=True) == {"frames": 24, "equal": 24, "error_of_the_first": 0.0}


def test_a_stepper_that_leaks_is_found() -> None:
    bench = Bench(MODEL, Leaking)
    assert against_oracle(bench, None)["error"] > 1e-4
    assert isolation(bench, None)["beside_others"] < 24


def test_a_replay_that_is_wrong_is_found() -> None:
    assert replay(Bench(MODEL, Forgetful), None, is_exact=False)["equal"] < 24


def test_a_copy_in_another_precision_has_the_same_weights() -> None:
    copy = same_weights(MODEL, torch.bfloat16)
    assert torch.equal(copy.head, MODEL.head.to(torch.bfloat16))
