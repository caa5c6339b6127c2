"""Both transformers' weights, and the plain way through them. All linear maps are without bias."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ring import KvRing
from .shape import MoshiShape

NORM_FLOOR = 1e-8

Pick = Callable[[Tensor, int], Tensor]
"""Logits (slots, card) and the number of the stream to ids (slots,)."""


def normed(x: Tensor, gain: Tensor) -> Tensor:
    """Each row to a root mean square of one, in float32, times ``gain``."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + NORM_FLOOR)
    return (wide * gain.float()).to(x.dtype)


def turns_of(position: Tensor, head_size: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines (*position, head size / 2), float32.

    The angles are taken in float64: a session of a day has positions at which float32 is off by a visible angle.
    """
    step = torch.arange(head_size // 2, device=position.device, dtype=torch.float64)
    angle = position[..., None].double() * torch.exp(step * (-math.log(theta) * 2 / head_size))
    return angle.cos().float(), angle.sin().float()


def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """``x`` (…, head size) turned by pairs of neighbours."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    both = torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], -1)
    return both.flatten(-2).to(x.dtype)


def gated(x: Tensor) -> Tensor:
    """The two halves of ``x``: one opens the other."""
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


class TemporalLayer(nn.Module):
    """One layer over time."""

    def __init__(self, shape: MoshiShape) -> None:
        super().__init__()
        self.qkv = nn.Parameter(torch.empty(3 * shape.width, shape.width))
        self.out = nn.Parameter(torch.empty(shape.width, shape.width))
        self.gate_in = nn.Parameter(torch.empty(2 * shape.ffn, shape.width))
        self.gate_out = nn.Parameter(torch.empty(shape.width, shape.ffn))
        self.norm1 = nn.Parameter(torch.ones(shape.width))
        self.norm2 = nn.Parameter(torch.ones(shape.width))
        self._heads = (3, shape.heads, shape.head_size)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of rows ``x`` (…, width): each (…, heads, head size), not turned yet."""
        query, key, value = F.linear(normed(x, self.norm1), self.qkv).unflatten(-1, self._heads).unbind(-3)
        return query, key, value

    def join(self, x: Tensor, looked: Tensor) -> Tensor:
        """``x`` with what attention found (…, width), and through the second half."""
        x = x + F.linear(looked, self.out)
        return x + F.linear(gated(F.linear(normed(x, self.norm2), self.gate_in)), self.gate_out)


class Depth(nn.Module):
    """The transformer within a frame: text first, then code after code, each with weights of its own, no positions."""

    def __init__(self, shape: MoshiShape) -> None:
        super().__init__()
        steps, layers, width, ffn = shape.codebooks, shape.depth_layers, shape.depth_width, shape.depth_ffn

        def weight(*size: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*size))

        self.shape = shape
        self.enter = weight(steps, width, shape.width)
        self.text = weight(shape.text_card + 1, width)
        self.codes = weight(steps - 1, shape.code_card + 1, width)
        self.qkv = weight(layers, steps, 3 * width, width)
        self.out = weight(layers, steps, width, width)
        self.gate_in = weight(layers, steps, 2 * ffn, width)
        self.gate_out = weight(layers, steps, width, ffn)
        self.norm1 = nn.Parameter(torch.ones(layers, width))
        self.norm2 = nn.Parameter(torch.ones(layers, width))
        self.heads = weight(steps, shape.code_card, width)

    def forward(self, hidden: Tensor, text: Tensor, pick: Pick) -> Tensor:
        """The codes (slots, codebooks) that follow ``hidden`` (slots, width) and ``text`` (slots,)."""
        kept: list[tuple[list[Tensor], list[Tensor]]] = [([], []) for _ in range(self.shape.depth_layers)]
        made: list[Tensor] = []
        for step in range(self.shape.codebooks):
            before = F.embedding(made[-1], self.codes[step - 1]) if made else F.embedding(text, self.text)
            x = F.linear(hidden, self.enter[step]) + before
            for layer, past in enumerate(kept):
                x = self._layer(x, layer, step, past)
            made.append(pick(F.linear(x, self.heads[step]), step + 1))
        return torch.stack(made, 1)

    def _layer(self, x: Tensor, layer: int, step: int, past: tuple[list[Tensor], list[Tensor]]) -> Tensor:
        size = (3, self.shape.depth_heads, 1, self.shape.depth_head_size)
        query, key, value = F.linear(normed(x, self.norm1[layer]), self.qkv[layer, step]).unflatten(-1, size).unbind(1)
        keys, values = past
        keys.append(key)
        values.append(value)
        looked = F.scaled_dot_product_attention(query, torch.cat(keys, 2), torch.cat(values, 2))
        x = x + F.linear(looked.flatten(1), self.out[layer, step])
        inner = gated(F.linear(normed(x, self.norm2[layer]), self.gate_in[layer, step]))
        return x + F.linear(inner, self.gate_out[layer, step])


class MoshiModel(nn.Module):
    """All weights. They are empty until somebody fills them: ``fill_with_noise``, or a loader."""

    def __init__(self, shape: MoshiShape) -> None:
        super().__init__()
        self.shape = shape
        self.text = nn.Parameter(torch.empty(shape.text_card + 1, shape.width))
        self.codes = nn.Parameter(torch.empty(2 * shape.codebooks, shape.code_card + 1, shape.width))
        self.layers = nn.ModuleList(TemporalLayer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.width))
        self.head = nn.Parameter(torch.empty(shape.text_card, shape.width))
        self.depth = Depth(shape)
        self.requires_grad_(False)

    def fill_with_noise(self, seed: int = 0) -> None:
        """Random weights: real work, no meaning. Reproducible on one kind of device."""
        spread = 0.02 if self.shape.width >= 1024 else 0.15
        dice = torch.Generator(device=self.text.device).manual_seed(seed)
        for weight in self.parameters():
            # A gain has as many numbers as its row is wide, in one or two dimensions; all others are matrices.
            if weight.dim() == 1 or weight is self.depth.norm1 or weight is self.depth.norm2:
                weight.uniform_(0.5, 1.5, generator=dice)
            else:
                weight.normal_(0, spread, generator=dice)

    def embedded(self, ids: Tensor) -> Tensor:
        """Model inputs ``ids`` (…, streams) as rows (…, width)."""
        x = F.embedding(ids[..., 0], self.text)
        for stream in range(2 * self.shape.codebooks):
            x = x + F.embedding(ids[..., 1 + stream], self.codes[stream])
        return x

    def over_time(self, x: Tensor, rings: Sequence[KvRing], position: Tensor) -> Tensor:
        """One frame of every slot: rows ``x`` (slots, width) at ``position`` (slots,); normed rows, and kept."""
        cosine, sine = turns_of(position, self.shape.head_size, self.shape.rope_theta)
        seen = rings[0].seen_by_step(position[:, None])
        for layer, ring in zip(self.layers, rings, strict=True):
            query, key, value = layer.split(x)
            query, key = (turned(one, cosine[:, None], sine[:, None])[:, :, None] for one in (query, key))
            keys, values = ring.write(key, value[:, :, None], position[:, None])
            looked = F.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
            x = layer.join(x, looked.flatten(1))
        return normed(x, self.norm)

    def through_piece(self, x: Tensor, rings: Sequence[KvRing], slot: int, first: int) -> None:
        """A piece of known rows ``x`` (new, width) of a slot, from position ``first`` on: only what it keeps counts."""
        new = x.shape[0]
        position = torch.arange(first, first + new, device=x.device)
        cosine, sine = turns_of(position, self.shape.head_size, self.shape.rope_theta)
        seen = rings[0].seen_by_piece(first, new)
        for layer, ring in zip(self.layers, rings, strict=True):
            query, key, value = layer.split(x)
            query, key = (turned(one, cosine[:, None], sine[:, None]).transpose(0, 1) for one in (query, key))
            keys, values = ring.extend(slot, key, value.transpose(0, 1), first)
            looked = F.scaled_dot_product_attention(query[None], keys[None], values[None], attn_mask=seen)[0]
            x = layer.join(x, looked.transpose(0, 1).flatten(1))
