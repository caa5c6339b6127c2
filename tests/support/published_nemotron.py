"""Writes a small Nemotron VoiceChat in the published layout, by hand: the loader's own table is not used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from workers.neural_nemotron.loading import Loaded

BYTES = 256
SPECIAL = ("<unk>", "<s>", "</s>", *(f"<SPECIAL_{number}>" for number in range(3, 32)))


def write_folder(loaded: Loaded, folder: Path, *, files: int = 2, without: str = "", **changed: Tensor) -> None:
    """All files: the model's in ``folder``, the backbone's sizes and the tokenizer in ``folder/language``."""
    write_config(loaded, folder)
    write_language(loaded, folder / "language")
    write_tensors(loaded, folder, files=files, without=without, changed=changed)


def write_config(loaded: Loaded, folder: Path, **changed: Any) -> None:
    """``config.json`` as it is written after a training; ``changed`` are paths below ``model.stt.model``."""
    encoder = loaded.encoder.config
    stt: dict[str, Any] = {
        "pretrained_llm": "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
        "duplex_text_channel_weight": loaded.shape.text_weight,
        "duplex_user_channel_weight": loaded.shape.audio_weight,
        "duplex_function_channel_weight": loaded.shape.function_weight,
        "use_function_head": True,
        "perception": {
            "output_dim": loaded.language.config.hidden_size,
            "preprocessor": {
                "sample_rate": 16000,
                "normalize": "NA",
                "window_size": 0.025,
                "window_stride": 0.01,
                "window": "hann",
                "features": encoder.num_mel_bins,
                "n_fft": 512,
                "log": True,
                "frame_splicing": 1,
                "dither": 1e-05,
                "pad_to": 0,
            },
            "encoder": {
                "feat_in": encoder.num_mel_bins,
                "n_layers": encoder.num_hidden_layers,
                "d_model": encoder.hidden_size,
                "subsampling": "dw_striding",
                "subsampling_factor": 8,
                "subsampling_conv_channels": encoder.subsampling_conv_channels,
                "causal_downsampling": True,
                "ff_expansion_factor": encoder.intermediate_size // encoder.hidden_size,
                "self_attention_model": "rel_pos",
                "n_heads": encoder.num_attention_heads,
                "att_context_size": [encoder.sliding_window - 1, 0],
                "att_context_style": "chunked_limited",
                "xscaling": encoder.scale_input,
                "conv_kernel_size": encoder.conv_kernel_size,
                "conv_norm_type": "layer_norm",
                "conv_context_size": "causal",
                "use_bias": encoder.attention_bias,
            },
            "modality_adapter": {"d_model": encoder.hidden_size},
        },
    }
    for path, value in changed.items():
        *way, last = path.split("__")
        inner = stt
        for key in way:
            inner = inner[key]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    config = {"data": {"frame_length": 0.08}, "model": {"stt": {"model": stt}, "speech_generation": {"model": {}}}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))


def write_language(loaded: Loaded, folder: Path) -> None:
    """What is published with the backbone, without its weights."""
    config = loaded.language.config
    folder.mkdir(parents=True, exist_ok=True)
    letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-"}
    sizes = {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "".join(letters[kind] for kind in config.layers_block_type),
        "num_hidden_layers": len(config.layers_block_type),
        "time_step_limit": [0.0, float("inf")],
    }
    for name in (
        *("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim"),
        *("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel", "chunk_size"),
    ):
        sizes[name] = getattr(config, name)
    (folder / "config.json").write_text(json.dumps(sizes))
    write_tokenizer(folder)


def write_tokenizer(folder: Path, *, without: str = "") -> None:
    """``tokenizer.json`` with 32 special tokens and one for each byte."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    special = [name if name != without else "<SPECIAL_left_out>" for name in SPECIAL]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: place for place, name in enumerate((*special, *letters))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in special])
    tokenizer.save(str(folder / "tokenizer.json"))


def write_tensors(
    loaded: Loaded, folder: Path, *, files: int = 2, without: str = "", changed: Mapping[str, Tensor] = {}
) -> None:
    """The tensors in so many files, with those of parts that do not run here beside them. ``files`` 1: no index."""
    tensors = {name: numbers.detach().clone().contiguous() for name, numbers in _tensors(loaded)}
    tensors |= changed
    tensors.pop(without, None)
    if files == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    where: dict[str, str] = {}
    names = sorted(tensors)
    for number in range(files):
        file = f"model-{number + 1:05}-of-{files:05}.safetensors"
        part = names[number::files]
        save_file({name: tensors[name] for name in part}, folder / file)
        where |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


