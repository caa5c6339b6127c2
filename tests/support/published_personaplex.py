"""Writes a small model in the layout of the published files, by hand: the loader's own table is not used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from workers.neural.moshi.transformers import MoshiModel


def write_model(model: MoshiModel, path: Path, *, steps: int = 16, without: str = "") -> None:
    """``steps`` of the depth transformer are in the file, those beyond the model's own codes as noise."""
    save_file({name: part for name, part in _model(model, steps) if name != without}, path)


def _model(model: MoshiModel, steps: int) -> Iterator[tuple[str, Tensor]]:
    yield "text_emb.weight", model.text.clone()
    for stream in range(16):
        yield f"emb.{stream}.weight", model.codes[stream].clone()
    for number, layer in enumerate(model.layers):
        at = f"transformer.layers.{number}."
        yield at + "self_attn.in_proj_weight", layer.qkv.clone()
        yield at + "self_attn.out_proj.weight", layer.out.clone()
        yield at + "gating.linear_in.weight", layer.gate_in.clone()
        yield at + "gating.linear_out.weight", layer.gate_out.clone()
        yield at + "norm1.alpha", layer.norm1.clone().view(1, 1, -1)
        yield at + "norm2.alpha", layer.norm2.clone().view(1, 1, -1)
    yield "out_norm.alpha", model.norm.clone().view(1, 1, -1)
    yield "text_linear.weight", model.head.clone()
    yield from _depth(model.depth, steps)


def _depth(depth: Any, steps: int) -> Iterator[tuple[str, Tensor]]:
    def step(weights: Tensor, number: int) -> Tensor:
        return weights[number].clone() if number < len(weights) else torch.randn_like(weights[0])

    def stacked(weights: Tensor) -> Tensor:
        return torch.cat([step(weights, number) for number in range(steps)])

    yield "depformer_text_emb.weight", depth.text.clone()
    for number in range(steps):
        yield f"depformer_in.{number}.weight", step(depth.enter, number)
        yield f"linears.{number}.weight", step(depth.heads, number)
        if number < steps - 1:
            yield f"depformer_emb.{number}.weight", step(depth.codes, number)
    for layer in range(len(depth.norm1)):
        at = f"depformer.layers.{layer}."
        yield at + "self_attn.in_proj_weight", stacked(depth.qkv[layer])
        yield at + "self_attn.out_proj.weight", stacked(depth.out[layer])
        for number in range(steps):
            yield f"{at}gating.{number}.linear_in.weight", step(depth.gate_in[layer], number)
            yield f"{at}gating.{number}.linear_out.weight", step(depth.gate_out[layer], number)
        yield at + "norm1.alpha", depth.norm1[layer].clone().view(1, 1, -1)
        yield at + "norm2.alpha", depth.norm2[layer].clone().view(1, 1, -1)


def write_codec(model: Any, path: Path, *, without: str = "") -> None:
    """A ``MimiModel`` under the names of its authors: convolutions wrapped twice, attention in one piece."""
    kinds = dict(model.named_modules())
    found: dict[str, Tensor] = {}
    apart: dict[str, dict[str, Tensor]] = {}
    constants = {"stride", "kernel_size", "padding_total"}
    for name, tensor in model.state_dict().items():
        if name.rsplit(".", 1)[-1] in constants:
            continue
        flat = name.replace("encoder.encoder_seanet", "encoder").replace("decoder.decoder_seanet", "decoder")
        for nested in ("encoder.encoder_transformer", "decoder.decoder_transformer"):
            flat = flat.replace(nested, nested.split(".")[1])
        flat = flat.replace("encoder.downsample", "downsample").replace("decoder.upsample", "upsample")
        if "_proj.weight" in flat and "self_attn" in flat and ".o_proj" not in flat:
            layer, letter = flat.split(".self_attn.")[0], flat.split(".self_attn.")[1][0]
            apart.setdefault(layer, {})[letter] = tensor
            continue
        found[_authors_name(flat, kinds[name.rsplit(".", 1)[0]])] = tensor.clone().contiguous()
    for layer, parts in apart.items():
        whole = [_interleaved(parts[letter], model.config.head_dim) for letter in "qk"] + [parts["v"]]
        at = layer.replace("_transformer.", "_transformer.transformer.")
        found[f"{at}.self_attn.in_proj_weight"] = torch.cat(whole)
    save_file({name: part for name, part in found.items() if name != without}, path)


def _authors_name(flat: str, module: nn.Module) -> str:
    inner = "convtr.convtr" if isinstance(module, nn.ConvTranspose1d) else "conv.conv"
    if flat.startswith(("encoder.layers", "decoder.layers")):
        flat = flat.replace(".layers.", ".model.", 1)
        return flat.replace(".conv.", f".{inner}.")
    if flat.startswith(("downsample", "upsample")):
        return flat.replace(".conv.", f".{inner}.{inner.split('.')[0]}.")
    for new, old in (
        ("_transformer.layers.", "_transformer.transformer.layers."),
        ("self_attn.o_proj", "self_attn.out_proj"),
        ("input_layernorm", "norm1"),
        ("post_attention_layernorm", "norm2"),
        ("self_attn_layer_scale", "layer_scale_1"),
        ("mlp_layer_scale", "layer_scale_2"),
        ("mlp.fc1", "linear1"),
        ("mlp.fc2", "linear2"),
        ("semantic_residual_vector_quantizer.layers", "rvq_first.vq.layers"),
        ("acoustic_residual_vector_quantizer.layers", "rvq_rest.vq.layers"),
        ("semantic_residual_vector_quantizer", "rvq_first"),
        ("acoustic_residual_vector_quantizer", "rvq_rest"),
        ("codebook.initialized", "_codebook._initialized"),
        ("codebook.embed_sum", "_codebook.embedding_sum"),
        ("codebook.cluster_usage", "_codebook.cluster_usage"),
    ):
        flat = flat.replace(new, old)
    return flat


def _interleaved(rows: Tensor, head_size: int) -> Tensor:
    """From halves of a head to pairs of neighbours, which is how the authors turn them."""
    return rows.view(-1, 2, head_size // 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)


def write_text_pieces(path: Path, card: int) -> None:
    """Text pieces of a few sentences, ``card`` of them at most."""
    import sentencepiece

    sentences = ["hello there how are you today", "<system> be kind and brief <system>", "good morning to all of you"]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences * 5),
        model_prefix=str(path.with_suffix("")),
        vocab_size=min(card, 60),
        model_type="bpe",
        pad_id=3,
        minloglevel=2,
    )
    path.with_suffix(".model").rename(path)


def write_voice(path: Path, rows: Tensor, around: Tensor) -> None:
    """A voice's file."""
    torch.save({"embeddings": rows[:, None, None], "cache": around[None]}, path)
