"""Reads the published files: both transformers, the codec, the text pieces.

The files are those of nvidia/personaplex-7b-v1, as they are downloaded, with ``voices.tgz`` unpacked beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..moshi.transformers import MoshiModel

MODEL_FILE = "model.safetensors"
CODEC_FILE = "tokenizer-e351c8d8-checkpoint125.safetensors"
TEXT_FILE = "tokenizer_spm_32k_3.model"
VOICES_FOLDER = "voices"
VOICES_FILE = "voices.tgz"


class WeightsMissing(FileNotFoundError):
    """A file, or something in one, is not there; the message says what to do."""


def check_folder(folder: Path) -> None:
    """Raises: WeightsMissing naming the first file that is not in ``folder``."""
    for name in (MODEL_FILE, CODEC_FILE, TEXT_FILE):
        if not (folder / name).is_file():
            raise WeightsMissing(
                f"{folder / name} is missing: accept the licence of nvidia/personaplex-7b-v1, download its files into "
                f"{folder}, or use the option weights=random"
            )
    if not any((folder / VOICES_FOLDER).glob("*.pt")):
        advice = f"unpack it: tar -xzf {VOICES_FILE}" if (folder / VOICES_FILE).is_file() else f"download {VOICES_FILE}"
        raise WeightsMissing(f"{folder / VOICES_FOLDER} holds no voice (*.pt): {advice}, in {folder}")


class _Tensors:
    """The tensors of one file, by name, brought to a device one at a time."""

    def __init__(self, path: Path, device: torch.device) -> None:
        from safetensors import safe_open

        self._path = path
        self._file = safe_open(str(path), framework="pt", device=str(device))
        self.names = frozenset(self._file.keys())

    def get(self, name: str, rows: int | None = None) -> Tensor:
        """That tensor, or its first ``rows`` rows only. Raises: WeightsMissing."""
        if name not in self.names:
            raise WeightsMissing(f"{self._path} holds no {name}: it is not a file of this model")
        found: Tensor = self._file.get_tensor(name) if rows is None else self._file.get_slice(name)[:rows]
        return found


def load_moshi(model: MoshiModel, path: Path) -> None:
    """Fill ``model`` from ``model.safetensors``. Raises: WeightsMissing, also for a tensor of another size.

    The depth transformer's steps beyond the model's own codes are left in the file.
    """
    tensors = _Tensors(path, model.text.device)
    with torch.no_grad():
        for target, name, rows in _places(model):
            found = tensors.get(name, rows)
            if found.numel() != target.numel():
                raise WeightsMissing(f"{path}: {name} is {tuple(found.shape)}; this model needs {tuple(target.shape)}")
            target.copy_(found.reshape(target.shape))


def _places(model: MoshiModel) -> Iterator[tuple[Tensor, str, int | None]]:
    """Each weight, the name it is published under, and how many rows of that it takes (``None``: all)."""
    yield model.text, "text_emb.weight", None
    for stream, codes in enumerate(model.codes):
        yield codes, f"emb.{stream}.weight", None
    for number, layer in enumerate(model.layers):
        at = f"transformer.layers.{number}"
        yield layer.qkv, f"{at}.self_attn.in_proj_weight", None
        yield layer.out, f"{at}.self_attn.out_proj.weight", None
        yield layer.gate_in, f"{at}.gating.linear_in.weight", None
        yield layer.gate_out, f"{at}.gating.linear_out.weight", None
        yield layer.norm1, f"{at}.norm1.alpha", None
        yield layer.norm2, f"{at}.norm2.alpha", None
    yield model.norm, "out_norm.alpha", None
    yield model.head, "text_linear.weight", None
    yield from _depth_places(model)


def _depth_places(model: MoshiModel) -> Iterator[tuple[Tensor, str, int | None]]:
    depth, shape = model.depth, model.shape
    steps, width = shape.codebooks, shape.depth_width
    yield depth.text, "depformer_text_emb.weight", None
    for step in range(steps):
        yield depth.enter[step], f"depformer_in.{step}.weight", None
        yield depth.heads[step], f"linears.{step}.weight", None
        if step:
            yield depth.codes[step - 1], f"depformer_emb.{step - 1}.weight", None
    for number in range(shape.depth_layers):
        at = f"depformer.layers.{number}"
        # All steps lie one below the other in these two, for 8 of them or for 16.
        yield depth.qkv[number], f"{at}.self_attn.in_proj_weight", steps * 3 * width
        yield depth.out[number], f"{at}.self_attn.out_proj.weight", steps * width
        for step in range(steps):
            yield depth.gate_in[number, step], f"{at}.gating.{step}.linear_in.weight", None
            yield depth.gate_out[number, step], f"{at}.gating.{step}.linear_out.weight", None
        yield depth.norm1[number], f"{at}.norm1.alpha", None
        yield depth.norm2[number], f"{at}.norm2.alpha", None


# -- the codec -----------------------------------------------------------------------------------------------------

_RENAMED = (
    (".conv.conv.conv.", ".conv."),
    (".convtr.convtr.convtr.", ".conv."),
    (".conv.conv.", ".conv."),
    (".convtr.convtr.", ".conv."),
    ("quantizer.rvq_first.vq.", "quantizer.semantic_residual_vector_quantizer."),
    ("quantizer.rvq_first.", "quantizer.semantic_residual_vector_quantizer."),
    ("quantizer.rvq_rest.vq.", "quantizer.acoustic_residual_vector_quantizer."),
    ("quantizer.rvq_rest.", "quantizer.acoustic_residual_vector_quantizer."),
    ("._codebook.", ".codebook."),
    ("._initialized", ".initialized"),
    (".embedding_sum", ".embed_sum"),
    ("encoder.model.", "encoder.layers."),
    ("decoder.model.", "decoder.layers."),
    ("_transformer.transformer.", "_transformer."),
    (".linear1.", ".mlp.fc1."),
    (".linear2.", ".mlp.fc2."),
    (".self_attn.out_proj.", ".self_attn.o_proj."),
    (".norm1.", ".input_layernorm."),
    (".norm2.", ".post_attention_layernorm."),
    (".layer_scale_1.", ".self_attn_layer_scale."),
    (".layer_scale_2.", ".mlp_layer_scale."),
)

_NESTED = (
    ("encoder.layers.", "encoder.encoder_seanet.layers."),
    ("decoder.layers.", "decoder.decoder_seanet.layers."),
    ("encoder_transformer.", "encoder.encoder_transformer."),
    ("decoder_transformer.", "decoder.decoder_transformer."),
    ("downsample.", "encoder.downsample."),
    ("upsample.", "decoder.upsample."),
)


def codec_name(published: str) -> str:
    """The library's flat name of a published tensor of the codec; attention in one piece keeps its ``in_proj``."""
    name = published
    for old, new in _RENAMED:
        name = name.replace(old, new)
    return name


