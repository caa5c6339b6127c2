"""The layout of the published files: what the configuration says, what each tensor is called, and that all fit.

``config.json`` is a training configuration with the model's parts under ``model.stt.model``; the tensors lie in one or
several files of safetensors. Of these the talker, the codec and the transcriber are left alone: they begin with
``tts_model.`` and ``stt_model.rnnt_``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import NAME
from .shapes import LANGUAGE_11B, Shape, encoder_config, language_config

if TYPE_CHECKING:
    from .loading import Loaded

CONFIG_FILE, WHOLE_FILE, INDEX_FILE = "config.json", "model.safetensors", "model.safetensors.index.json"
OURS = ("stt_model.",)
OTHERS = ("stt_model.rnnt_", "stt_model.perception.preprocessor.")
"""Tensors of parts that do not run here, and of what is computed anew."""


class Unfit(Exception):
    """These files are not those of this model, or not whole; the message names the file and what in it."""


def check_files(folder: Path) -> None:
    """Raises: Unfit naming the first file that is not in ``folder``."""
    if not (folder / CONFIG_FILE).is_file():
        raise Unfit(f"{folder / CONFIG_FILE} is missing: put all files of {NAME} there")
    for path in sorted(set(_files(folder).values())):
        if not path.is_file():
            raise Unfit(f"{path} is missing: put all files of {NAME} there")


def _files(folder: Path) -> dict[str, Path]:
    """Where each tensor is; a single file stands under the empty name."""
    index = folder / INDEX_FILE
    if not index.is_file():
        return {"": folder / WHOLE_FILE}
    names: Mapping[str, str] = _json(index).get("weight_map", {})
    if not names:
        raise Unfit(f"{index} has no weight_map")
    return {name: folder / file for name, file in names.items()}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise Unfit(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Unfit(f"{path} is no JSON object")
    return found


# -- the configuration ---------------------------------------------------------------------------------------------

_FIXED: Mapping[str, tuple[object, ...]] = {
    "fuse_method": (None, "add"),
    "use_function_head": (None, True),
    "predict_user_text": (None, False),
    "perception.preprocessor.sample_rate": (16_000,),
    "perception.preprocessor.window_size": (0.025,),
    "perception.preprocessor.window_stride": (0.01,),
    "perception.preprocessor.window": (None, "hann"),
    "perception.preprocessor.n_fft": (None, 512),
    "perception.preprocessor.normalize": (None, "NA", "none", ""),
    "perception.preprocessor.preemph": (None, 0.97),
    "perception.preprocessor.frame_splicing": (None, 1),
    "perception.encoder.causal_downsampling": (True,),
    "perception.encoder.subsampling": ("dw_striding",),
    "perception.encoder.subsampling_factor": (8,),
    "perception.encoder.self_attention_model": (None, "rel_pos"),
    "perception.encoder.conv_norm_type": ("layer_norm",),
}
"""What the code computes, and no other way."""


def read_shape(folder: Path, language: Path) -> Shape:
    """The sizes of the model in ``folder``, its backbone's from ``language`` where that has them. Raises: Unfit."""
    path = folder / CONFIG_FILE
    stt = _json(path)
    for key in ("model", "stt", "model"):
        stt = stt.get(key) or {}
    where = f"{path}: model.stt.model"
    if not stt.get("perception"):
        raise Unfit(f"{where}.perception is missing: it is not a file of {NAME}")
    for name, allowed in _FIXED.items():
        found = _at(stt, name)
        if found not in allowed:
            wanted = " or ".join(repr(one) for one in allowed if one is not None)
            raise Unfit(f"{where}.{name} is {found!r}; this engine computes {wanted} only")
    weights = {
        f"{ours}_weight": float(stt.get(f"duplex_{theirs}_channel_weight") or 1.0)
        for ours, theirs in (("text", "text"), ("audio", "user"), ("function", "function"))
    }
    sizes = _encoder_sizes(stt, where)
    return Shape(encoder_config(sizes), _language(language), **weights)


