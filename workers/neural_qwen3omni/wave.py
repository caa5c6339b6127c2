"""Codes to sound, a few frames at a time: the sound is that of all codes decoded at once.

transformers decode in chunks with some codes before them as context: nearly the same sound, with a gap of samples at
every seam. Here each layer keeps what it needs of what came before: attention its window, a convolution its left
samples. The last frame of a stretch is held back in part, as it depends on the next one; at the end that part is
dropped, as it is when all is decoded at once.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .rows import CacheIgnored, keyword_of


@dataclass(frozen=True, slots=True)
class Heard:
    """What is kept between two stretches of one turn. Never changed: each stretch gives a new one."""

    frames: int = 0
    attention: tuple[tuple[Tensor, Tensor], ...] = ()
    left: dict[int, Tensor] = field(default_factory=dict)


class _Window:
    """Stands where transformers expect a cache: the keys and values of the last frames."""

    def __init__(self, before: tuple[tuple[Tensor, Tensor], ...]) -> None:
        self._before = before
        self.after: list[tuple[Tensor, Tensor]] = []

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if self._before:
            old_keys, old_values = self._before[layer_idx]
            keys, values = torch.cat((old_keys, keys), 2), torch.cat((old_values, values), 2)
        self.after.append((keys, values))
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._before[layer_idx][0].shape[2] if self._before else 0


class Sounder:
    """A ``Code2Wav`` of transformers that can be fed piece by piece. It is changed for that, and used here only."""

    def __init__(self, model: Any) -> None:
        """Raises: NotImplementedError for a structure other than the published one."""
        self._model = model
        self._keyword = keyword_of(model.pre_transformer.forward)
        self._left: dict[int, Tensor] | None = None
        self._after: dict[int, Tensor] = {}
        self.frame_samples = int(model.total_upsample)
        number = 0
        for part in model.modules():
            kind = type(part).__name__
            if kind.endswith("CausalConvNet"):
                if part.stride != 1:
                    raise NotImplementedError(f"a causal convolution with stride {part.stride}")
                streamed = self._convolved
            elif kind.endswith("CausalTransConvNet") and part.left_pad:
                if part.left_pad != part.conv.stride[0]:
                    raise NotImplementedError("a transposed convolution whose kernel is not twice its stride")
                streamed = self._spread
            else:
                continue
            part.forward = functools.partial(streamed, number, part, part.forward)
            number += 1

    @torch.inference_mode()
    def whole(self, codes: Tensor) -> Tensor:
        """All of (groups, frames) at once, as transformers do it; (samples,) float32."""
        found: Tensor = self._model(codes[None])
        return found.reshape(-1).float()

    @torch.inference_mode()
    def heard(self, before: Heard, codes: Tensor) -> tuple[Tensor, Heard]:
        """The sound of the next (groups, frames), (samples,) float32, and what to keep for those after them."""
        self._left, self._after = before.left, {}
        try:
            hidden, attention = self._attended(before, codes)
            for blocks in self._model.upsample:
                for block in blocks:
                    hidden = block(hidden)
            for block in self._model.decoder:
                hidden = block(hidden)
        finally:
            self._left = None
        after = Heard(before.frames + codes.shape[-1], attention, {**before.left, **self._after})
        return hidden.clamp(-1, 1).reshape(-1).float(), after

    def _attended(self, before: Heard, codes: Tensor) -> tuple[Tensor, tuple[tuple[Tensor, Tensor], ...]]:
        model, frames = self._model.pre_transformer, codes.shape[-1]
        window = _Window(before.attention)
        kept = window.get_seq_length()
        position = before.frames + torch.arange(frames, device=codes.device)
        seen = before.frames - kept + torch.arange(kept + frames, device=codes.device)
        mask = (seen <= position[:, None]) & (seen > position[:, None] - model.window_size)
        hidden = self._model.code_embedding(codes[None] + self._model.code_offset).mean(1)
        found = model(
            inputs_embeds=hidden,
            attention_mask={"full_attention": mask[None, None], "sliding_attention": mask[None, None]},
            position_ids=position[None],
            use_cache=True,
            **{self._keyword: window},
        ).last_hidden_state
        if len(window.after) != len(model.layers):
            raise CacheIgnored(f"{len(window.after)} of {len(model.layers)} layers used the cache")
        most = model.window_size - 1
        attention = tuple((keys[:, :, -most:], values[:, :, -most:]) for keys, values in window.after)
        return found.permute(0, 2, 1), attention

    def _convolved(self, number: int, part: Any, forward: Any, hidden: Tensor) -> Tensor:
        if self._left is None:
            return forward(hidden)
        left = self._left.get(number)
        if left is None:
            left = hidden.new_zeros(*hidden.shape[:-1], part.padding)
        joined = torch.cat((left, hidden), -1)
        self._after[number] = joined[..., joined.shape[-1] - part.padding :]
        if not hidden.shape[-1]:
            return hidden.new_zeros(hidden.shape[0], part.conv.out_channels, 0)
        return part.conv(joined)

    def _spread(self, number: int, part: Any, forward: Any, hidden: Tensor) -> Tensor:
        """What lies between two inputs depends on both: the last one is kept for what comes between it and the next."""
        if self._left is None:
            return forward(hidden)
        left = self._left.get(number)
        joined = hidden if left is None else torch.cat((left, hidden), -1)
        self._after[number] = joined[..., -1:]
        if joined.shape[-1] < 2:
            return hidden.new_zeros(hidden.shape[0], part.conv.out_channels, 0)
        return forward(joined)
