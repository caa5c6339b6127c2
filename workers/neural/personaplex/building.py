"""Puts the engine's parts together from its options: weights on a device, and as many slots as there is room for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..mimi.codec import StreamingCodec
from ..mimi.noise import SMALL, empty_mimi, noisy_mimi
from ..moshi.sampling import Sampling
from ..moshi.shape import SHAPES, MoshiShape
from ..moshi.stepper import Stepper
from ..moshi.transformers import MoshiModel
from .beat import Beat
from .options import EngineOptions
from .voices import Voices
from .weights import (
    CODEC_FILE,
    MODEL_FILE,
    TEXT_FILE,
    VOICES_FOLDER,
    NumberedPieces,
    TextPieces,
    check_folder,
    load_codec,
    load_moshi,
)

SPARE_BYTES = 4 << 30
"""Left free on the device: graphs, scratch space of a long piece, the allocator's losses."""
SLOTS_WITHOUT_DEVICE = 2


class NoRoom(MemoryError):
    """Not even one slot fits on the device."""


@dataclass(slots=True)
class Parts:
    """What an engine consists of. ``voices`` is absent with random weights: there is nobody to sound like."""

    beat: Beat
    shape: MoshiShape
    pieces: TextPieces | NumberedPieces
    voices: Voices | None


def build(options: EngineOptions) -> Parts:
    """All parts, not recorded yet. Raises: WeightsMissing, NoRoom, and as torch does for a device it has not."""
    device = _device(options.device)
    if options.threads or device.type == "cuda":
        # Beside a GPU one thread does all there is to do; a pool of them would spin between two beats.
        torch.set_num_threads(options.threads or 1)
    # It plans anew for every length of a piece, for up to a second.
    torch.backends.cuda.enable_cudnn_sdp(False)
    shape = SHAPES[options.shape].with_window(options.window_frames)
    dtype = _dtype(options.dtype, device)
    folder = None if options.weights == "random" else Path(options.weights).expanduser()
    if folder is not None:
        check_folder(folder)
    model = _moshi(shape, dtype, device, folder, options.seed)
    codec_model = _codec(shape, folder, options.seed).to(device)
    if options.codec == "bf16":
        # Which code is nearest is asked in full precision.
        codec_model.to(torch.bfloat16).quantizer.float()
    store = {"auto": dtype, "bf16": torch.bfloat16, "int8": torch.int8}[options.kv]
    slots = _slots(options, shape, store, StreamingCodec(codec_model, 1).bytes_per_slot, device)
    stepper = stepper_class(options.path, device)(model, slots, store=store, sampling=Sampling(greedy=options.greedy))
    codec = StreamingCodec(codec_model, slots, codebooks=shape.codebooks)
    pieces = NumberedPieces(shape.text_card) if folder is None else TextPieces(folder / TEXT_FILE)
    voices = None if folder is None else Voices(folder / VOICES_FOLDER, shape)
    return Parts(Beat(stepper, codec), shape, pieces, voices)


def stepper_class(path: str, device: torch.device) -> type[Stepper]:
    """The stepper for ``path``: ``auto`` takes the fused one on a GPU with triton. Raises: ImportError."""
    if path == "plain" or (path == "auto" and device.type != "cuda"):
        return Stepper
    try:
        from ..moshi.fused import FusedStepper
    except ImportError:
        if path == "fused":
            raise
        return Stepper
    return FusedStepper


def bytes_per_slot(shape: MoshiShape, store: torch.dtype, codec_bytes: int) -> int:
    """What one slot takes of the device's memory."""
    row = shape.head_size * store.itemsize + (2 if store == torch.int8 else 0)
    return 2 * shape.layers * shape.heads * shape.window * row + codec_bytes


def _slots(
    options: EngineOptions, shape: MoshiShape, store: torch.dtype, codec_bytes: int, device: torch.device
) -> int:
    if options.slots != "auto":
        return int(options.slots)
    if device.type != "cuda":
        return SLOTS_WITHOUT_DEVICE
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    one = bytes_per_slot(shape, store, codec_bytes)
    slots = (free - SPARE_BYTES) // one
    if slots < 1:
        raise NoRoom(
            f"{free / 1e9:.1f} GB are free on {device}; one slot of {shape.window} frames takes {one / 1e9:.1f} GB and "
            f"{SPARE_BYTES / 1e9:.1f} GB stay free: shorten window_frames, or use kv=int8"
        )
    return int(slots)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        name = "bf16" if device.type == "cuda" else "fp32"
    return {"bf16": torch.bfloat16, "fp32": torch.float32}[name]


def _moshi(shape: MoshiShape, dtype: torch.dtype, device: torch.device, folder: Path | None, seed: int) -> MoshiModel:
    # Made in place and in its own numbers: a second copy of 15 GB would not fit everywhere.
    with torch.device("meta"):
        model = MoshiModel(shape)
    model = model.to(dtype).to_empty(device=device)
    if folder is None:
        model.fill_with_noise(seed)
    else:
        load_moshi(model, folder / MODEL_FILE)
    return model.eval()


def _codec(shape: MoshiShape, folder: Path | None, seed: int) -> Any:
    is_small = shape.code_card == SHAPES["tiny"].code_card
    if folder is None:
        return noisy_mimi(small=is_small, seed=seed)
    model = empty_mimi(**(SMALL if is_small else {}))
    load_codec(model, folder / CODEC_FILE)
    return model
