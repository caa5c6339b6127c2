"""The step through ``kernels``: the same weights, rings and dice as the plain one, in a third of the launches.

Attention reads the columns that a slot has filled, and none of a slot that does not run, so one recorded graph costs
what the sessions' contexts cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import triton
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

from . import kernels
from .ring import INT8_LEAST, KvRing
from .stepper import Stepper
from .transformers import NORM_FLOOR, turns_of

TILE = 64
MOST_PARTS = 16
BLOCK = 512
"""So many queries beyond the first window look at once: each block sees a window and itself."""
PROGRAMS = 8192
"""Enough programs to fill the largest device: with few slots a head's columns are shared between several."""

_power_of_2: Callable[[int], int] = triton.next_power_of_2


class FusedStepper(Stepper):
    """A ``Stepper`` for GPUs. Results equal the plain one's up to rounding, and do not depend on neighbours."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        shape, slots = self.shape, self.slots
        wanted = PROGRAMS // (slots * shape.heads) + 1
        self._parts = max(2, min(MOST_PARTS, _power_of_2(wanted)))
        self._ids_made = self._ids(slots, shape.made)
        self._query = self._rows(slots, shape.width)
        self._looked = self._rows(slots, shape.width)
        self._sums = self._floats(slots, shape.heads, self._parts, shape.head_size)
        self._marks = self._floats(slots, shape.heads, self._parts, 2)
        self._steps = _power_of_2(shape.codebooks)
        past = (2, shape.depth_layers, slots, shape.depth_heads, self._steps, shape.depth_head_size)
        self._past = torch.zeros(past, dtype=self.dtype, device=self.device)
        self._depth_x, self._depth_y, self._depth_looked = (self._rows(slots, shape.depth_width) for _ in range(3))

    def _rows(self, *size: int) -> Tensor:
        return torch.zeros(size, dtype=self.dtype, device=self.device)

    def _floats(self, *size: int) -> Tensor:
        return torch.zeros(size, dtype=torch.float32, device=self.device)

    # -- a step ----------------------------------------------------------------------------------------------------

    def _through(self, ids: Tensor, keys: Tensor) -> Tensor:
        hidden = self._over_time(ids)
        self._draw(F.linear(hidden, self.model.head), keys, 0)
        self._within(hidden, keys)
        return self._ids_made

    def _over_time(self, ids: Tensor) -> Tensor:
        x = self._embedded(ids)
        cosine, sine = turns_of(self.position, self.shape.head_size, self.shape.rope_theta)
        column = self.position % self.rings[0].columns

        def look(ring: KvRing, qkv: Tensor) -> Tensor:
            self._turn_and_keep(qkv, cosine, sine, column, self._query, ring, None)
            return self._attend(ring)

        hidden = self._layers(x, look)
        self.hidden.copy_(hidden)
        return hidden

    def _layers(self, x: Tensor, look: Callable[[KvRing, Tensor], Tensor], *, is_asked: bool = True) -> Tensor:
        """All layers over rows ``x``; ``look`` keeps key and value and answers what the query found.

        Unless ``is_asked``, only what is kept counts: the last layer ends there.
        """
        model, y = self.model, torch.empty_like(x)
        gains = [layer.norm1 for layer in model.layers] + [model.norm]
        self._add_and_norm(x, None, gains[0], y)
        for number, (layer, ring) in enumerate(zip(model.layers, self.rings, strict=True)):
            looked = look(ring, F.linear(y, layer.qkv))
            if not is_asked and layer is model.layers[-1]:
                break
            self._add_and_norm(x, F.linear(looked, layer.out), layer.norm2, y)
            inner = self._gate(F.linear(y, layer.gate_in))
            self._add_and_norm(x, F.linear(inner, layer.gate_out), gains[number + 1], y)
        return y

    def _within(self, hidden: Tensor, keys: Tensor) -> None:
        """The depth transformer: one code after the other into ``_ids_made``."""
        depth, shape = self.model.depth, self.shape
        width, heads, size = shape.depth_width, shape.depth_heads, shape.depth_head_size
        x, y, looked = self._depth_x, self._depth_y, self._depth_looked
        entering = F.linear(hidden, depth.enter.flatten(0, 1))
        for step in range(shape.codebooks):
            table = depth.text if step == 0 else depth.codes[step - 1]
            kernels.enter_and_norm[(self.slots,)](
                *(entering[:, step * width :], entering.stride(0), table),
                *(self._ids_made[:, step:], self._ids_made.stride(0), depth.norm1[0], x, y, width),
                BLOCK=_power_of_2(width),
                FLOOR=NORM_FLOOR,
            )
            for layer in range(shape.depth_layers):
                kernels.attend_in_frame[(self.slots, heads)](
                    F.linear(y, depth.qkv[layer, step]),
                    *(self._past[0, layer], self._past[1, layer], looked, step, size**-0.5 * kernels.LOG2_E),
                    HEADS=heads,
                    STEPS=self._steps,
                    HEAD=size,
                    num_warps=1,
                )
                self._add_and_norm(x, F.linear(looked, depth.out[layer, step]), depth.norm2[layer], y)
                inner = self._gate(F.linear(y, depth.gate_in[layer, step]))
                following = depth.norm1[(layer + 1) % shape.depth_layers]
                self._add_and_norm(x, F.linear(inner, depth.gate_out[layer, step]), following, y)
            self._draw(F.linear(x, depth.heads[step]), keys, step + 1)

    # -- a piece ---------------------------------------------------------------------------------------------------

    def _through_piece(self, rows: Tensor, slot: int, first: int) -> None:
        end = first + len(rows)
        if end > self.shape.window:
            super()._through_piece(rows, slot, first)
            return
        position = torch.arange(first, end, device=self.device)
        cosine, sine = turns_of(position, self.shape.head_size, self.shape.rope_theta)
        query = torch.empty_like(rows)
        bias = causal_lower_right(len(rows), end)

        def look(ring: KvRing, qkv: Tensor) -> Tensor:
            self._turn_and_keep(qkv, cosine, sine, position, query, ring, slot)
            keys, values = ring.read(slot, end)
            asked = query.view(len(rows), self.shape.heads, -1).transpose(0, 1)[None]
            found = F.scaled_dot_product_attention(asked, keys[None], values[None], attn_mask=bias)
            return found[0].transpose(0, 1).flatten(1)

        self._layers(rows.contiguous().clone(), look, is_asked=False)

    def _through_whole(self, rows: Tensor, slot: int) -> None:
        """All of a session in one pass: what is older than the window when its end is reached is not kept."""
        length, window, heads = len(rows), self.shape.window, self.shape.heads
        position = torch.arange(length, device=self.device)
        cosine, sine = turns_of(position, self.shape.head_size, self.shape.rope_theta)
        query = torch.empty_like(rows)
        # One for all layers: the rows that fall out of the ring are looked at by those after them.
        aside = KvRing(
            *(1, heads, length, self.shape.head_size),
            store=self.rings[0].keys.dtype,
            compute=self.dtype,
            device=self.device,
        )
        blocks = [(start, min(start + BLOCK, length)) for start in range(window, length, BLOCK)]
        masks = {end - start: self._banded(end - start) for start, end in blocks}

        def look(ring: KvRing, qkv: Tensor) -> Tensor:
            self._turn_and_keep(qkv, cosine, sine, position, query, aside, 0)
            keys, values = (one[None] for one in aside.read(0, length))
            ring.keep_end(slot, aside, length)
            asked = query.view(length, heads, -1).transpose(0, 1)[None]
            until = min(length, window)
            first = (one[:, :, :until] for one in (asked, keys, values))
            found = [F.scaled_dot_product_attention(*first, is_causal=True)]
            for start, end in blocks:
                seen = slice(start - window + 1, end)
                found.append(
                    F.scaled_dot_product_attention(
                        asked[:, :, start:end], keys[:, :, seen], values[:, :, seen], attn_mask=masks[end - start]
                    )
                )
            return torch.cat(found, 2)[0].transpose(0, 1).flatten(1)

        self._layers(rows.contiguous().clone(), look, is_asked=False)

    def _banded(self, rows: int) -> Tensor:
        """What ``rows`` queries after a full window see of it and of each other, to be added to their scores."""
        wide = rows + self.shape.window - 1
        # The kernels want rows that begin at a multiple of 16 numbers.
        mask = torch.full((rows, -(-wide // 16) * 16), float("-inf"), dtype=self.dtype, device=self.device)
        ahead = torch.arange(wide, device=self.device) - torch.arange(rows, device=self.device)[:, None]
        mask[:, :wide].masked_fill_((ahead >= 0) & (ahead < self.shape.window), 0.0)
        return mask[:, :wide]

    # -- kernels ---------------------------------------------------------------------------------------------------

    def _embedded(self, ids: Tensor) -> Tensor:
        model, width = self.model, self.shape.width
        x = torch.empty(len(ids), width, dtype=self.dtype, device=self.device)
        grid = (len(ids), triton.cdiv(width, 1024))
        books = (self.shape.streams, self.shape.code_card + 1, width)
        kernels.embed[grid](ids.contiguous(), model.text, model.codes, x, *books, BLOCK=1024)
        return x

    def _add_and_norm(self, x: Tensor, more: Tensor | None, gain: Tensor, y: Tensor) -> None:
        width = x.shape[-1]
        kernels.add_and_norm[(len(x),)](
            *(x, x if more is None else more, gain, y, width),
            BLOCK=_power_of_2(width),
            ADDS=more is not None,
            FLOOR=NORM_FLOOR,
            num_warps=8 if width > 2048 else 4,
        )

    def _gate(self, both: Tensor) -> Tensor:
        width = both.shape[1] // 2
        y = torch.empty(len(both), width, dtype=self.dtype, device=self.device)
        kernels.gate[(len(both), triton.cdiv(width, 1024))](both, y, width, BLOCK=1024)
        return y

    def _turn_and_keep(
        self, qkv: Tensor, cosine: Tensor, sine: Tensor, column: Tensor, query: Tensor, ring: KvRing, only: int | None
    ) -> None:
        scales = ring.scales if ring.scales is not None else (ring.keys, ring.values)
        kernels.turn_and_keep[(len(qkv), self.shape.heads)](
            *(qkv, cosine, sine, column, query, ring.keys, ring.values, scales[0], scales[1]),
            *(0 if only is None else only, self.shape.heads, ring.columns),
            HEAD=self.shape.head_size,
            IS_PIECE=only is not None,
            IS_INT8=ring.scales is not None,
            LEAST=INT8_LEAST,
            num_warps=1,
        )

    def _attend(self, ring: KvRing) -> Tensor:
        heads, size, parts = self.shape.heads, self.shape.head_size, self._parts
        scale = size**-0.5 * kernels.LOG2_E
        grid = (self.slots, heads, parts)
        where = (self.position, self.run, self._sums, self._marks, heads, ring.columns, ring.window, scale)
        is_spare = ring.columns > ring.window
        if ring.scales is None:
            kernels.attend[grid](
                *(self._query, ring.keys, ring.values, *where),
                PARTS=parts,
                HEAD=size,
                TILE=TILE,
                STAGES=2,
                IS_SPARE=is_spare,
                num_warps=4,
            )
        else:
            pairs = (ring.keys.view(torch.int16), ring.values.view(torch.int16))
            kernels.attend_int8[grid](
                *(self._query, *pairs, ring.scales[0], ring.scales[1], *where),
                PARTS=parts,
                HEAD=size,
                TILE=TILE,
                STAGES=3,
                IS_SPARE=is_spare,
                ON_DEVICE=self.device.type == "cuda",
                num_warps=4,
            )
        kernels.merge[(self.slots, heads)](
            self._sums, self._marks, self._looked, heads, PARTS=parts, HEAD=size, num_warps=1
        )
        return self._looked

    def _draw(self, logits: Tensor, keys: Tensor, stream: int) -> None:
        how, card = self.sampling, logits.shape[1]
        temperature, top = (how.text_temperature, how.text_top) if stream == 0 else (how.code_temperature, how.code_top)
        kernels.draw[(self.slots,)](
            *(logits, keys, self._forced, self._ids_made, stream),
            self.shape.made,
            *(temperature, min(top, card), card),
            BLOCK=_power_of_2(card),
            GREEDY=how.greedy,
            BITS=16 if logits.dtype == torch.bfloat16 else 32,
            num_warps=16 if card > 8192 else 4,
        )
