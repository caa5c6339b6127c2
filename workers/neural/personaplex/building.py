"""Puts the engine's parts together from its options: weights on a device, and as many slots as there is room for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..keeping import Keeping, files_of
from ..mimi.codec import StreamingCodec
from ..mimi.noise import SMALL, empty_mimi, import_mimi, noisy_mimi
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
from .windows import SPARE_FRAMES, WindowTable

SPARE_BYTES = 4 << 30
"""Left free on the device: graphs, scratch space of a long piece, the allocator's losses."""
STANDBY_BYTES = 1 << 30
"""The same for a process that waits beside this one: its context on the device."""
SLOTS_WITHOUT_DEVICE = 2
MOSHI, CODEC, TABLE = "moshi", "codec", "windows"
"""What memory that outlives the process is called."""


class NoRoom(MemoryError):
    """Not even one slot fits on the device."""


@dataclass(slots=True)
class Models:
    """What does not change: weights on a device."""

    moshi: MoshiModel
    codec: Any


@dataclass(slots=True)
class Parts:
    """What an engine consists of. ``voices`` is absent with random weights: there is nobody to sound like.

    ``windows`` says whose windows lie where, if they outlive the process.
    """

    beat: Beat
    shape: MoshiShape
    pieces: TextPieces | NumberedPieces
    voices: Voices | None
    windows: WindowTable | None = None


def device_of(options: EngineOptions) -> torch.device:
    """The device that was asked for."""
    name = options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def prepare(options: EngineOptions, keeping: Keeping | None) -> Models | None:
    """What can be done while another process works on the device: imports, the device, and weights that are there."""
    device = device_of(options)
    torch.zeros(1, device=device)
    stepper_class(options.path, device)
    import_mimi()
    return _found_models(options, keeping, device) if keeping is not None else None


def build(options: EngineOptions, keeping: Keeping | None = None, models: Models | None = None) -> Parts:
    """All parts, not recorded yet. ``models`` are those of ``prepare``.

    Raises: WeightsMissing, NoRoom, NoMemory, and as torch does for a device it has not.
    """
    device = device_of(options)
    if options.threads or device.type == "cuda":
        # Beside a GPU one thread does all there is to do; a pool of them would spin between two beats.
        torch.set_num_threads(options.threads or 1)
    # It plans anew for every length of a piece, for up to a second.
    torch.backends.cuda.enable_cudnn_sdp(False)
    folder = _folder(options)
    models = models or _models(options, keeping, device)
    shape, store = models.moshi.shape, _store(options, device)
    keeps = keeping if options.keep == "windows" else None
    found = keeps.find_table(TABLE, _contents(options, device, windows=True)) if keeps is not None else None
    slots = found[1]["slots"] if found is not None else _slots(options, shape, store, models.codec, device)
    stepper = stepper_class(options.path, device)(
        models.moshi,
        slots,
        store=store,
        sampling=Sampling(greedy=options.greedy),
        spare=SPARE_FRAMES if keeps is not None else 0,
        room=None if keeps is None else keeps.make_tensor if found is None else keeps.find_tensor,
    )
    codec = StreamingCodec(models.codec, slots, codebooks=shape.codebooks)
    pieces = NumberedPieces(shape.text_card) if folder is None else TextPieces(folder / TEXT_FILE)
    voices = None if folder is None else Voices(folder / VOICES_FOLDER, shape)
    windows = None
    if keeps is not None:
        table = found[0] if found is not None else keeps.make_table(TABLE, WindowTable.bytes_of(slots))
        keeps.filled(TABLE, _contents(options, device, windows=True), {"slots": slots})
        windows = WindowTable(table, slots)
    return Parts(Beat(stepper, codec), shape, pieces, voices, windows)


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


def bytes_per_slot(shape: MoshiShape, store: torch.dtype, codec_bytes: int, spare: int = 0) -> int:
    """What one slot takes of the device's memory."""
    row = shape.head_size * store.itemsize + (2 if store == torch.int8 else 0)
    return 2 * shape.layers * shape.heads * (shape.window + spare) * row + codec_bytes


