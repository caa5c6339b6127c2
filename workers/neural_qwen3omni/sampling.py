"""Drawing tokens so that a draw depends on its own turn only: its seed, what is drawn, its number, and the logits."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

WORDS, FRAMES, RESIDUALS = 0, 1, 2
"""What dice are thrown for: each has a row of numbers of its own, so that the order between them does not matter."""

_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. A ``temperature`` of 0 takes the likeliest."""

    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float = 1.0


def seed_of(*parts: object) -> int:
    """64 bits from what names a turn."""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def uniforms(seed: int, kind: int, step: int, count: int = 1) -> list[float]:
    """``count`` numbers in (0, 1) that are the same on every machine, whenever they are asked for."""
    found: list[float] = []
    for block in range(-(-count // _BLOCK)):
        digest = hashlib.blake2b(struct.pack("<QIII", seed, kind, step, block), digest_size=64).digest()
        found += [(word + 0.5) * 2.0**-32 for word in struct.unpack(f"<{_BLOCK}I", digest)]
    return found[:count]


def drawn(logits: Tensor, dice: Sequence[float] | Tensor, settings: Sequence[Sampling]) -> Tensor:
    """One id of each row of ``logits`` (n, vocabulary), by the row's own settings and die; (n,) on the same device."""
    like = {"device": logits.device, "dtype": torch.float32}
    temperature = torch.tensor([one.temperature for one in settings], **like)[:, None]
    top_k = torch.tensor([one.top_k for one in settings], device=logits.device)[:, None]
    top_p = torch.tensor([one.top_p for one in settings], **like)[:, None]
    most = min(max(one.top_k for one in settings), logits.shape[-1])
    values, ids = logits.float().topk(most, -1)
    values = values / temperature.clamp_min(1e-6)
    values = values.masked_fill(torch.arange(most, device=logits.device) >= top_k, float("-inf"))
    chances = values.softmax(-1)
    before = chances.cumsum(-1) - chances
    # The likeliest is always kept, whatever ``top_p`` says.
    chances = chances.masked_fill((before >= top_p) & (before > 0), 0.0)
    sums = chances.cumsum(-1)
    die = torch.as_tensor(dice, **like).reshape(-1, 1)
    place = (sums <= die * sums[:, -1:]).sum(-1, keepdim=True)
    last = (chances > 0).sum(-1, keepdim=True) - 1
    place = torch.where(temperature > 0, torch.minimum(place, last), 0)
    return ids.gather(-1, place)[:, 0]


def penalised(logits: Tensor, row: int, said: Sequence[int], penalty: float) -> None:
    """Make what was ``said`` less likely in one row of ``logits``, in place."""
    if penalty == 1.0 or not said:
        return
    ids = torch.tensor(sorted(set(said)), device=logits.device)
    value = logits[row, ids]
    logits[row, ids] = torch.where(value > 0, value / penalty, value * penalty)
