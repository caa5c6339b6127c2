"""Whether the device computes what it should: fused kernels against plain ones, neighbours, recordings, replays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..graphs import recorded
from ..moshi.sampling import Sampling
from ..moshi.shape import MoshiShape
from ..moshi.stepper import Standing, Stepper
from ..moshi.transformers import MoshiModel
from .timing import finished

SLOTS = 8
FRAMES = 24


@dataclass(frozen=True, slots=True)
class Bench:
    """Weights in one precision, and how steppers over them are made."""

    model: MoshiModel
    kind: type[Stepper]

    def stepper(self, *, store: torch.dtype | None = None, greedy: bool = False) -> Stepper:
        """A fresh one of the kind under test."""
        return self.kind(self.model, SLOTS, store=store, sampling=Sampling(greedy=greedy))


def noisy_model(shape: MoshiShape, dtype: torch.dtype, device: torch.device) -> MoshiModel:
    """Random weights, the same for one shape, type and device."""
    with torch.device("meta"):
        model = MoshiModel(shape)
    model = model.to(dtype).to_empty(device=device)
    model.fill_with_noise(7)
    return model.eval()


def same_weights(model: MoshiModel, dtype: torch.dtype) -> MoshiModel:
    """A copy in another precision."""
    with torch.device("meta"):
        copy = MoshiModel(model.shape)
    copy = copy.to(dtype).to_empty(device=model.text.device)
    copy.load_state_dict(model.state_dict())
    return copy.eval()


def error_of(found: Tensor, true: Tensor) -> float:
    """Relative, over all numbers."""
    return float((found.double() - true.double()).norm() / true.double().norm())


def against_oracle(bench: Bench, store: torch.dtype | None) -> dict[str, Any]:
    """The stepper under test and the plain one, both against a plain one in float32 with the same weights.

    Slots stand at the places where something changes: empty, at a tile's edge, before, at and after the window's end.
    """
    window, device = bench.model.shape.window, bench.model.text.device
    tested, plain = bench.stepper(store=store, greedy=True), Stepper(bench.model, SLOTS, sampling=Sampling(greedy=True))
    oracle = Stepper(same_weights(bench.model, torch.float32), SLOTS, sampling=Sampling(greedy=True))
    all_of_them = (tested, plain, oracle)
    dice = torch.Generator(device=device).manual_seed(3)
    for rings in zip(*(one.rings for one in all_of_them), strict=True):
        size = (2, bench.model.shape.heads, window, bench.model.shape.head_size)
        for slot in range(SLOTS):
            rows = torch.randn(size, generator=dice, device=device)
            for ring in rings:
                ring.fill(slot, rows)
    ages = torch.tensor([0, 1, 31, window // 4, window - 1, window, window + 7, 15 * window], device=device)
    worst, same, total = [0.0, 0.0], 0, 0
    for one in all_of_them:
        one.position.copy_(ages)
    for number in range(4):
        user = torch.randint(0, bench.model.shape.code_card, tested.user.shape, generator=dice, device=device)
        run = torch.rand(SLOTS, generator=dice, device=device) < 0.8
        run[number] = True
        for one in all_of_them:
            one.user.copy_(user)
            one.run.copy_(run)
            one.step()
        for place, one in enumerate((tested, plain)):
            worst[place] = max(worst[place], error_of(one.hidden[run], oracle.hidden[run]))
        same += int((tested.record[run, 0] == oracle.record[run, 0]).sum())
        total += int(run.sum())
        # From here on as the oracle says, so that a flipped near-tie does not count again and again.
        for one in (tested, plain):
            one.follow(oracle)
    return {"error": worst[0], "plain_error": worst[1], "same_texts": same, "of": total}


def isolation(bench: Bench, store: torch.dtype | None) -> dict[str, Any]:
    """One session with nobody beside it, beside busy others, and in another row: frames that are equal bit by bit."""
    stepper = bench.stepper(store=store)
    device, shape = stepper.device, stepper.shape
    dice = torch.Generator(device=device).manual_seed(4)
    said = torch.randint(0, shape.code_card, (FRAMES, shape.codebooks), generator=dice, device=device)

    def talk(slot: int, *, is_busy: bool) -> tuple[Tensor, Tensor]:
        stepper.reset(slot, (12345, 678))
        ids, hidden = [], []
        for frame in said:
            stepper.user.random_(0, shape.code_card, generator=dice)
            stepper.run.copy_((torch.rand(SLOTS, generator=dice, device=device) < 0.7) & is_busy)
            stepper.user[slot] = frame
            stepper.run[slot] = True
            stepper.step()
            ids.append(stepper.record[slot].clone())
            hidden.append(stepper.hidden[slot].clone())
        return torch.stack(ids), torch.stack(hidden)

    alone, busy, elsewhere = talk(2, is_busy=False), talk(2, is_busy=True), talk(5, is_busy=True)

    def equal(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> int:
        return int(((one[0] == other[0]).all(1) & (one[1] == other[1]).all(1)).sum())

    return {"frames": FRAMES, "beside_others": equal(alone, busy), "in_another_row": equal(alone, elsewhere)}


def recording(bench: Bench) -> dict[str, Any]:
    """A recorded step against the same step launched kernel by kernel, sampling on: frames with equal ids."""
    stepper = bench.stepper()
    finished(stepper.device)

    def talk(step: Any) -> Tensor:
        found = []
        for slot in range(SLOTS):
            stepper.reset(slot, (slot, 9))
        stepper.run.fill_(True)
        for frame in range(FRAMES):
            stepper.user.fill_(frame)
            step()
            found.append(stepper.record.clone())
        return torch.stack(found)

    launched = talk(stepper.step)
    stepper.run.zero_()
    played = talk(recorded(stepper.step, stepper.device))
    return {"frames": FRAMES, "equal": int((launched == played).all(2).all(1).sum())}


def replay(bench: Bench, store: torch.dtype | None, *, is_exact: bool) -> dict[str, Any]:
    """A session rebuilt in another slot from what it left: frames after that with equal ids, the same words given.

    The weights are noise, so that many ids are nearly as likely as the one that was drawn: one that rounding turns
    over changes all after it. ``error_of_the_first`` is that of the first hidden state.
    """
    stepper = bench.stepper(store=store)
    shape, device, before = stepper.shape, stepper.device, 2 * FRAMES
    dice = torch.Generator(device=device).manual_seed(5)
    said = torch.randint(0, shape.code_card, (before + FRAMES, shape.codebooks), generator=dice, device=device)

    def talk(slot: int, start: int) -> tuple[list[Tensor], Tensor]:
        stepper.run.zero_()
        stepper.run[slot] = True
        ids, first = [], stepper.hidden[slot].clone()
        for number, frame in enumerate(said[start:], start):
            stepper.user[slot] = frame
            stepper.step()
            ids.append(stepper.record[slot].clone())
            if number == before:
                first = stepper.hidden[slot].clone()
        return ids, first

    stepper.reset(1, (5, 6))
    whole, true = talk(1, 0)
    stepper.reset(6, (5, 6))
    records = torch.stack(whole[:before])
    if is_exact:
        stepper.run.zero_()
        stepper.run[6] = True
        for record in records:
            stepper.given[6], stepper.user[6] = record[: shape.made], record[shape.made :]
            stepper.retrace()
    else:
        ids, standing = stepper.inputs_of(records.cpu(), Standing.first(shape))
        at = 0
        for piece in ids.to(device).split(shape.window // 2):
            stepper.prefill(6, piece, at)
            at += len(piece)
        stepper.place(6, standing)
    rest, found = talk(6, before)
    same = sum(bool((one == other).all()) for one, other in zip(whole[before:], rest, strict=True))
    return {"frames": FRAMES, "equal": same, "error_of_the_first": error_of(found, true)}