def _slots(options: EngineOptions, shape: MoshiShape, store: torch.dtype, codec: Any, device: torch.device) -> int:
    if options.slots != "auto":
        return int(options.slots)
    if device.type != "cuda":
        return SLOTS_WITHOUT_DEVICE
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    spare = SPARE_FRAMES if options.keep == "windows" else 0
    one = bytes_per_slot(shape, store, StreamingCodec(codec, 1).bytes_per_slot, spare)
    left = SPARE_BYTES + (STANDBY_BYTES if options.standby else 0)
    slots = (free - left) // one
    if slots < 1:
        raise NoRoom(
            f"{free / 1e9:.1f} GB are free on {device}; one slot of {shape.window} frames takes {one / 1e9:.1f} GB and "
            f"{left / 1e9:.1f} GB stay free: shorten window_frames, or use kv=int8"
        )
    return int(slots)


# -- what was asked for ----------------------------------------------------------------------------------------------


def _folder(options: EngineOptions) -> Path | None:
    """Where the files are. Raises: WeightsMissing."""
    if options.weights == "random":
        return None
    folder = Path(options.weights).expanduser()
    check_folder(folder)
    return folder


def _shape(options: EngineOptions) -> MoshiShape:
    return SHAPES[options.shape].with_window(options.window_frames)


def _dtype(options: EngineOptions, device: torch.device) -> torch.dtype:
    name = options.dtype
    if name == "auto":
        name = "bf16" if device.type == "cuda" else "fp32"
    return {"bf16": torch.bfloat16, "fp32": torch.float32}[name]


def _store(options: EngineOptions, device: torch.device) -> torch.dtype:
    return {"auto": _dtype(options, device), "bf16": torch.bfloat16, "int8": torch.int8}[options.kv]


def _contents(options: EngineOptions, device: torch.device, *, windows: bool = False) -> dict[str, Any]:
    """What tells these weights, or windows that were made with them, from others."""
    folder = _folder(options)
    files = [] if folder is None else files_of(folder / MODEL_FILE, folder / CODEC_FILE)
    found = {
        "files": files or f"noise of {options.seed}",
        "shape": options.shape,
        "numbers": str(_dtype(options, device)),
        "codec": options.codec,
        "torch": torch.__version__,
    }
    if windows:
        kind = stepper_class(options.path, device).__name__
        found |= {"window": _shape(options).window, "kept": str(_store(options, device)), "by": kind}
        found |= {"slots": options.slots, "seed": options.seed}
    return found


# -- weights ---------------------------------------------------------------------------------------------------------


def _models(options: EngineOptions, keeping: Keeping | None, device: torch.device) -> Models:
    """Found where they are kept; or loaded, and kept from then on."""
    found = None if keeping is None else _found_models(options, keeping, device)
    if found is not None:
        return found
    folder, contents = _folder(options), _contents(options, device)
    moshi = _empty_moshi(options, device)
    if keeping is None:
        moshi = moshi.to_empty(device=device)
    else:
        keeping.make_weights(MOSHI, moshi)
    if folder is None:
        moshi.fill_with_noise(options.seed)
    else:
        load_moshi(moshi, folder / MODEL_FILE)
    codec = _codec(options, folder)
    codec = _in_its_numbers(codec.to(device), options)
    if keeping is not None:
        keeping.make_weights(CODEC, codec)
        keeping.filled(MOSHI, contents)
        keeping.filled(CODEC, contents)
    return Models(moshi.eval(), codec)


def _found_models(options: EngineOptions, keeping: Keeping, device: torch.device) -> Models | None:
    contents = _contents(options, device)
    moshi = _empty_moshi(options, device)
    with torch.device("meta"):
        codec = empty_mimi(**_codec_sizes(options))
    codec = _in_its_numbers(codec, options)
    if not (keeping.find_weights(MOSHI, moshi, contents) and keeping.find_weights(CODEC, codec, contents)):
        return None
    return Models(moshi.eval(), codec)


def _empty_moshi(options: EngineOptions, device: torch.device) -> MoshiModel:
    # Made in place and in its own numbers: a second copy of 15 GB would not fit everywhere.
    with torch.device("meta"):
        model = MoshiModel(_shape(options))
    return model.to(_dtype(options, device))


def _codec_sizes(options: EngineOptions) -> dict[str, Any]:
    return SMALL if SHAPES[options.shape].code_card == SHAPES["tiny"].code_card else {}


def _codec(options: EngineOptions, folder: Path | None) -> Any:
    if folder is None:
        return noisy_mimi(small=bool(_codec_sizes(options)), seed=options.seed)
    model = empty_mimi(**_codec_sizes(options))
    load_codec(model, folder / CODEC_FILE)
    return model


def _in_its_numbers(codec: Any, options: EngineOptions) -> Any:
    if options.codec == "bf16":
        # Which code is nearest is asked in full precision.
        codec.to(torch.bfloat16).quantizer.float()
    return codec
