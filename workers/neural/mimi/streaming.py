"""Causal layers that remember, slot by slot, what the library's layers would have seen to their left.

A layer works either on one frame of all slots, of which some do not run, or on a longer piece of one slot. Weights are
the library's own modules; only the memory is here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..moshi.ring import KvRing


@dataclass(frozen=True, slots=True)
class Whose:
    """Whom a call is for: all slots, those of ``run`` (slots,) in earnest, or ``slot`` alone.

    ``is_fresh`` (slots,) marks those that have seen nothing yet.
    """

    run: Tensor
    is_fresh: Tensor
    slot: int | None = None

    def read(self, state: Tensor) -> Tensor:
        """The rows of ``state`` (slots, …) that the call works on."""
        return state if self.slot is None else state[self.slot : self.slot + 1]

    def write(self, state: Tensor, new: Tensor) -> None:
        """Keep ``new`` for the slots that run."""
        if self.slot is not None:
            state[self.slot : self.slot + 1] = new
            return
        run = self.run.view(-1, *[1] * (state.dim() - 1))
        state.copy_(torch.where(run, new, state))


class Layer(Protocol):
    """One layer with memory. ``x`` is (rows, channels, time)."""

    def __call__(self, x: Tensor, whose: Whose) -> Tensor:
        """What follows from ``x`` and what was before it."""

    def reset(self, slot: int) -> None:
        """Forget what ``slot`` saw."""

    def take(self, slot: int, other: Any) -> None:
        """Let ``slot`` have seen what slot 0 of ``other``, the same layer for other slots, saw."""

    @property
    def bytes_per_slot(self) -> int:
        """What one slot's memory takes."""


class Stateless:
    """A layer of the library that looks at one moment only."""

    bytes_per_slot = 0

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __call__(self, x: Tensor, whose: Whose) -> Tensor:
        found: Tensor = self._module(x)
        return found

    def reset(self, slot: int) -> None:
        """Nothing to forget."""

    def take(self, slot: int, other: Stateless) -> None:
        """Nothing to take."""


class CausalConvolution:
    """Keeps the samples to the left that its kernel reaches. ``repeats``: before the first there is the first."""

    def __init__(self, convolution: nn.Conv1d, slots: int, *, repeats: bool = False) -> None:
        self._convolution = convolution
        self._repeats = repeats
        reach = (convolution.kernel_size[0] - 1) * convolution.dilation[0] + 1 - convolution.stride[0]
        self._left = convolution.weight.new_zeros(slots, convolution.in_channels, reach)

    def __call__(self, x: Tensor, whose: Whose) -> Tensor:
        left = whose.read(self._left)
        if self._repeats:
            left = torch.where(whose.read(whose.is_fresh)[:, None, None], x[..., :1], left)
        both = torch.cat([left, x], -1)
        whose.write(self._left, both[..., both.shape[-1] - self._left.shape[-1] :])
        found: Tensor = self._convolution(both)
        return found

    def reset(self, slot: int) -> None:
        """Silence to the left."""
        self._left[slot].zero_()

    def take(self, slot: int, other: CausalConvolution) -> None:
        """What lies to the left of slot 0 of ``other``."""
        self._left[slot] = other._left[0]

    @property
    def bytes_per_slot(self) -> int:
        """What one slot's memory takes."""
        return self._left[0].numel() * self._left.element_size()


class CausalUpsampling:
    """A transposed convolution: what it writes beyond its frame is added to the next one."""

    def __init__(self, convolution: nn.ConvTranspose1d, slots: int) -> None:
        self._convolution = convolution
        over = convolution.kernel_size[0] - convolution.stride[0]
        self._tail = convolution.weight.new_zeros(slots, convolution.out_channels, over)

    def __call__(self, x: Tensor, whose: Whose) -> Tensor:
        made = self._convolution
        # The bias would be added twice where two frames overlap.
        y = F.conv_transpose1d(x, made.weight, None, made.stride, groups=made.groups)
        over = self._tail.shape[-1]
        y = torch.cat([y[..., :over] + whose.read(self._tail), y[..., over:]], -1)
        whose.write(self._tail, y[..., y.shape[-1] - over :])
        y = y[..., : y.shape[-1] - over]
        return y if made.bias is None else y + made.bias[:, None]

    def reset(self, slot: int) -> None:
        """Nothing left over."""
        self._tail[slot].zero_()

    def take(self, slot: int, other: CausalUpsampling) -> None:
        """What slot 0 of ``other`` has left over."""
        self._tail[slot] = other._tail[0]

    @property
    def bytes_per_slot(self) -> int:
        """What one slot's memory takes."""
        return self._tail[0].numel() * self._tail.element_size()