def load_codec(model: Any, path: Path) -> None:
    """Fill a ``MimiModel`` of either layout of the library. Raises: WeightsMissing for what is not in the file."""
    tensors = _Tensors(path, torch.device("cpu"))
    wanted = model.state_dict()
    # The library keeps some constants of its layers beside the weights; no checkpoint has those.
    constants = {name for name in wanted if name.rsplit(".", 1)[-1] in {"stride", "kernel_size", "padding_total"}}
    is_nested = any(name.startswith("encoder.encoder_seanet.") for name in wanted)
    found: dict[str, Tensor] = {}
    for published in sorted(tensors.names):
        tensor = tensors.get(published)
        for name, part in _parts(codec_name(published), tensor, model.config):
            found[_nested(name) if is_nested else name] = part
    missing = sorted(set(wanted) - set(found) - constants)
    if missing:
        raise WeightsMissing(f"{path} holds no {missing[0]} and {len(missing) - 1} others: it is no file of this codec")
    with torch.no_grad():
        for name, tensor in wanted.items():
            if name in found:
                tensor.copy_(found[name].reshape(tensor.shape))
    for module in model.modules():
        # A codebook is worked out once and kept; the old one must not be.
        if getattr(module, "_embed", None) is not None:
            module._embed = None


def _nested(name: str) -> str:
    for old, new in _NESTED:
        if name.startswith(old):
            return new + name[len(old) :]
    return name


def _parts(name: str, tensor: Tensor, config: Any) -> Iterator[tuple[str, Tensor]]:
    """One tensor as the library has it: attention's three apart, query and key turned by half heads."""
    if not name.endswith("in_proj_weight"):
        yield name, tensor
        return
    for letter, part in zip("qkv", tensor.chunk(3), strict=True):
        if letter != "v":
            part = part.unflatten(0, (-1, config.head_dim // 2, 2)).transpose(1, 2).reshape(part.shape)
        yield name.replace("in_proj_weight", f"{letter}_proj.weight"), part


# -- text ----------------------------------------------------------------------------------------------------------


class TextPieces:
    """The published text pieces. Raises on opening: as sentencepiece does."""

    def __init__(self, path: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        pieces = self._pieces = SentencePieceProcessor(str(path))
        silent = (pieces.is_byte, pieces.is_control, pieces.is_unknown, pieces.is_unused)
        self._texts = [
            "" if any(test(number) for test in silent) else str(pieces.id_to_piece(number)).replace("\u2581", " ")
            for number in range(pieces.get_piece_size())
        ]

    def ids(self, text: str) -> list[int]:
        """The ids of ``text``."""
        return list(self._pieces.encode(text))

    def text(self, number: int) -> str:
        """What one id adds to what is said; a word's first one begins with a space."""
        return self._texts[number] if number < len(self._texts) else ""


class NumberedPieces:
    """Text pieces where there are none: a word of the persona is some id, and an id is said as its number."""

    def __init__(self, card: int) -> None:
        self._card = card

    def ids(self, text: str) -> list[int]:
        """One id a word."""
        return [4 + sum(word.encode()) % (self._card - 4) for word in text.split()]

    def text(self, number: int) -> str:
        """The number."""
        return f" {number}"
