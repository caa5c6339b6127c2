"""The authors' objects, loaded as they say; what is missing is named before anything large is read."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .duplex import Duplex

PACKAGES = ("torch", "torchaudio", "transformers", "PIL", "minicpmo")
FILES = ("config.json", "modeling_minicpmo.py", "tokenizer_config.json")
OBJECT_GIB = 28
"""What one loaded object needs of a device: 21.5 GiB of weights by the authors' figures, and room to work."""
NAME = "openbmb/MiniCPM-o-4_5"


class Missing(Exception):
    """A file or a package is not there; the message says which, and what to do."""


def check_packages() -> None:
    """Raises: Missing, naming all that cannot be imported."""
    gone = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if gone:
        raise Missing(
            f"model {NAME}: this interpreter lacks {', '.join(gone)}; install deploy/models/minicpmo/requirements.txt "
            "into an environment of its own and name its interpreter with the option python=…/bin/python"
        )


def check_weights(folder: Path) -> None:
    """Raises: Missing, naming the folder or the files that are not there."""
    if not folder.is_dir():
        raise Missing(
            f"model {NAME}: there is no folder {folder}; download {NAME} and name its folder with weights=DIR"
        )
    gone = [name for name in FILES if not (folder / name).is_file()]
    if not list(folder.glob("*.safetensors")):
        gone.append("*.safetensors")
    if gone:
        raise Missing(f"model {NAME}: {folder} lacks {', '.join(gone)}; download all files of {NAME} there")


def how_many(objects: str, device: str) -> int:
    """The number of objects: as told, or as many as fit into what is free on the device; at least one is tried."""
    if objects != "auto":
        return int(objects)
    if not device.startswith("cuda"):
        return 1
    import torch

    free_bytes, _ = torch.cuda.mem_get_info(device)
    return max(1, int(free_bytes // (OBJECT_GIB << 30)))


def load_duplex(folder: Path, device: str, *, compiled: bool, window: str) -> Duplex:
    """One object, ready for ``prepare``; ``window`` is how it forgets. Raises: as the authors' code does."""
    import torch
    from transformers import AutoModel

    settings: dict[str, Any] = {
        "trust_remote_code": True,
        "attn_implementation": "sdpa",
        "torch_dtype": torch.bfloat16,
        "init_vision": True,
        "init_audio": True,
        "init_tts": True,
        "local_files_only": True,
    }
    model = AutoModel.from_pretrained(str(folder), **settings).eval().to(device)
    duplex = duplex_of(model, device, window)
    if compiled and hasattr(model, "llm"):
        model.llm.forward = torch.compile(model.llm.forward, mode="reduce-overhead")
    return duplex


def duplex_of(model: Any, device: str, window: str) -> Duplex:
    """The duplex side of a loaded model: newer copies of the authors' code keep it beside the other two.

    ``window`` is what they call a sliding window's mode. Without one a call's context grows until the device is full,
    so a copy of the code that has none says so. Raises: Missing for code that has no duplex side.
    """
    if hasattr(model, "as_duplex"):
        if takes(model.as_duplex, "sliding_window_mode"):
            found: Duplex = model.as_duplex(sliding_window_mode=window)
            return found
        print("this copy of the model's code has no window: what a long call takes of the device grows to its end")
        plain: Duplex = model.as_duplex()
        return plain
    if hasattr(model, "init_unified"):
        model.init_unified(device=device, duplex_config={"sliding_window_mode": window})
        kept: Duplex = model.duplex
        return kept
    raise Missing(f"model {NAME}: its code has no duplex side; download all files of {NAME} anew")


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether ``function`` can be given an argument of this name."""
    taken = inspect.signature(function).parameters
    return name in taken or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
