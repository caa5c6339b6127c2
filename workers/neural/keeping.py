"""Tensors that outlive this process: weights and windows in memory that another process owns.

One block holds a whole model, tensor after tensor, so that there is one thing to open for thousands of weights. What a
block contains is told from its mark: contents that were described otherwise are made anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workers.engine.holding import Block, Holding
from workers.engine.holding_memory import NoMemory

ALIGNED_BYTES = 256
"""Tensors begin at multiples of this, as those of an allocator do."""

Contents = Mapping[str, Any]
"""What tells these contents from others: plain values."""


class Keeping:
    """The blocks of ``holding``, as tensors on one device.

    Everything here is asked for in the same order of names by each process, and by one process at a time: a block that
    is made anew is gone for whoever still works in it.
    """

    def __init__(self, holding: Holding, device: torch.device) -> None:
        self._holding = holding
        self._device = device
        self._place = "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"

    def find_weights(self, name: str, module: nn.Module, contents: Contents) -> bool:
        """Put what is held under all of ``module``'s tensors; false, and nothing done, if it does not contain that."""
        block = self._found(name, contents)
        spots, size = _spots(module)
        if block is None or block.size != size:
            return False
        self._put_under(module, spots, block)
        return True

    def make_weights(self, name: str, module: nn.Module) -> None:
        """Move ``module`` into a block of its own; what is on no device yet is zeros. ``filled`` ends that."""
        spots, size = _spots(module)
        self._put_under(module, spots, self._holding.make(name, size, self._place))

    def find_tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The tensor of that name as it was left. Raises: NoMemory if there is none of this size."""
        block = self._holding.find(name)
        if block is None or block.size != math.prod(shape) * dtype.itemsize:
            raise NoMemory(f"{name} is not there as it was left")
        return self._tensor(block).view(dtype).view(shape)

    def make_tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor of zeros. One that had this name is gone."""
        block = self._holding.make(name, math.prod(shape) * dtype.itemsize, self._place)
        return self._tensor(block).view(dtype).view(shape)

    def find_table(self, name: str, contents: Contents) -> tuple[Any, dict[str, Any]] | None:
        """A buffer on the host that contains this, and what was noted of it; ``None``: there is none."""
        block = self._found(name, contents)
        return None if block is None or block.mark is None else (block.view, json.loads(block.mark)["note"])

    def make_table(self, name: str, size: int) -> Any:
        """A buffer of zeros on the host. One that had this name is gone."""
        return self._holding.make(name, size, "cpu").view

    def filled(self, name: str, contents: Contents, note: Contents | None = None) -> None:
        """The block contains this from now on; whoever finds it gets ``note`` with it."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._holding.mark(name, json.dumps({"contents": contents, "note": note or {}}, sort_keys=True))

    def _found(self, name: str, contents: Contents) -> Block | None:
        block = self._holding.find(name)
        if block is None or block.mark is None or json.loads(block.mark)["contents"] != dict(contents):
            return None
        return block

    def _tensor(self, block: Block) -> Tensor:
        if self._device.type == "cpu":
            return torch.frombuffer(block.view, dtype=torch.uint8)[: block.size]
        return torch.as_tensor(block.view, device=self._device)

    def _put_under(self, module: nn.Module, spots: dict[str, tuple[Tensor, int]], block: Block) -> None:
        whole = self._tensor(block)
        with torch.no_grad():
            for name, (tensor, at) in spots.items():
                held = whole[at : at + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
                if tensor.device.type != "meta" and block.mark is None:
                    held.copy_(tensor)
                _replace(module, name, held)


def files_of(*paths: Path) -> list[list[Any]]:
    """What tells these files from others of their names: their sizes, and when they were written."""
    return [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]


def _spots(module: nn.Module) -> tuple[dict[str, tuple[Tensor, int]], int]:
    """Where each tensor lies in its block, by name, and the size of it all."""
    found, at = {}, 0
    for name, tensor in _tensors(module):
        found[name] = (tensor, at)
        at += -(-tensor.nbytes // ALIGNED_BYTES) * ALIGNED_BYTES
    return found, at


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _replace(module: nn.Module, name: str, tensor: Tensor) -> None:
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    if last in owner._parameters:
        owner._parameters[last] = nn.Parameter(tensor, requires_grad=False)
    else:
        owner._buffers[last] = tensor
