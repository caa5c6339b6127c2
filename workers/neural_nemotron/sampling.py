"""Choosing tokens so that a choice depends on its own session only: its seed, the frame's number, and the logits."""

from __future__ import annotations

import hashlib
import struct

import torch
from torch import Tensor


def seed_of(*parts: object) -> int:
    """64 bits from what names a session."""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def die(seed: int, frame: int) -> float:
    """A number in (0, 1) that is the same on every machine, whenever it is asked for."""
    digest = hashlib.blake2b(struct.pack("<QQ", seed, frame), digest_size=4).digest()
    return (int.from_bytes(digest, "little") + 0.5) * 2.0**-32


def chosen(logits: Tensor, dice: list[float], *, temperature: float, top_k: int) -> Tensor:
    """One id of each row of ``logits`` (n, vocabulary): the likeliest, or by its die of the ``top_k`` likeliest."""
    if temperature <= 0.0:
        return logits.argmax(-1)
    values, ids = logits.float().topk(min(top_k, logits.shape[-1]), -1)
    sums = (values / temperature).softmax(-1).cumsum(-1)
    thrown = torch.tensor(dice, dtype=torch.float32, device=logits.device)[:, None] * sums[:, -1:]
    place = (sums <= thrown).sum(-1, keepdim=True).clamp_max(values.shape[-1] - 1)
    return ids.gather(-1, place)[:, 0]
