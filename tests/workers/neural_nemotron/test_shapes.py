"""The sizes of the published model are those that were published."""

from __future__ import annotations

import pytest
import torch

from workers.neural_nemotron.shapes import shape_of

pytestmark = pytest.mark.neural


def test_the_backbone_is_as_large_as_it_was_published() -> None:
    from transformers import NemotronHForCausalLM

    shape = shape_of("11b")
    with torch.device("meta"):
        language = NemotronHForCausalLM._from_config(shape.language)
    kinds = shape.language.layers_block_type
    assert [kinds.count(kind) for kind in ("linear_attention", "mlp", "full_attention")] == [27, 25, 4]
    names = {name: tuple(numbers.shape) for name, numbers in language.named_parameters()}
    assert names["model.layers.0.mixer.in_proj.weight"] == (22_656, 4480)
    assert names["model.layers.14.mixer.k_proj.weight"] == (1024, 4480)
    assert round(sum(numbers.numel() for numbers in language.parameters()) / 1e9, 2) == 8.89


def test_the_conformer_is_as_large_as_it_was_published() -> None:
    from transformers import NemotronAsrStreamingEncoder

    shape = shape_of("11b")
    with torch.device("meta"):
        encoder = NemotronAsrStreamingEncoder._from_config(shape.encoder)
    # With two of the projection and two of the window and the filters, which are computed: 640 are published.
    assert len(list(encoder.parameters())) == 636
    assert round(sum(numbers.numel() for numbers in encoder.parameters()) / 1e9, 1) == 0.6
    assert shape.encoder.sliding_window == 71 and shape.encoder.default_num_lookahead_tokens == 0


def test_the_tiny_one_has_every_kind_of_layer() -> None:
    shape = shape_of("tiny")
    assert shape.language.layers_block_type == ["linear_attention", "full_attention", "linear_attention", "mlp"]
    assert (shape.text_weight, shape.audio_weight, shape.function_weight) == (1.0, 1.0, 2.0)
