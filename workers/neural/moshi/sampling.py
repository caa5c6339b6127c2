"""Drawing ids so that a draw depends on nothing but its own slot: its seed, its frame, the stream, and the logits.

The dice are a hash of these numbers: equal on every device, in every row of a batch, and after a replay.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

_WORD = 0xFFFF_FFFF
_GOLDEN = 0x9E37_79B9


@dataclass(frozen=True, slots=True)
class Sampling:
    """How ids are drawn; ``greedy`` takes the likeliest. The defaults are those the model was published with."""

    text_temperature: float = 0.7
    text_top: int = 25
    code_temperature: float = 0.8
    code_top: int = 250
    greedy: bool = False


def seed_of(*parts: object) -> tuple[int, int]:
    """Two 32-bit words from what names a session."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def keys_of(seeds: Tensor, frames: Tensor, streams: int) -> Tensor:
    """A key for each draw of a frame: ``seeds`` (slots, 2), ``frames`` (slots,), the answer (slots, streams)."""
    key = _mixed(_mixed(seeds[:, 0] ^ _GOLDEN) ^ seeds[:, 1])
    key = _mixed(key ^ (frames & _WORD))
    stream = torch.arange(1, streams + 1, device=seeds.device)
    return _mixed(key[:, None] ^ (stream * _GOLDEN & _WORD)[None])


def drawn(logits: Tensor, key: Tensor, temperature: float, top: int, *, greedy: bool) -> Tensor:
    """One id of each row of ``logits`` (slots, card) by the keys (slots,), among the ``top`` likeliest; (slots,)."""
    logits = logits.float()
    if greedy:
        return logits.argmax(-1)
    least = logits.topk(min(top, logits.shape[-1]), -1).values[:, -1:]
    item = torch.arange(logits.shape[-1], device=logits.device) * _GOLDEN & _WORD
    word = _mixed(key[:, None] ^ item[None])
    # 24 bits, never 0 and never 1: both logarithms stay finite.
    uniform = ((word >> 8).float() + 0.5) * 2.0**-24
    gumbel = -torch.log(-torch.log(uniform))
    return torch.where(logits >= least, logits / temperature + gumbel, float("-inf")).argmax(-1)


def _mixed(word: Tensor) -> Tensor:
    """A 32-bit mixer on int64, in which products may overflow: their low words are right all the same."""
    word = word ^ (word >> 16)
    word = word * 0x7FEB_352D & _WORD
    word = word ^ (word >> 15)
    word = word * 0x846C_A68B & _WORD
    return word ^ (word >> 16)
