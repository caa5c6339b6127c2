"""What is said and called: three channels fused, one step of the backbone, and a token for each of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .rows import MindRows, keyword_of
from .shapes import Shape

ATTENTION = "nemotron_grouped"


def grouped_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, *, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """Attention as the library calls it, (n, heads, new, width), where several heads of ``query`` share one of ``key``.

    The library's own copies keys and values for each of them, for all that every slot has ever seen, in every step.
    Here the heads that share are rows of one query.
    """
    count, heads, new, width = query.shape
    shared = key.shape[1]
    rows = query.reshape(count, shared, heads // shared * new, width)
    mask = attention_mask.repeat(1, 1, heads // shared, 1)
    found = functional.scaled_dot_product_attention(rows, key, value, attn_mask=mask, scale=scaling)
    return found.reshape(count, heads, new, width).transpose(1, 2).contiguous(), None


class Mind:
    """``language`` is a ``NemotronHForCausalLM``, ``function_head`` its second head."""

    def __init__(self, language: Any, function_head: Any, shape: Shape, *, slots: int, capacity: int) -> None:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        self._backbone, self._head, self._function_head = language.model, language.lm_head, function_head
        self._shape = shape
        self.rows = MindRows(language.config, slots, capacity, language.lm_head.weight)
        self._keyword = keyword_of(language.model.forward)
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION, grouped_attention)
        language.config._attn_implementation = ATTENTION

    @property
    def words(self) -> int:
        """How many tokens there are."""
        return int(self._head.weight.shape[0])

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.rows.device

    def forget(self, slot: int, prompt: int) -> None:
        """Make one slot as if it had never been given anything; it will begin with ``prompt`` tokens."""
        self.rows.forget(slot, prompt)

    def embedded(self, ids: Sequence[int] | Tensor) -> Tensor:
        """Vectors of ids, (n, hidden)."""
        return self._backbone.embeddings(torch.as_tensor(ids, device=self.device))

    def fused(self, text: Sequence[int] | Tensor, heard: Tensor, function: Sequence[int] | Tensor) -> Tensor:
        """What the backbone is given: the tokens written last in both channels, and what is heard; each (n, …)."""
        shape = self._shape
        words = self.embedded(text) * shape.text_weight + heard * shape.audio_weight
        return words + self.embedded(function) * shape.function_weight

    def read(self, slot: int, fused: Tensor) -> None:
        """Take in what is known, (n, hidden), at once."""
        self._forward(fused[None], self.rows.read(slot, len(fused)))
        self.rows.commit(len(fused))

    def step(self, slots: Sequence[int], fused: Tensor) -> tuple[Tensor, Tensor]:
        """One step of ``slots``: (all slots, hidden) gives the logits of what is said and of the function channel."""
        hidden = self._forward(fused[:, None], self.rows.step(slots))[:, 0]
        self.rows.commit()
        return self._head(hidden), self._function_head(hidden)

    def _forward(self, embeds: Tensor, mask: Tensor) -> Tensor:
        positions = torch.zeros(embeds.shape[:2], dtype=torch.long, device=embeds.device)
        found = self._backbone(
            inputs_embeds=embeds,
            # The model has no positions; these only keep it from asking how long the cache is.
            position_ids=positions,
            attention_mask={"full_attention": mask, "linear_attention": None},
            use_cache=True,
            **{self._keyword: self.rows},
        )
        return found.last_hidden_state
