"""The device's kernels, in triton's interpreter where there is no device: the same as the plain path."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from workers.neural.moshi.sampling import Sampling
from workers.neural.moshi.shape import TINY
from workers.neural.moshi.stepper import Stepper
from workers.neural.moshi.transformers import MoshiModel

pytest.importorskip("triton", reason="needs triton")

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

SHAPE = replace(TINY, heads=2, layers=1, depth_layers=1, depth_heads=2, window=8)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SLOTS = 2


@pytest.fixture(scope="module")
def model() -> MoshiModel:
    found = MoshiModel(SHAPE).to(DEVICE)
    found.fill_with_noise(1)
    return found


@pytest.fixture
def few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.neural.moshi import fused

    monkeypatch.setattr(fused, "PROGRAMS", 1)


def pair(model: MoshiModel, store: torch.dtype, *, greedy: bool, spare: int = 0) -> tuple[Stepper, Stepper]:
    from workers.neural.moshi.fused import FusedStepper

    how = Sampling(greedy=greedy, code_top=16)
    steppers = (
        Stepper(model, SLOTS, store=store, sampling=how, spare=spare),
        FusedStepper(model, SLOTS, store=store, sampling=how, spare=spare),
    )
    for number in range(SHAPE.layers):
        for slot in range(SLOTS):
            rows = torch.randn(2, SHAPE.heads, SHAPE.window + spare, SHAPE.head_size, device=DEVICE)
            for one in steppers:
                one.rings[number].fill(slot, rows)
    return steppers


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize(("store", "greedy"), [(torch.float32, False), (torch.int8, True)])
@pytest.mark.parametrize("spare", [0, 3])
def test_a_step_gives_the_same_ids_and_nearly_the_same_numbers(
    model: MoshiModel, store: torch.dtype, greedy: bool, spare: int
) -> None:
    torch.manual_seed(3)
    plain, fused = pair(model, store, greedy=greedy, spare=spare)
    for position, running in (([0, 7], [True, True]), ([8, 30], [False, True]), ([3, 31], [True, True])):
        user = torch.randint(0, SHAPE.code_card, (SLOTS, 8), device=DEVICE)
        for one in (plain, fused):
            one.position.copy_(torch.tensor(position, device=DEVICE))
            one.run.copy_(torch.tensor(running, device=DEVICE))
            one.user.copy_(user)
            one.step()
        runs = plain.run
        # An int8 row is rounded alike, and looked at in float16.
        tolerance = 1e-5 if store == torch.float32 else 5e-3
        assert float((fused.hidden - plain.hidden)[runs].norm() / plain.hidden[runs].norm()) < tolerance
        assert torch.equal(fused.record[runs], plain.record[runs])
        fused.follow(plain)


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("store", [torch.float32, torch.int8])
def test_a_piece_leaves_the_same_window(model: MoshiModel, store: torch.dtype) -> None:
    plain, fused = pair(model, store, greedy=True)
    ids = torch.randint(0, SHAPE.code_card, (6, SHAPE.streams), device=DEVICE)
    for one in (plain, fused):
        one.reset(1, (1, 1))
        one.prefill(1, ids[:4], 0)
        one.prefill(1, ids[4:], 4)
    for mine, theirs in zip(fused.rings, plain.rings, strict=True):
        for found, true in zip(mine.read(1, 6), theirs.read(1, 6), strict=True):
            assert torch.allclose(found, true, atol=1e-5 if store == torch.float32 else 0.05)


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("store", [torch.float32, torch.int8])
@pytest.mark.parametrize(("length", "spare"), [(6, 0), (8, 0), (13, 0), (21, 0), (9, 3), (21, 3)])
def test_all_of_a_session_in_one_pass_leaves_the_window_that_its_pieces_leave(
    monkeypatch: pytest.MonkeyPatch, store: torch.dtype, length: int, spare: int
) -> None:
    """Shorter than the window, as long, and with one, two and more blocks behind it; in two layers."""
    from workers.neural.moshi import fused as module

    monkeypatch.setattr(module, "BLOCK", 4)
    deep = MoshiModel(replace(SHAPE, layers=2)).to(DEVICE)
    deep.fill_with_noise(2)
    plain, fused = (kind(deep, SLOTS, store=store, spare=spare) for kind in (Stepper, module.FusedStepper))
    ids = torch.randint(0, SHAPE.code_card, (length, SHAPE.streams), device=DEVICE)
    for number in range(length):
        plain.prefill(1, ids[number : number + 1], number)
    fused.prefill_whole(1, [ids[:5], ids[5:]])
    assert torch.equal(fused.position, plain.position)
    for mine, theirs in zip(fused.rings, plain.rings, strict=True):
        columns = min(length, SHAPE.window + spare)
        for found, true in zip(mine.read(1, columns), theirs.read(1, columns), strict=True):
            assert torch.allclose(found, true, atol=1e-5 if store == torch.float32 else 0.05)
