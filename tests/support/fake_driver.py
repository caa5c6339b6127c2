"""A GPU's driver that takes notes: addresses and tickets as the real one gives them, and no memory behind them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

OUT_OF_MEMORY = 2


class FakeDriver:
    """``room`` bytes. What is opened is seen at another address than where it was taken."""

    ELSEWHERE = 1 << 40

    def __init__(self, *, room: int = 1 << 30) -> None:
        self.room = room
        self.calls: list[tuple[Any, ...]] = []
        self.taken: dict[int, int] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            does = getattr(self, f"_{name}", None) if not name.startswith("_") else None
            return int(does(*arguments) or 0) if does is not None else 0

        if name.startswith("__") or name.startswith("_cu"):
            raise AttributeError(name)
        return call

    def _cuMemAlloc_v2(self, address: Any, size: ctypes.c_size_t) -> int:
        if sum(self.taken.values()) + size.value > self.room:
            return OUT_OF_MEMORY
        address._obj.value = (1 + len(self.taken)) << 30
        self.taken[address._obj.value] = size.value
        return 0

    def _cuMemFree_v2(self, address: ctypes.c_uint64) -> None:
        del self.taken[address.value]

    def _cuIpcGetMemHandle(self, ticket: Any, address: ctypes.c_uint64) -> None:
        ticket._obj.bytes[:8] = address.value.to_bytes(8, "little")

    def _cuIpcOpenMemHandle_v2(self, address: Any, ticket: Any, flags: ctypes.c_uint) -> None:
        assert flags.value == 1
        address._obj.value = int.from_bytes(bytes(ticket.bytes[:8]), "little") + self.ELSEWHERE

    def _cuGetErrorName(self, status: int, said: Any) -> None:
        said._obj.value = b"CUDA_ERROR_OUT_OF_MEMORY" if status == OUT_OF_MEMORY else b"CUDA_ERROR_UNKNOWN"