def _tensors(loaded: Loaded) -> Iterator[tuple[str, Tensor]]:
    perception = "stt_model.perception."
    yield perception + "preprocessor.featurizer.window", torch.zeros(400)
    yield perception + "preprocessor.featurizer.fb", torch.zeros(1, 16, 257)
    yield perception + "proj.weight", loaded.projection.weight
    yield perception + "proj.bias", loaded.projection.bias
    yield from _conformer(loaded.encoder, perception + "encoder.")
    yield "stt_model.embed_tokens.weight", loaded.language.model.embeddings.weight
    yield "stt_model.lm_head.weight", loaded.language.lm_head.weight
    yield "stt_model.function_head.weight", loaded.function_head.weight
    yield "stt_model.llm.norm_f.weight", loaded.language.model.norm_f.weight
    for number, layer in enumerate(loaded.language.model.layers):
        at = f"stt_model.llm.layers.{number}."
        yield at + "norm.weight", layer.norm.weight
        mixer = layer.mixer
        if layer.block_type == "linear_attention":
            for name in ("A_log", "D", "dt_bias"):
                yield f"{at}mixer.{name}", getattr(mixer, name)
            yield at + "mixer.in_proj.weight", mixer.in_proj.weight
            yield at + "mixer.out_proj.weight", mixer.out_proj.weight
            yield at + "mixer.conv1d.weight", mixer.conv1d.weight
            yield at + "mixer.conv1d.bias", mixer.conv1d.bias
            yield at + "mixer.norm.weight", mixer.norm.weight
        elif layer.block_type == "full_attention":
            for letter in "qkvo":
                yield f"{at}mixer.{letter}_proj.weight", getattr(mixer, f"{letter}_proj").weight
        else:
            yield at + "mixer.up_proj.weight", mixer.up_proj.weight
            yield at + "mixer.down_proj.weight", mixer.down_proj.weight
    yield "stt_model.rnnt_decoder.prediction.embed.weight", torch.zeros(3, 2)
    yield "stt_model.rnnt_joint.enc.weight", torch.zeros(2, 2)
    yield "tts_model.tts_model.embed.weight", torch.zeros(2, 2)


def _conformer(encoder: Any, at: str) -> Iterator[tuple[str, Tensor]]:
    subsampling = encoder.subsampling
    convolutions = [subsampling.conv_in]
    for stage in subsampling.layers:
        convolutions += [stage.depthwise_conv, stage.pointwise_conv]
    for place, convolution in zip((0, 2, 3, 5, 6), convolutions, strict=True):
        yield f"{at}pre_encode.conv.{place}.weight", convolution.weight
        yield f"{at}pre_encode.conv.{place}.bias", convolution.bias
    yield at + "pre_encode.out.weight", subsampling.linear.weight
    yield at + "pre_encode.out.bias", subsampling.linear.bias
    for number, layer in enumerate(encoder.layers):
        here = f"{at}layers.{number}."
        for name in ("norm_feed_forward1", "norm_self_att", "norm_conv", "norm_feed_forward2", "norm_out"):
            yield f"{here}{name}.weight", getattr(layer, name).weight
            yield f"{here}{name}.bias", getattr(layer, name).bias
        for name in ("feed_forward1", "feed_forward2"):
            yield f"{here}{name}.linear1.weight", getattr(layer, name).linear1.weight
            yield f"{here}{name}.linear2.weight", getattr(layer, name).linear2.weight
        attention = layer.self_attn
        theirs = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "o_proj", "pos": "relative_k_proj"}
        for name, ours in theirs.items():
            yield f"{here}self_attn.linear_{name}.weight", getattr(attention, ours).weight
        yield here + "self_attn.pos_bias_u", attention.bias_u
        yield here + "self_attn.pos_bias_v", attention.bias_v
        for name in ("pointwise_conv1", "depthwise_conv", "pointwise_conv2"):
            yield f"{here}conv.{name}.weight", getattr(layer.conv, name).weight
        yield here + "conv.batch_norm.weight", layer.conv.norm.weight
        yield here + "conv.batch_norm.bias", layer.conv.norm.bias