class Residual:
    """Layers whose result is added to what went in."""

    def __init__(self, layers: list[Layer]) -> None:
        self._layers = layers

    def __call__(self, x: Tensor, whose: Whose) -> Tensor:
        y = x
        for layer in self._layers:
            y = layer(y, whose)
        return x + y

    def reset(self, slot: int) -> None:
        """Forget what ``slot`` saw."""
        for layer in self._layers:
            layer.reset(slot)

    def take(self, slot: int, other: Residual) -> None:
        """Layer by layer."""
        for mine, theirs in zip(self._layers, other._layers, strict=True):
            mine.take(slot, theirs)

    @property
    def bytes_per_slot(self) -> int:
        """What one slot's memory takes."""
        return sum(layer.bytes_per_slot for layer in self._layers)


class WindowedTransformer:
    """A stack of the library's transformer layers over a window, each slot at its own position."""

    # Several positions are written in one go, beside the window that the first of them sees.
    _SPARE = 6

    def __init__(self, stack: Any, config: Any, slots: int) -> None:
        self._layers = list(stack.layers)
        self._config = config
        weight = self._layers[0].self_attn.q_proj.weight
        self._rings = [
            KvRing(
                *(slots, config.num_key_value_heads, config.sliding_window + self._SPARE, config.head_dim),
                window=config.sliding_window,
                store=weight.dtype,
                compute=weight.dtype,
                device=weight.device,
            )
            for _ in self._layers
        ]
        self.position = torch.zeros(slots, dtype=torch.long, device=weight.device)
        step = torch.arange(config.head_dim // 2, device=weight.device, dtype=torch.float64)
        theta = (config.rope_parameters or {}).get("rope_theta", 10_000.0)
        self._turn = torch.exp(step * (-math.log(theta) * 2 / config.head_dim))
        # The place of the one slot of a longer piece, known here so that nobody has to ask the device.
        self._first: dict[int, int] = {}

    def __call__(self, x: Tensor, whose: Whose) -> Tensor:
        h = x.transpose(1, 2)
        new = h.shape[1]
        ahead = torch.arange(new, device=h.device)
        position = whose.read(self.position)[:, None] + ahead
        angle = position[..., None].double() * self._turn
        turn = angle.cos().float()[:, None], angle.sin().float()[:, None]
        first = self._first.get(whose.slot, 0) if whose.slot is not None else 0
        seen = self._rings[0].seen_by_step(position) if whose.slot is None else self._rings[0].seen_by_piece(first, new)
        for layer, ring in zip(self._layers, self._rings, strict=True):
            h = self._through(layer, ring, h, turn, position, seen, whose.slot, first)
        if whose.slot is None:
            self.position.add_(whose.run * new)
        else:
            self._first[whose.slot] = first + new
            self.position[whose.slot].fill_(first + new)
        return h.transpose(1, 2)

    def reset(self, slot: int) -> None:
        """Begin at position 0 with nothing to see."""
        self.position[slot].zero_()
        self._first[slot] = 0

    def take(self, slot: int, other: WindowedTransformer) -> None:
        """The window and the place of slot 0 of ``other``."""
        for mine, theirs in zip(self._rings, other._rings, strict=True):
            mine.take(slot, theirs)
        self.position[slot] = other.position[0]
        self._first[slot] = other._first.get(0, 0)

    @property
    def bytes_per_slot(self) -> int:
        """What one slot's memory takes."""
        return sum(ring.bytes_per_slot for ring in self._rings)

    def _through(
        self,
        layer: Any,
        ring: KvRing,
        h: Tensor,
        turn: tuple[Tensor, Tensor],
        position: Tensor,
        seen: Tensor,
        slot: int | None,
        first: int,
    ) -> Tensor:
        attention, size = layer.self_attn, self._config.head_dim
        x = layer.input_layernorm(h)
        query, key, value = (
            part(x).unflatten(-1, (-1, size)).transpose(1, 2)
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        query, key = _turned(query, turn), _turned(key, turn)
        if slot is None:
            keys, values = ring.write(key, value, position)
        else:
            keys, values = (one[None] for one in ring.extend(slot, key[0], value[0], first))
        looked = F.scaled_dot_product_attention(query, keys, values, attn_mask=seen, enable_gqa=self._shares_heads)
        h = h + layer.self_attn_layer_scale(attention.o_proj(looked.transpose(1, 2).flatten(2)))
        return h + layer.mlp_layer_scale(layer.mlp(layer.post_attention_layernorm(h)))

    @property
    def _shares_heads(self) -> bool:
        return self._config.num_key_value_heads != self._config.num_attention_heads


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turned by pairs that lie half a head apart, as the library keeps them."""
    cosine, sine = turn
    low, high = x.float().chunk(2, -1)
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1).to(x.dtype)
