"""How large the model is, and how its channels are weighed: as published, or small enough for a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .vocabulary import ByteVocabulary

LANGUAGE_11B: Mapping[str, Any] = {
    "vocab_size": 131_072,
    "hidden_size": 4480,
    "intermediate_size": 15_680,
    "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 80,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "chunk_size": 128,
}
"""The backbone, nvidia/NVIDIA-Nemotron-Nano-9B-v2."""

_LANGUAGE_TINY: Mapping[str, Any] = {
    "vocab_size": ByteVocabulary.size,
    "hidden_size": 64,
    "intermediate_size": 96,
    "hybrid_override_pattern": "M*M-",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "ssm_state_size": 16,
    "n_groups": 2,
    "conv_kernel": 4,
    "chunk_size": 16,
}

ENCODER_11B: Mapping[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 8,
    "intermediate_size": 4096,
    "num_mel_bins": 128,
    "conv_kernel_size": 9,
    "subsampling_conv_channels": 256,
    "sliding_window": 71,
    "attention_bias": False,
    "convolution_bias": False,
    "scale_input": False,
}

_ENCODER_TINY: Mapping[str, Any] = {
    **ENCODER_11B,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "num_mel_bins": 16,
    "conv_kernel_size": 5,
    "subsampling_conv_channels": 8,
    # Shorter than any test, so that what leaves the window matters.
    "sliding_window": 9,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """``encoder`` and ``language`` are configurations of transformers; the weights are those of the three channels."""

    encoder: Any
    language: Any
    text_weight: float = 1.0
    audio_weight: float = 1.0
    function_weight: float = 2.0


def encoder_config(sizes: Mapping[str, Any]) -> Any:
    """A ``NemotronAsrStreamingEncoderConfig`` that sees nothing of what is to come."""
    from transformers import NemotronAsrStreamingEncoderConfig

    return NemotronAsrStreamingEncoderConfig(**sizes, subsampling_factor=8, default_num_lookahead_tokens=0)


def language_config(sizes: Mapping[str, Any]) -> Any:
    """A ``NemotronHConfig``."""
    from transformers import NemotronHConfig

    return NemotronHConfig(**sizes)


def shape_of(name: str) -> Shape:
    """``11b`` or ``tiny``."""
    encoder, language = (ENCODER_11B, LANGUAGE_11B) if name == "11b" else (_ENCODER_TINY, _LANGUAGE_TINY)
    return Shape(encoder_config(encoder), language_config(language))