def _at(values: Mapping[str, Any], name: str) -> object:
    found: Any = values
    for key in name.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _encoder_sizes(stt: Mapping[str, Any], where: str) -> dict[str, Any]:
    encoder, preprocessor = stt["perception"]["encoder"], stt["perception"]["preprocessor"]
    context = encoder.get("att_context_size")
    if isinstance(context, list) and context and isinstance(context[0], list):
        context = context[0]
    if not (isinstance(context, list) and len(context) == 2 and context[0] > 0 and context[1] == 0):
        raise Unfit(
            f"{where}.perception.encoder.att_context_size is {context!r}; this engine computes [past, 0] only: a frame "
            f"is heard without waiting for the next"
        )
    try:
        width, kernel = encoder["d_model"], encoder["conv_kernel_size"]
        if encoder.get("conv_context_size") not in ("causal", [kernel - 1, 0]):
            found = encoder.get("conv_context_size")
            raise Unfit(
                f"{where}.perception.encoder.conv_context_size is {found!r}; this engine computes 'causal' only"
            )
        return {
            "hidden_size": width,
            "num_hidden_layers": encoder["n_layers"],
            "num_attention_heads": encoder["n_heads"],
            "intermediate_size": width * encoder.get("ff_expansion_factor", 4),
            "num_mel_bins": preprocessor["features"],
            "conv_kernel_size": kernel,
            "subsampling_conv_channels": encoder["subsampling_conv_channels"],
            "sliding_window": context[0] + 1,
            "attention_bias": encoder.get("use_bias", True),
            "convolution_bias": encoder.get("use_bias", True),
            "scale_input": encoder.get("xscaling", True),
        }
    except KeyError as error:
        raise Unfit(f"{where}.perception lacks {error.args[0]}") from None


def _language(folder: Path) -> Any:
    path = folder / CONFIG_FILE
    found = _json(path) if path.is_file() else {}
    if found.get("model_type") != "nemotron_h":
        return language_config(LANGUAGE_11B)
    lacking = sorted(set(LANGUAGE_11B) - set(found) - {"chunk_size"})
    if lacking:
        raise Unfit(f"{path} lacks {lacking[0]}: it is not that of a backbone")
    return language_config({name: found[name] for name in LANGUAGE_11B if name in found})


# -- the tensors ---------------------------------------------------------------------------------------------------

_CONFORMER = (
    (r"^subsampling\.conv_in\.", r"pre_encode.conv.0."),
    (r"^subsampling\.linear\.", r"pre_encode.out."),
    (r"\.self_attn\.([qkv])_proj\.", r".self_attn.linear_\1."),
    (r"\.self_attn\.o_proj\.", r".self_attn.linear_out."),
    (r"\.self_attn\.relative_k_proj\.", r".self_attn.linear_pos."),
    (r"\.self_attn\.bias_([uv])$", r".self_attn.pos_bias_\1"),
    (r"\.conv\.norm\.", r".conv.batch_norm."),
)
_STAGE = re.compile(r"^subsampling\.layers\.(\d+)\.(depthwise|pointwise)_conv\.")


def encoder_name(ours: str) -> str:
    """What a tensor of the library's encoder is published as, behind ``stt_model.perception.encoder.``."""
    if stage := _STAGE.match(ours):
        # In the published list each stage is followed by its rectifier, which has no numbers.
        place = 2 + 3 * int(stage[1]) + (stage[2] == "pointwise")
        return f"pre_encode.conv.{place}.{ours[stage.end() :]}"
    for pattern, name in _CONFORMER:
        ours = re.sub(pattern, name, ours)
    return ours


def places(loaded: Loaded) -> Iterator[tuple[str, Any]]:
    """Each tensor's published name, and where it goes."""
    for name, numbers in loaded.encoder.named_parameters():
        yield f"stt_model.perception.encoder.{encoder_name(name)}", numbers
    for name, numbers in loaded.projection.named_parameters():
        yield f"stt_model.perception.proj.{name}", numbers
    for name, numbers in loaded.language.model.named_parameters():
        if name == "embeddings.weight":
            yield "stt_model.embed_tokens.weight", numbers
        else:
            yield f"stt_model.llm.{name}", numbers
    yield "stt_model.lm_head.weight", loaded.language.lm_head.weight
    yield "stt_model.function_head.weight", loaded.function_head.weight


def fill(loaded: Loaded, folder: Path) -> None:
    """Read every number of the model. Raises: Unfit for one that is missing, misshapen, or nobody's."""
    import torch
    from safetensors import safe_open

    targets = dict(places(loaded))
    found: set[str] = set()
    files = sorted(set(_files(folder).values()))
    for path in files:
        with safe_open(str(path), framework="pt", device=str(loaded.device)) as tensors, torch.no_grad():
            for name in list(tensors.keys()):
                if not name.startswith(OURS) or name.startswith(OTHERS):
                    continue
                target = targets.get(name)
                if target is None:
                    raise Unfit(f"{path} holds {name}, which this engine would leave out: is it another model's?")
                shape = tuple(tensors.get_slice(name).get_shape())
                if shape != tuple(target.shape):
                    raise Unfit(f"{path}: {name} is {shape}; this model needs {tuple(target.shape)}")
                target.copy_(tensors.get_tensor(name))
                found.add(name)
    if missing := sorted(set(targets) - found):
        where = _files(folder).get(missing[0], files[-1] if len(files) == 1 else folder)
        raise Unfit(f"{where} holds no {missing[0]}, and {len(missing) - 1} others are missing")
