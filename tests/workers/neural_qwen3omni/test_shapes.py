"""The tiny model has the published structure, and its special ids do not collide."""

from __future__ import annotations

import pytest

from workers.neural_qwen3omni import shapes

pytestmark = pytest.mark.neural


def test_special_ids_lie_inside_the_vocabulary_and_apart() -> None:
    names = [name for name in vars(shapes) if name.isupper() and isinstance(getattr(shapes, name), int)]
    counts = {"CHARACTERS", "TEXT_VOCABULARY", "CODES", "GROUPS", "CODEC_VOCABULARY"}
    codec = {"CODEC_PAD", "CODEC_BOS", "CODEC_EOS", "NOTHINK", "THINK_BOS", "THINK_EOS"}
    text = [getattr(shapes, name) for name in names if name not in counts | codec]
    assert len(set(text)) == len(text) and all(shapes.CHARACTERS <= one < shapes.TEXT_VOCABULARY for one in text)
    codes = [*(getattr(shapes, name) for name in codec), *shapes.SPEAKERS.values()]
    assert len(set(codes)) == len(codes)
    assert all(shapes.CODEC_VOCABULARY - 1024 <= one < shapes.CODEC_VOCABULARY for one in codes)


def test_the_configuration_fits_together() -> None:
    config = shapes.tiny_config()
    assert config.code2wav_config.num_quantizers == config.talker_config.num_code_groups == shapes.GROUPS
    assert config.talker_config.accept_hidden_layer < config.thinker_config.text_config.num_hidden_layers
    assert config.talker_config.thinker_hidden_size == config.thinker_config.text_config.hidden_size
