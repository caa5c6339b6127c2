"""Mimi without a checkpoint: the real size or a small one, with weights that make every code count."""

from __future__ import annotations

from typing import Any

import torch

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "intermediate_size": 128,
    "num_filters": 8,
    "codebook_size": 64,
    "codebook_dim": 16,
    "vector_quantization_hidden_dimension": 16,
    "num_quantizers": 8,
    "upsample_groups": 64,
}
"""Sizes of a small one that still has frames of 1920 samples."""


def import_mimi() -> None:
    """Load the library's code, which takes seconds, before it is needed."""
    from transformers import MimiConfig, MimiModel

    assert MimiConfig and MimiModel


def empty_mimi(**sizes: Any) -> Any:
    """A ``MimiModel`` of the library's own initialisation; ``sizes`` as in its configuration."""
    from transformers import MimiConfig, MimiModel

    return MimiModel(MimiConfig(**sizes)).eval()


def noisy_mimi(*, small: bool, seed: int = 0) -> Any:
    """A codec whose weights are noise. Left as they are initialised, all codebooks would be zero and all codes 0."""
    dice = torch.Generator().manual_seed(seed)
    model = empty_mimi(**(SMALL if small else {}))
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("embed_sum"):
                buffer.normal_(generator=dice)
            elif name.endswith("cluster_usage"):
                buffer.fill_(1)
        for name, weight in model.named_parameters():
            if "layer_scale" in name:
                weight.fill_(0.3)
            elif name.endswith("bias"):
                # The library draws these from dice of its own, otherwise in every process.
                weight.uniform_(-0.05, 0.05, generator=dice)
            elif weight.dim() > 1:
                # Large enough for the signal to reach the end of thirty layers.
                weight.normal_(0, 1.4 * (0.5 / weight[0].numel()) ** 0.5, generator=dice)
    return model
