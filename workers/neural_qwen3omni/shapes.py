"""A model of the published structure that is small enough for a test: every special id lies inside a small vocabulary.

Its words are drawn from 95 printable characters (``vocabulary.ToyVocabulary``). Nothing it says means anything, but all
of it is computed by the code that runs the published weights.
"""

from __future__ import annotations

from typing import Any

CHARACTERS = 95
"""The ids from 0 on: printable ASCII from the space on."""
NEWLINE, SYSTEM, USER, ASSISTANT = 95, 96, 97, 98
IM_START, IM_END, AUDIO, AUDIO_START, AUDIO_END = 99, 100, 101, 102, 103
IMAGE, VIDEO, VISION_START, VISION_END = 104, 105, 106, 107
TTS_PAD, TTS_BOS, TTS_EOS, TOOL_OPEN, TOOL_CLOSE = 108, 109, 110, 111, 112
TEXT_VOCABULARY = 128

CODES = 32
"""Ids of a codebook."""
GROUPS = 4
"""Codebooks of a frame."""
CODEC_VOCABULARY = 1088
"""The last 1024 are special and never drawn, as in the published model, but for the one that ends the speech."""
CODEC_PAD, CODEC_BOS, CODEC_EOS, NOTHINK, THINK_BOS, THINK_EOS = 1000, 1001, 1002, 1003, 1004, 1005
SPEAKERS = {"ethan": 1010, "chelsie": 1011, "aiden": 1012}

_ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3], "mrope_interleaved": True}
_PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}


def tiny_config() -> Any:
    """A ``Qwen3OmniMoeConfig``: about a million parameters."""
    from transformers import Qwen3OmniMoeConfig

    return Qwen3OmniMoeConfig(
        thinker_config=_thinker(),
        talker_config=_talker(),
        code2wav_config={
            "codebook_size": CODES,
            "hidden_size": 32,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_quantizers": GROUPS,
            # Shorter than an answer, so that what leaves the window matters.
            "sliding_window": 6,
            "decoder_dim": 64,
            "layer_scale_initial_scale": 0.5,
            "rope_parameters": _PLAIN_ROPE,
        },
        im_start_token_id=IM_START,
        im_end_token_id=IM_END,
        tts_pad_token_id=TTS_PAD,
        tts_bos_token_id=TTS_BOS,
        tts_eos_token_id=TTS_EOS,
        system_token_id=SYSTEM,
        user_token_id=USER,
        assistant_token_id=ASSISTANT,
    )


def _thinker() -> dict[str, Any]:
    return {
        "text_config": {
            "vocab_size": TEXT_VOCABULARY,
            "hidden_size": 64,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "moe_intermediate_size": 32,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": _ROPE,
        },
        "audio_config": {
            "num_mel_bins": 128,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "d_model": 32,
            "output_dim": 64,
            "downsample_hidden_size": 16,
        },
        "vision_config": {
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 2,
            "out_hidden_size": 64,
            "deepstack_visual_indexes": [0],
            "num_position_embeddings": 16,
        },
        "audio_token_id": AUDIO,
        "image_token_id": IMAGE,
        "video_token_id": VIDEO,
        "audio_start_token_id": AUDIO_START,
        "vision_start_token_id": VISION_START,
        "user_token_id": USER,
    }


def _talker() -> dict[str, Any]:
    return {
        "text_config": {
            "vocab_size": CODEC_VOCABULARY,
            "hidden_size": 48,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": _ROPE,
        },
        "code_predictor_config": {
            "vocab_size": CODES,
            "hidden_size": 48,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "num_code_groups": GROUPS,
            "rope_parameters": _PLAIN_ROPE,
        },
        "num_code_groups": GROUPS,
        "thinker_hidden_size": 64,
        "accept_hidden_layer": 2,
        "codec_eos_token_id": CODEC_EOS,
        "codec_nothink_id": NOTHINK,
        "codec_think_bos_id": THINK_BOS,
        "codec_think_eos_id": THINK_EOS,
        "codec_pad_id": CODEC_PAD,
        "codec_bos_id": CODEC_BOS,
        "audio_token_id": AUDIO,
        "image_token_id": IMAGE,
        "video_token_id": VIDEO,
        "vision_start_token_id": VISION_START,
        "audio_start_token_id": AUDIO_START,
        "speaker_id": SPEAKERS,
        "spatial_merge_size": 2,
    }
